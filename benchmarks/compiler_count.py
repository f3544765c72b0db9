"""The floating-point operations that XLA counts in a function.

XLA counts the body of a loop once, however often it runs. So the body is counted by itself, too, and added for each of
the other times that a `scan`, which is not unrolled, runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun


def compiler_count(function: Callable[..., Any], *arguments: Any) -> int:
    """The operations of one call, before any optimisation. Loops within loops or branches are not looked for."""
    loops = [part for part in jax.make_jaxpr(function)(*arguments).eqns if part.primitive.name == "scan"]
    repeated = sum((loop.params["length"] - 1) * _counted_once(_body(loop), *_inputs(loop)) for loop in loops)
    return _counted_once(function, *arguments) + repeated


def _counted_once(function: Callable[..., Any], *arguments: Any) -> int:
    return int(jax.jit(function).lower(*arguments).cost_analysis()["flops"])


def _body(loop: Any) -> Callable[..., Any]:
    return jaxpr_as_fun(loop.params["jaxpr"])


def _inputs(loop: Any) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in loop.params["jaxpr"].in_avals]
