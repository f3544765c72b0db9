"""Rounds of several chunks: those still active move together, and neither that nor their company changes a bit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.training import train_rounds
from srgdqn.training.job_split import most_rounds, shared_out
from srgdqn.training.lane import STEPPED, BlockLog
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.loop import segments
from srgdqn.training.program import programs_for
from tiny import LANES, LaneSegment, bits, lane_segments, tiny

# Rounds need different numbers of steps for as many episodes, and the wild ones stop early because they diverge.
CALM: dict[str, Any] = dict(episodes=24, time_limit=200, eta=1e-3)
WILD: dict[str, Any] = dict(steps=3_200, time_limit=200, eta=3.0, alpha=1.0)


def told(rounds: list[int], options: dict[str, Any], blocks: int = 3) -> list[LaneSegment]:
    configuration, task = tiny(**options)
    programs, _ = programs_for(configuration, task)
    return [
        segment._replace(lanes=jax.tree.map(_copy, segment.lanes._replace(key=None)))
        for segment in lane_segments(configuration, programs, rounds, segment_blocks=blocks)
    ]


def _copy(leaf: Any) -> np.ndarray:
    return np.array(leaf)


def row(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def lived(log: BlockLog, index: int) -> np.ndarray:
    return (log.flags[index] & STEPPED).astype(bool)


@pytest.mark.parametrize("options", [CALM, WILD])
def test_a_round_of_several_chunks_is_the_round_alone(options: dict[str, Any]) -> None:
    rounds = list(range(2 * LANES + 3))
    together = told(rounds, options)
    for place in (0, LANES - 1, LANES, 2 * LANES, 2 * LANES + 2):
        alone = told([rounds[place]], options)
        for mine, one in zip(together, alone, strict=False):
            assert bits(row(mine.log, place)) == bits(row(one.log, 0))
        assert bits(row(together[-1].lanes, place)) == bits(row(alone[-1].lanes, 0))
        assert bits(row(together[-1].evaluation, place)) == bits(row(alone[-1].evaluation, 0))
        # Once its round has stopped it lives no more, whatever its lane does.
        assert not any(lived(segment.log, place).any() for segment in together[len(alone) :])


@pytest.mark.parametrize("options", [CALM, WILD])
def test_rounds_still_active_have_as_few_chunks_as_they_fit_into(options: dict[str, Any]) -> None:
    configuration, task = tiny(**options)
    programs, calls = programs_for(configuration, task)[0], 0

    def counted(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        return programs.segment(*given)

    rounds = LaneRounds(configuration, programs._replace(segment=counted), range(3 * LANES))
    rounds.begin()
    active, used = [3 * LANES], list[int]()
    for _ in segments(rounds, most=3):
        used.append(calls)
        calls = 0
        active.append(int(rounds.lanes.active.sum()))
    assert used == [-(-count // LANES) for count in active[:-1]]
    assert used[0] == 3
    assert used[-1] == 1


@pytest.mark.parametrize(
    ("rounds", "together", "workers", "sizes"),
    [
        (1, 25, 2, [1]),
        (60, 25, 2, [50, 10]),
        (400, 25, 2, [100, 100, 100, 100]),
        (10, 8, 2, [8, 2]),
        (200, 8, 1, [96, 96, 8]),
    ],
)
def test_jobs_keep_every_worker_busy_and_are_not_too_large(
    rounds: int, together: int, workers: int, sizes: list[int]
) -> None:
    jobs = shared_out([range(rounds)], together, workers, 100)
    assert [len(job) for job in jobs] == sizes
    assert [number for job in jobs for number in job] == list(range(rounds))


@pytest.mark.parametrize(("size", "chunks"), [(1, 4), (2**23, 4), (2**23 + 1, 3), (2**24, 2), (2**25, 1), (2**40, 1)])
def test_large_states_have_fewer_chunks_to_a_job(size: int, chunks: int) -> None:
    programs, _ = programs_for(*tiny())
    assert most_rounds(programs._replace(chunk_bytes=size)) == chunks * programs.width


def test_the_size_of_a_chunk_is_that_of_its_arrays() -> None:
    programs, _ = programs_for(*tiny())
    lanes = programs.init(jnp.uint32(0), jnp.zeros(LANES, jnp.uint32), jnp.ones(LANES, bool))
    assert programs.chunk_bytes == sum(leaf.nbytes for leaf in jax.tree.leaves(lanes))


def test_evaluations_do_not_depend_on_chunks() -> None:
    """Of rounds that stop on the way, too: they are evaluated at the end, with the parameters that they had."""
    configuration, task = tiny(**WILD, rounds=2 * LANES, evaluation_interval=320)
    one, two = (train_rounds(configuration, task, workers=workers).tables for workers in (1, 2))
    lost = one["rounds"]["diverged_at"].compressed()
    assert len(lost) > 0
    assert (lost < 3_000).all()
    assert bits(one["evaluations"]) == bits(two["evaluations"])
    assert set(one["evaluations"]["round"]) == set(range(2 * LANES))
