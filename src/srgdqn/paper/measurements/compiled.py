"""Functions of measurements, compiled once for all cells that ask the same of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp

from srgdqn.training.precision import is_double
from srgdqn.training.single_flight import Once
from srgdqn.training.xla_flags import some_effort

_programs: Once[Any] = Once(64)


def call_compiled(key: Hashable, function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments). Functions given with equal keys must do the same; they share a program for each shape."""
    leaves, structure = jax.tree.flatten(arguments)
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    program, _ = _programs.get(
        (key, structure, shapes, is_double()), lambda: jax.jit(function).lower(*arguments).compile(some_effort())
    )
    return program(*arguments)
