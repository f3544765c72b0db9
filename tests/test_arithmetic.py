"""Operations by formula, held to the compiler's count."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.configure import configure

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_targets_that_are_given_are_computed_once() -> None:
    from arithmetic import FULL_BATCH, INNER, gradient, parts_of_a_block, targets

    layers = (2, 20, 3)
    moving, frozen = (
        parts_of_a_block(configure("MountainCar", "srg-dqn", hidden=(20,), target=target), layers)
        for target in ("current", "hard")
    )
    assert frozen[FULL_BATCH] == moving[FULL_BATCH]
    saved = moving[INNER].total - frozen[INNER].total
    assert saved == 16 * 2 * targets(layers, 1).total
    assert gradient(layers, 1, own_targets=False).total + targets(layers, 1).total == gradient(layers, 1).total


def test_xla_counts_a_loops_body_once_and_we_every_time() -> None:
    import jax
    import jax.numpy as jnp

    from problems import compiler_count

    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (carry @ x, None), x, None, length=7)[0]

    def written_out(x: Any) -> Any:
        return functools.reduce(lambda carry, _: carry @ x, range(7), x)

    square = jax.ShapeDtypeStruct((10, 10), jnp.float32)
    product = 2 * 10**3
    assert jax.jit(loop).lower(square).cost_analysis()["flops"] == pytest.approx(product, rel=0.01)
    assert compiler_count(loop, square) == pytest.approx(7 * product, rel=0.01)
    assert compiler_count(written_out, square) == 7 * product


# Those that have a formula (`arithmetic.COUNTED`).
_COUNTED = [name for name in ALGORITHMS if name not in ("dqn-storm", "dqn-mars")]


@pytest.mark.parametrize(
    ("algorithm", "hidden"), [*((name, (20, 20)) for name in _COUNTED), ("srg-dqn", (20,)), ("svr-dqn", (64, 64))]
)
def test_the_compiler_counts_somewhat_more(algorithm: str, hidden: tuple[int, ...]) -> None:
    from problems import counts_of

    # Products with one-hot rows are the largest share of the difference, and the smaller the wider the layers are.
    least = {(20,): 0.65, (20, 20): 0.90, (64, 64): 0.96}[hidden]
    row = counts_of("MountainCar", hidden, algorithm)
    assert least < row["formula"] / row["compiler"] < 1
