"""The door to `srgdqn.learner.estimators`: estimators of the gradient, and how to register one."""

from srgdqn.learner.estimators import *  # noqa: F403
