"""What most measurements are tested in: double precision, and programs that are compiled fast rather than run fast."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import pytest
from jax.stages import Lowered

from srgdqn.training import program

# Compiled without optimising, a program takes a fraction of the time to make; here they run for an instant.
OPTIONS = dict(
    xla_backend_optimization_level=0, xla_cpu_use_fusion_emitters=False, xla_cpu_parallel_codegen_split_count=1
)

# Programs that are made this way are kept from other tests.
CACHE: dict[Any, Any] = {}


def options() -> dict[str, Any] | None:
    try:
        jax.jit(lambda x: x + 1, compiler_options=OPTIONS)(1.0)
    except jax.errors.JaxRuntimeError:  # another version of XLA may have other options
        return None
    return OPTIONS


@contextlib.contextmanager
def unoptimised() -> Iterator[None]:
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def double() -> Iterator[None]:
    """Double precision, in which measurements and the reference differ by rounding alone, 1e-16 times a few steps."""
    compile_, quick = Lowered.compile, options()
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True), unoptimised():
        patch.setattr(Lowered, "compile", lambda self, compiler_options=None: compile_(self, quick))
        patch.setattr(program, "_cache", CACHE)
        yield
