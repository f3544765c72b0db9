"""What this process computes with: jax's precision and random numbers, and flags of the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp

from srgdqn.errors import InputError

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Options = dict[str, Any]


def is_double() -> bool:
    """Whether the calling thread computes in double precision, a setting of jax that belongs to a thread."""
    return jnp.result_type(float) == jnp.float64


def in_this_precision(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """The function, computing in the calling thread's precision whichever thread it will run in."""
    double = is_double()

    def run(*given: Given.args, **named: Given.kwargs) -> Answer:
        with jax.enable_x64(double):
            return function(*given, **named)

    return run


def check_random_numbers() -> None:
    """An `InputError` if jax's random numbers are not those that a seed stands for, here or in one process of several:
    those with `jax_threefry_partitionable` on, as it is by default.
    """
    if not jax.config.values["jax_threefry_partitionable"]:
        raise InputError(
            "jax_threefry_partitionable is off, and with it off a seed gives other random numbers than everywhere "
            "else. Leave it on (JAX_THREEFRY_PARTITIONABLE=1)."
        )


# The older emitter of fused loops compiles a training program in 3 s where the newer takes 5, and neither's is faster.
_ANY: Options = {"xla_cpu_use_fusion_emitters": False}
# Matrices are too small to be shared out among threads, each of which has lanes of its own.
_SOME: Options = {**_ANY, "xla_backend_optimization_level": "1", "xla_cpu_multi_thread_eigen": False}
_NONE: Options = {**_ANY, "xla_backend_optimization_level": "0"}


@functools.cache
def hot_program_flags() -> Options:
    """Compiler flags for what runs often or long. More effort was measured to make no program here faster."""
    return _known(_SOME)


@functools.cache
def single_call_flags() -> Options:
    """Compiler flags for what is called once per chunk."""
    return _known(_NONE)


def _known(options: Options) -> Options:
    """Those of the options that this version of XLA has: what another calls them is no reason to fail."""
    return {name: value for name, value in options.items() if _is_known(name, value)}


@functools.cache
def _is_known(name: str, value: Any) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
