"""Lanes side by side: neither their places nor a neighbour that diverges matter; evaluations come when they are due."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.training import train_rounds
from srgdqn.training.budget import limits_of
from srgdqn.training.lane import STEPPED, BlockLog, Lane
from srgdqn.training.program import lane_numbers, programs_for
from tiny import BLOCK, LANES, LaneSegment, bits, lane_segments, tiny


def copied(tree: Any) -> Any:
    """The arrays as they are now: a compiled program may write its next result over them."""

    def copy(leaf: Any) -> np.ndarray:
        is_key = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.array(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(copy, tree)


def lane(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def segments(rounds: list[int], blocks: int = 256, **options: Any) -> list[LaneSegment]:
    configuration, task = tiny(**options)
    programs, _ = programs_for(configuration, task)
    return [
        segment._replace(lanes=copied(segment.lanes))
        for segment in lane_segments(configuration, programs, rounds, segment_blocks=blocks)
    ]


def test_spare_lanes_are_frozen_from_the_start() -> None:
    [segment] = segments([5])
    assert (segment.log.flags[0] & STEPPED).all()
    assert not (segment.log.flags[1:] & STEPPED).any()
    assert not segment.lanes.ring[1:].any()
    assert segment.lanes.episodes[0] > 0
    assert not segment.lanes.episodes[1:].any()
    assert segment.lanes.learner.iterations.tolist() == [10, 0, 0, 0]


@pytest.mark.parametrize(
    ("steps", "interval", "due"),
    [
        (200, None, [200]),
        (200, 50, [64, 112, 160, 200]),  # 208 is beyond the budget's end
        (208, 50, [64, 112, 160, 208]),
        (160, 16, [16, 32, 48, 64, 80, 96, 112, 128, 144, 160]),
        (100, 7, [16, 32, 48, 64, 80, 96, 100]),  # at most one after each block
        (200, 5_000, [200]),
    ],
)
def test_an_evaluation_comes_with_the_first_block_that_ends_not_before_it_is_due(
    steps: int, interval: int | None, due: list[int]
) -> None:
    configuration, task = tiny(steps=steps, evaluation_interval=interval, rounds=2)
    for blocks in (2, 256):
        table = train_rounds(configuration, task, segment_blocks=blocks).tables["evaluations"]
        assert table["step"].tolist() == [step for step in due for _ in range(3)] * 2


def test_segments_are_never_longer_than_asked_for_and_end_with_the_budget() -> None:
    run = segments([0, 1], blocks=5, steps=300, evaluation_interval=100)
    # Evaluations are due after blocks 7, 13 and 19; the budget's end is in block 19.
    assert [segment.blocks_done for segment in run] == [5, 7, 12, 13, 18, 19]
    assert [segment.log.reward.shape for segment in run] == [(LANES, count, BLOCK) for count in (5, 2, 5, 1, 5, 1)]
    assert [segment.last for segment in run] == [False] * 5 + [True]
    assert [segment.evaluation is not None for segment in run] == [False, True, False, True, False, True]


# Divergence


class Story(NamedTuple):
    """What happened, block by block: the lanes before the first block and after each, and the logs."""

    lanes: list[Lane]
    logs: list[BlockLog]


BLOCKS = 20


def story(eta: list[float]) -> Story:
    """A chunk in which every lane has a step size of its own."""
    configuration, task = tiny(steps=BLOCKS * BLOCK)
    programs, _ = programs_for(configuration, task)
    numbers = lane_numbers(configuration, LANES) | {"eta": jnp.array(eta, jnp.float32)}
    lanes = programs.init(jnp.uint32(0), jnp.arange(LANES, dtype=jnp.uint32), jnp.ones(LANES, bool))
    states, logs = [copied(lanes)], []
    for index in range(BLOCKS):
        lanes, log = programs.segment(
            lanes,
            numbers,
            jnp.int32(index),
            jnp.int32(1),
            limits_of(configuration.training, configuration.task.time_limit),
            None,
        )
        states.append(copied(lanes))
        logs.append(jax.tree.map(lambda leaf: np.array(leaf)[:, 0], log))
    return Story(states, logs)


@pytest.fixture(scope="module")
def calm() -> Story:
    return story([0.01, 0.01, 0.01, 0.01])


@pytest.fixture(scope="module", params=[100.0, float("nan")])
def wild(request: pytest.FixtureRequest) -> Story:
    """Lane 1 has a step size that it cannot survive, sooner or later."""
    return story([0.01, request.param, 0.01, 0.01])


def test_a_neighbour_that_diverges_changes_no_bit(calm: Story, wild: Story) -> None:
    assert wild.lanes[-1].diverged_at.tolist()[1] > 0
    for index in (0, 2, 3):
        assert bits(lane(calm.lanes, index)) == bits(lane(wild.lanes, index))
        assert bits(lane(calm.logs, index)) == bits(lane(wild.logs, index))


def test_a_round_is_frozen_at_its_first_outer_iteration_that_is_not_finite(calm: Story, wild: Story) -> None:
    sick = [lane(log, 1) for log in wild.logs]
    states = [lane(state, 1) for state in wild.lanes]
    learned = range(2, BLOCKS)  # outer iterations start with the third block
    end = next(block for block in learned if not np.isfinite([sick[block].delta_norm, sick[block].theta_norm]).all())
    assert [int(state.diverged_at) for state in states] == [-1] * (end + 1) + [(end + 1) * BLOCK] * (BLOCKS - end)
    assert [bool(state.active) for state in states] == [True] * (end + 1) + [False] * (BLOCKS - end)
    # Its parameters are the last finite ones: those from before that outer iteration.
    for state in states:
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.learner))
    assert bits(states[end + 1].learner) == bits(states[end].learner)
    # It stays where it is.
    for state in states[end + 2 :]:
        assert bits(state) == bits(states[end + 1])
    # Its steps count up to the end of that block, and not beyond.
    lived = [bool((log.flags & STEPPED).any()) for log in sick]
    assert lived == [True] * (end + 1) + [False] * (BLOCKS - end - 1)
    assert all((log.flags & STEPPED).all() for log in sick[: end + 1])
    assert bits(sick[:2]) == bits([lane(log, 1) for log in calm.logs[:2]])


def test_the_tables_of_a_run_that_diverges() -> None:
    trained = train_rounds(*tiny(rounds=4, eta=100.0, steps=2_000, evaluation_interval=32))
    rounds, curves, evaluations = (trained.tables[name] for name in ("rounds", "curves", "evaluations"))
    assert not rounds["diverged_at"].mask.any()
    assert len(set(rounds["diverged_at"].tolist())) > 1
    for number in range(4):
        end = rounds["diverged_at"][number]
        assert rounds["steps"][number] == end
        assert not rounds["completed"][number]
        assert rounds["outer_iterations"][number] == (end - 48) / 16 + 1
        assert curves["step"][curves["round"] == number][-1] == end
        # Judged at every interval up to there, and once at the end.
        judged = np.unique(evaluations["step"][evaluations["round"] == number]).tolist()
        assert judged == sorted({*range(32, end, 32), end})
    assert all(np.isfinite(array).all() for array in trained.policies.values())
