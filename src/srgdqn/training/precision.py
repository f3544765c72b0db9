"""Single or double precision: a setting of jax that belongs to a thread, carried into the threads of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def is_double() -> bool:
    """Whether the calling thread computes in double precision."""
    return jnp.result_type(float) == jnp.float64


def in_this_precision(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """The function, computing in the calling thread's precision whichever thread it will run in."""
    double = is_double()

    def run(*given: Given.args, **named: Given.kwargs) -> Answer:
        with jax.enable_x64(double):
            return function(*given, **named)

    return run
