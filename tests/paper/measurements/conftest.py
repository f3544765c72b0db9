"""What most measurements are tested in: double precision, and programs that are compiled fast rather than run fast."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import pytest
from jax.stages import Lowered

from srgdqn.training import program
from srgdqn.training.program import Once

# Compiled without optimising, a program takes a fraction of the time to make; here they run for an instant.
OPTIONS = dict(
    xla_backend_optimization_level=0, xla_cpu_use_fusion_emitters=False, xla_cpu_parallel_codegen_split_count=1
)

# Programs that are made this way are kept from other tests.
CACHE: Once[Any] = Once(64)


def options() -> dict[str, Any] | None:
    try:
        jax.jit(lambda x: x + 1, compiler_options=OPTIONS)(1.0)
    except jax.errors.JaxRuntimeError:  # another version of XLA may have other options
        return None
    return OPTIONS


def quick_jit(jit: Any, quick: dict[str, Any] | None) -> Any:
    """As `jax.jit`, with the options where there may be some: not within a function that is compiled itself."""

    def compiled(function: Any, **how: Any) -> Any:
        inner, outer = jit(function, **how), jit(function, **{"compiler_options": quick, **how})

        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((given, named)))
            return (inner if traced else outer)(*given, **named)

        call.lower = inner.lower  # type: ignore[attr-defined]
        return call

    return compiled


@pytest.fixture(scope="module")
def double() -> Iterator[None]:
    """Double precision, in which measurements and the reference differ by rounding alone, 1e-16 times a few steps."""
    compile_, quick = Lowered.compile, options()
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
        patch.setattr(Lowered, "compile", lambda self, compiler_options=None: compile_(self, quick))
        patch.setattr(jax, "jit", quick_jit(jax.jit, quick))
        patch.setattr(program, "_cache", CACHE)
        yield
