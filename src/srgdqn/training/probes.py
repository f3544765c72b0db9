"""Probes that XLA's programs and the kernel both have."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from srgdqn.learner.networks import MLP, Parameters
from srgdqn.learner.outer_iteration import LearnerState, Trace


class FirstLayer(NamedTuple):
    """The first layer's part of a vector in parameter space, flat: weights first, then biases."""

    delta: Float[Array, " size"]
    gradient: Float[Array, " size"]


def first_layer(learner: LearnerState, trace: Trace) -> FirstLayer:
    """A probe: the first layers of Δ_M and g_M (of Δ_0, where there are no inner iterations)."""
    del learner
    return FirstLayer(_flat(trace.last_delta), _flat(trace.last_gradient))


def _flat(parameters: Parameters) -> Float[Array, " size"]:
    assert isinstance(parameters, MLP)  # Table 2 is about the built-in perceptron's first layer
    first = parameters.layers[0]
    return jnp.concatenate([first.weight.ravel(), first.bias])
