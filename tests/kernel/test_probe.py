"""The first layers of Δ_M and g_M, as the kernel hands them out: XLA's probe, and training left as it is.

`test_learning` holds them to the plain reference, for any composition.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from srgdqn import tasks
from srgdqn.config.configure import configure
from srgdqn.training import Trained, train_rounds
from srgdqn.training.lane import PLAIN, Instruments
from srgdqn.training.probes import first_layer
from tiny import bits, reproducible, tiny

pytestmark = pytest.mark.usefixtures("kernel")

ROUNDS, FIRST, BLOCKS = 11, 2, 13  # learning starts in the third block; the last is not filled
# Of a vector's length, in single precision: in the first outer iteration, and after ten, which let rounding grow.
CLOSE, GROWN = 2e-5, 5e-4


@functools.cache
def trained(kernel: str, *, probed: bool = True, **options: Any) -> Trained:
    configuration, task = tiny(kernel=kernel, **{"rounds": ROUNDS, "eta": 0.01, "alpha": 0.01, **options})
    return train_rounds(configuration, task, instruments=Instruments(probe=first_layer) if probed else PLAIN, workers=1)


def made(vectors: np.ndarray) -> np.ndarray:
    """Which blocks have an outer iteration: (rounds, blocks)."""
    there = np.isfinite(vectors)
    assert (there.all(-1) == there.any(-1)).all()
    return np.asarray(there.all(-1))


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest distance of two stacks of vectors, in units of the mean length of a round's: a pick on which all
    units rest has no gradient at all.
    """
    distances = np.linalg.norm(np.float64(one) - other, axis=-1)
    return float((distances / np.linalg.norm(np.float64(other), axis=-1).mean(1, keepdims=True)).max())


@pytest.mark.parametrize("readings", ["corrected", "printed"])  # which have Adam receive Δ_M, and g_M
@pytest.mark.parametrize("hidden", [(4,), (20, 7)])
@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn"])
def test_vectors_are_those_of_xla(algorithm: str, hidden: tuple[int, ...], readings: str) -> None:
    ours, theirs = (
        trained(kernel, algorithm=algorithm, hidden=hidden, readings=readings) for kernel in ("native", "xla")
    )
    assert ours.probed_blocks is not None
    assert ours.probed_blocks.tolist() == list(range(BLOCKS))
    for found, wanted in zip(ours.probed, theirs.probed, strict=True):
        assert found.shape == wanted.shape == (ROUNDS, BLOCKS, 5 * hidden[0])
        assert made(found).tolist() == made(wanted).tolist() == [[FIRST <= block < 12 for block in range(13)]] * ROUNDS
        assert apart(found[:, FIRST : FIRST + 1], wanted[:, FIRST : FIRST + 1]) < CLOSE
        assert apart(found[:, FIRST:12], wanted[:, FIRST:12]) < GROWN
    delta, gradient = (stack[:, FIRST:12] for stack in ours.probed)
    assert apart(delta, gradient) > 0.1


@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn"])
@pytest.mark.parametrize("starts", [64, 1_000])
def test_so_they_are_at_the_papers_own_sizes(algorithm: str, starts: int) -> None:
    budget = dict(rounds=9, steps=1_312, learning_starts=starts, evaluation_interval=None, seed=7)
    first = configure("MountainCar", algorithm, **budget).training.first_learning_block
    both = [
        train_rounds(
            configuration,
            tasks.make(configuration.task),
            instruments=Instruments(probe=first_layer),
            probe_at=lambda blocks: blocks >= first,
        )
        for kernel in ("native", "xla")
        for configuration in [configure("MountainCar", algorithm, kernel=kernel, **budget)]
    ]
    for found, wanted in zip(both[0].probed, both[1].probed, strict=True):
        assert made(found).all()
        assert apart(found[:, :1], wanted[:, :1]) < CLOSE
        assert apart(found[:, :10], wanted[:, :10]) < GROWN


def test_without_inner_iterations_there_is_only_delta_0() -> None:
    found, wanted = (np.asarray(trained(kernel, inner_iterations=0).probed) for kernel in ("native", "xla"))
    assert np.array_equal(*found, equal_nan=True)
    assert apart(found[0, :, FIRST:12], wanted[0, :, FIRST:12]) < CLOSE


@pytest.mark.parametrize("options", [dict(), dict(readings="printed"), dict(algorithm="svr-dqn"), dict(inner_batch=3)])
def test_training_is_the_same_with_and_without_the_probe(options: dict[str, Any]) -> None:
    watched, plain = (trained("native", probed=probed, **options) for probed in (True, False))
    assert plain.probed is None
    assert reproducible(watched.tables) == reproducible(plain.tables)
    assert bits(watched.policies) == bits(plain.policies)


def test_rounds_that_diverge_have_vectors_until_then() -> None:
    run = trained("native", eta=0.5, seed=1)
    ended = run.tables["rounds"]["diverged_at"]
    finished = np.ma.getmaskarray(ended)
    assert 0 < finished.sum() < ROUNDS
    last = np.where(finished, 12, np.ma.filled(ended, 0) // 16)
    for vectors in run.probed:
        there = np.isfinite(vectors).any(-1)
        # The outer iteration that went wrong has vectors, too; they need not be finite.
        for number in range(ROUNDS):
            assert not there[number, :FIRST].any()
            assert not there[number, last[number] :].any()
            assert there[number, FIRST : last[number] - 1].all()
