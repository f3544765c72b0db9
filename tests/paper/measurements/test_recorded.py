"""A recorded run is the ordinary one, and what is kept of it is enough to make its outer iterations again."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

import reference
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.interrupts import StopRequestedError
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import batch_rows
from srgdqn.paper.measurements.recorded import (
    RecordedRun,
    at_steps,
    batch_at,
    block_of,
    record,
)
from srgdqn.training import train_rounds
from srgdqn.training.batches import BatchContext, from_replay
from srgdqn.training.draws import draw_block
from srgdqn.training.lane import round_keys
from srgdqn.training.program import programs_for
from tiny import BLOCK, HIDDEN, LANES, bits, lane_segments, reproducible, tiny
from translation import CLOSE, distance, flat, from_transitions, options_of

pytestmark = pytest.mark.usefixtures("double")

SIZES = (4, HIDDEN, 2)
ROUNDS, STEPS, RING = 6, 200, 48
BLOCKS = 13  # the last is not filled, and has no outer iteration
FIRST = 2  # learning starts at step 40, which is in the third block
OPTIONS: dict[str, Any] = dict(rounds=ROUNDS, steps=STEPS, inner_iterations=8, reward_scale=0.5, eta=0.01, alpha=0.01)


def everything(blocks: np.ndarray) -> np.ndarray:
    return np.ones(len(blocks), bool)


def recorded(probe_at: Any = everything, **options: Any) -> RecordedRun:
    configuration, _ = tiny(**{**OPTIONS, **options})
    return record(configuration, lambda share: None, threading.Event(), probe_at=probe_at)


@pytest.fixture(scope="module")
def run(double: None) -> RecordedRun:
    return recorded()


@pytest.fixture(scope="module")
def diverging(double: None) -> RecordedRun:
    """Some rounds of the first chunk diverge, and all of the second, so that it ends before the other."""
    run = recorded(eta=0.5, seed=1, evaluation_interval=48)
    assert 0 < len(run.finite) < LANES
    assert max(run.finite) < LANES
    return run


# The recording


def test_a_recorded_run_is_the_ordinary_one_to_the_bit(run: RecordedRun) -> None:
    ordinary = train_rounds(run.configuration, run.task)
    assert reproducible(run.trained.tables) == reproducible(ordinary.tables)
    assert bits(run.trained.policies) == bits(ordinary.policies)


def test_the_recording_is_all_that_went_through_the_ordinary_ring(run: RecordedRun) -> None:
    assert run.recording.shape == (ROUNDS, BLOCKS * BLOCK, 2 * SIZES[0] + 3)
    programs, _ = programs_for(run.configuration, run.task)
    for chunk in (range(LANES), range(LANES, ROUNDS)):
        for segment in lane_segments(run.configuration, programs, chunk, segment_blocks=1):
            written = segment.blocks_done * BLOCK
            ring = np.asarray(segment.lanes.ring)[: len(chunk)]
            assert ring.shape[1] == RING
            newest = ring[:, np.arange(written - BLOCK, written) % RING]
            np.testing.assert_array_equal(run.recording[list(chunk), written - BLOCK : written], newest)


def test_the_replay_at_a_moment_is_what_a_queue_would_hold(run: RecordedRun) -> None:
    capacity = run.configuration.replay.replay_capacity
    assert capacity % BLOCK != 0
    queue: deque[bytes] = deque(maxlen=capacity)
    for block in range(BLOCKS):
        queue.extend(row.tobytes() for row in run.recording[1, block * BLOCK : (block + 1) * BLOCK])
        assert [row.tobytes() for row in run.replay_at(1, block)] == list(queue)


# The moments


def test_outer_iterations_made_again_from_the_recording_lead_through_the_same_parameters(run: RecordedRun) -> None:
    """Round by round, the reference goes on from θ_0 of the first outer iteration with the batches and picks given."""
    o = options_of(run.configuration, SIZES)
    again = jax.jit(lambda rows, number, block: batch_at(run.configuration, run.network, rows, number, block, 2))
    thetas = flat(run.probed, axes=2)
    assert run.finite == list(range(ROUNDS))
    for number in range(ROUNDS):
        state = reference.init(o, thetas[number, FIRST])
        for block in range(FIRST, BLOCKS - 1):
            assert distance(thetas[number, block], state.theta) < CLOSE
            batch, picks = again(run.recording[number], np.uint32(number), jnp.int32(block))
            state, _ = reference.outer_iteration(
                "srg-dqn", o, state, from_transitions(batch), np.asarray(picks).tolist()
            )
        policy = np.concatenate([np.ravel(leaf[number]) for leaf in policy_leaves(run)])
        assert distance(policy, state.theta) < CLOSE


def policy_leaves(run: RecordedRun) -> list[np.ndarray]:
    """W_1, b_1, W_2, b_2 of the last parameters of every round."""
    return [run.trained.policies[f"network.layers.{i}.{part}"] for i in (0, 1) for part in ("weight", "bias")]


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(inner_batch=3),
        dict(sampling="newest"),
        dict(sampling="without-replacement"),
        dict(inner_sampling="without-replacement", inner_batch=3),
        dict(algorithm="dqn-sgd-queries"),  # whose batches are larger
    ],
)
def test_a_batch_from_the_recording_is_that_from_the_ring(options: dict[str, Any]) -> None:
    configuration, _ = tiny(**{"inner_iterations": 3, "seed": 9, "replay_capacity": 36, **options})
    network = make_network(configuration.network, 4, 2)
    rows = batch_rows(configuration)
    recording = np.arange(BLOCKS * BLOCK * 11, dtype=float).reshape(-1, 11)
    ring = np.zeros((RING, 11))
    number = jnp.uint32(5)
    key = round_keys(jnp.uint32(9), number)[2]

    @jax.jit
    def both(ring: Any, index: Any) -> Any:
        draws = draw_block(configuration, key, index, actions=2, rows=rows)
        live = from_replay(BatchContext(configuration, network, None, ring, index, draws.batch(), None))
        return batch_at(configuration, network, jnp.asarray(recording), number, index, 2), live[:2]

    for block in range(BLOCKS):
        for step in range(block * BLOCK, (block + 1) * BLOCK):
            ring[step % RING] = recording[step]
        if block in (FIRST, 3, 7, BLOCKS - 1):
            again, live = both(ring, jnp.int32(block))
            assert bits(again) == bits(live)
            drawn = np.asarray(again[0].observation)[:, 0] / 11  # the numbers of the steps
            assert len(drawn) == rows
            assert ((drawn >= (block + 1) * BLOCK - 36) & (drawn < (block + 1) * BLOCK)).all()


def test_chosen_blocks_are_kept_and_no_others(run: RecordedRun) -> None:
    some = recorded(at_steps(run.configuration, (48, 49, 64, 200)))
    assert run.blocks.tolist() == list(range(BLOCKS))
    assert some.blocks.tolist() == [2, 3, 12]
    assert bits(some.probed) == bits(jax.tree.map(lambda leaf: leaf[:, some.blocks], run.probed))
    none = recorded(at_steps(run.configuration, ()))
    assert none.blocks.tolist() == []
    assert bits(none.recording) == bits(run.recording)


def test_rounds_have_rows_until_they_diverge(diverging: RecordedRun) -> None:
    """The last is θ_0 of the outer iteration that went wrong. A chunk that ended early has rows that are NaN."""
    assert diverging.blocks.tolist() == list(range(BLOCKS))
    thetas = flat(diverging.probed, axes=2)
    assert thetas.shape[:2] == (ROUNDS, BLOCKS)
    steps = diverging.trained.tables["rounds"]["steps"]
    ends = diverging.trained.tables["rounds"]["diverged_at"]
    for number in range(ROUNDS):
        last = BLOCKS - 2 if number in diverging.finite else int(ends[number]) // BLOCK - 1
        made = np.isfinite(thetas[number]).all(-1)
        assert made.tolist() == [FIRST <= block <= last for block in range(BLOCKS)]
        assert not np.isfinite(thetas[number][~made]).any()
        # What was lived is recorded, and nothing after it.
        lived = (diverging.recording[number] != 0).any(-1)
        assert lived[: int(steps[number])].all()
        assert number in diverging.finite or not lived[int(steps[number]) :].any()
    assert [number for number in range(ROUNDS) if np.ma.getmaskarray(ends)[number]] == diverging.finite


# Blocks and steps


@given(frequency=st.integers(1, 50), step=st.integers(1, 10**6))
def test_a_step_is_made_in_its_block(frequency: int, step: int) -> None:
    configuration = Configuration().with_options(dict(learning_frequency=frequency))
    block = block_of(configuration, step)
    assert block * frequency < step <= (block + 1) * frequency
    chosen = at_steps(configuration, (step,))(np.arange(block - 1, block + 2))
    assert chosen.tolist() == [False, True, False]


def test_at_the_papers_scale_step_1000_is_before_the_first_outer_iteration() -> None:
    """16 steps per block: step 1,000 is the 8th of the 63rd block, after which the first outer iteration is made."""
    configuration = configure("MountainCar", "srg-dqn")
    assert block_of(configuration, 1_000) == 62 == configuration.training.first_learning_block
    assert block_of(configuration, 2_000) == 124


# On the way


def test_being_told_to_stop_is_no_result() -> None:
    configuration, _ = tiny(**OPTIONS, evaluation_interval=48)
    stop = threading.Event()
    with pytest.raises(StopRequestedError):
        record(configuration, lambda share: stop.set(), stop, probe_at=everything)
