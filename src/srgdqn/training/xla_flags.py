"""How hard the compiler tries, measured: more than some makes no program here faster, and takes longer."""

from __future__ import annotations

import functools
from typing import Any

import jax

Options = dict[str, Any]

# The older emitter of fused loops compiles a training program in 3 s where the newer takes 5, and neither's is faster.
_ANY: Options = {"xla_cpu_use_fusion_emitters": False}
# Matrices are too small to be shared out among threads, each of which has lanes of its own.
_SOME: Options = {**_ANY, "xla_backend_optimization_level": "1", "xla_cpu_multi_thread_eigen": False}
_NONE: Options = {**_ANY, "xla_backend_optimization_level": "0"}


@functools.cache
def some_effort() -> Options:
    """For what runs often or long."""
    return _known(_SOME)


@functools.cache
def no_effort() -> Options:
    """For what is called once per chunk, and is not worth any."""
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
