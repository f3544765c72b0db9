"""How many floating-point operations per second the machine makes in products of matrices, small and large.

`measure_rates` asks processes of this file, one pinned to each core, which compute at the same time. Each takes a stack
of products as training does: the lanes' small matrices one after the other, by XLA (compiled as training is) and by
NumPy's BLAS. Lanes share nothing, so that two cores are two processes with one thread each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from measuring import pinned_to, without_a_cache_of_programs

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}
_LIMIT = 300.0  # seconds for any process
_IN_ONE_CALL = 10_000_000  # operations, so that calling compiled programs takes next to no share of the time


class Product(NamedTuple):
    """A stack of products of matrices of rows × inner and inner × columns."""

    rows: int
    inner: int
    columns: int
    stack: int = 25  # as many as training has lanes by default

    @property
    def name(self) -> str:
        """How the product is called in tables."""
        return f"{self.rows}×{self.inner} @ {self.inner}×{self.columns}"

    @property
    def operations(self) -> int:
        """Multiply-adds count as 2."""
        return 2 * self.rows * self.inner * self.columns * self.stack


# With hidden 20+20, N = 64 and b = 1: the middle layer's products.
ONE_STEP = Product(1, 20, 20)  # the policy acts
FEW_ROWS = Product(4, 20, 20)  # S and S' of two picks
WHOLE_BATCH = Product(128, 20, 20)  # S and S' of D
WEIGHT_GRADIENT = Product(20, 64, 20)  # summed over D
LARGE = Product(1024, 1024, 1024, stack=1)  # as fast as the machine gets
PRODUCTS = (ONE_STEP, FEW_ROWS, WHOLE_BATCH, WEIGHT_GRADIENT, LARGE)

Rates = dict[str, dict[str, float]]
"""Operations per second, by the product's name and by what computes it."""


def measure_rates(cores: Sequence[int], seconds: float) -> Rates:
    """The rates of all these cores together, each product taking so many seconds."""
    with ExitStack() as stack:
        children = [stack.enter_context(_started(core, seconds)) for core in cores]
        for child in children:
            _line(child)  # it has compiled
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        answers = [json.loads(_line(child)) for child in children]
    return {
        product.name: {
            library: sum(answer[product.name][library] for answer in answers) for library in answers[0][product.name]
        }
        for product in PRODUCTS
    }


def _started(core: int, seconds: float) -> subprocess.Popen[str]:
    with pinned_to([core]):
        return subprocess.Popen(
            [sys.executable, __file__, "--seconds", str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**without_a_cache_of_programs(), **_ONE_THREAD},
        )


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    if line := child.stdout.readline():
        return line
    raise RuntimeError(f"the process that measures matrix products ended with code {child.wait(_LIMIT)}.")


def _by_xla(product: Product) -> Callable[[], int]:
    """A call that repeats the product, each time with an operand that depends on the product before."""
    import jax
    import jax.numpy as jnp

    from srgdqn.training.jax_setup import hot_program_flags

    repeats = max(1, _IN_ONE_CALL // product.operations)
    left_key, right_key = jax.random.split(jax.random.key(0))
    left = jax.random.uniform(left_key, (product.stack, product.rows, product.inner), maxval=1 / product.inner)
    right = jax.random.uniform(right_key, (product.stack, product.inner, product.columns))

    def repeat(left: jax.Array, right: jax.Array) -> jax.Array:
        def once(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            left, result = carry
            # Or the compiler might take the product out of the loop.
            left = jax.lax.dynamic_update_slice(left, result[:, :1, :1], (0, 0, 0))
            return left, left @ right

        return jax.lax.fori_loop(0, repeats, once, (left, jnp.zeros_like(left @ right)))[1]

    compiled = jax.jit(repeat).lower(left, right).compile(hot_program_flags())

    def call() -> int:
        compiled(left, right).block_until_ready()
        return repeats * product.operations

    return call


def _by_numpy(product: Product) -> Callable[[], int]:
    import numpy as np

    generator = np.random.default_rng(0)
    left = generator.random((product.stack, product.rows, product.inner), np.float32)
    right = generator.random((product.stack, product.inner, product.columns), np.float32)
    result = np.empty((product.stack, product.rows, product.columns), np.float32)

    def call() -> int:
        np.matmul(left, right, out=result)
        return product.operations

    return call


def _rate(call: Callable[[], int], seconds: float) -> float:
    call()  # memory is allocated, caches are warm
    operations, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        operations += call()
    return operations / elapsed


def _measure_here(seconds: float) -> None:
    calls = {each.name: {"XLA": _by_xla(each), "NumPy": _by_numpy(each)} for each in PRODUCTS}
    print("ready", flush=True)
    sys.stdin.readline()
    rates = {
        name: {library: _rate(call, seconds) for library, call in by_library.items()}
        for name, by_library in calls.items()
    }
    print(json.dumps(rates), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each product")
    _measure_here(parser.parse_args().seconds)
