"""n-step returns beside a plain loop over the stream of steps that were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srgdqn.config import GradientSettings
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.learner.gradients import Transitions, make_batch
from srgdqn.learner.n_step import gather
from srgdqn.learner.networks import make_network
from srgdqn.learner.replay import pack_into, row_width
from srgdqn.training.lane import TERMINATED, TRUNCATED
from srgdqn.training.program import programs_for
from tiny import lane_segments, tiny


class Step(NamedTuple):
    """A step of a stream; each step's own number stands for S, and half more for S'."""

    reward: float
    terminated: bool
    truncated: bool


class Return(NamedTuple):
    rewards: list[float]
    last: int  # the step that led to S'
    terminated: bool


def by_hand(stream: Sequence[Step], first: int, n: int, newest: int) -> Return:
    """The steps from one on until the episode ends, n have been made, or nothing newer is stored."""
    rewards = []
    for number in range(first, min(first + n, newest + 1)):
        step = stream[number]
        rewards.append(step.reward)
        if step.terminated or step.truncated:
            break
    return Return(rewards, number, stream[number].terminated)


@st.composite
def streams(draw: st.DrawFn) -> list[Step]:
    ends = draw(st.lists(st.sampled_from(["", "", "", "terminated", "truncated"]), min_size=1, max_size=60))
    return [Step(number / 8 - 3, end == "terminated", end == "truncated") for number, end in enumerate(ends)]


@settings(max_examples=40)
@given(streams(), st.sampled_from([2, 5]), st.sampled_from([4, 25]), st.sampled_from([0.0, 0.5, 0.97, 1.0]))
def test_what_is_gathered_is_what_a_loop_over_the_stream_gives(
    stream: list[Step], n: int, slots: int, gamma: float
) -> None:
    ring, numbers = np.zeros((slots, row_width(2, n)), np.float32), np.arange(len(stream))
    ended = [step.terminated or step.truncated for step in stream]
    observation = np.repeat(numbers[:, None], 2, axis=1).astype(np.float32)
    columns = numbers % 3, np.array([step.reward for step in stream], np.float32), observation + 0.5
    terminated = np.array([step.terminated for step in stream], np.float32)
    rows: np.ndarray = np.zeros((len(stream), ring.shape[1]), np.float32)
    given: Any = Transitions(*(observation, *columns, terminated))
    pack_into(rows, given, ~np.array([True, *ended[:-1]]))
    ring[numbers % slots] = rows  # the newest of several in a slot is the last
    stored = np.resize(np.arange(max(0, len(stream) - slots), len(stream)), slots)
    found = jax.tree.map(np.asarray, gather(jnp.asarray(ring), jnp.asarray(stored % slots), len(stream), n))
    network = make_network(configure("CartPole", steps=2_000).network, 2, 3)
    theta = network.init(jax.random.key(0))
    batches = {
        target: make_batch(GradientSettings(gamma=gamma, target=target), network, found, behind, online=theta)
        for target, behind in (("current", None), ("outer", theta))
    }
    values = np.asarray(network.q_values(theta, jnp.asarray(found.next_observation))).max(1)
    batches = jax.tree.map(np.asarray, batches)
    for row, first in enumerate(stored.tolist()):
        expected = by_hand(stream, first, n, len(stream) - 1)
        steps = len(expected.rewards)
        assert (found.observation[row] == first).all()
        assert found.action[row] == first % 3
        assert (found.next_observation[row] == expected.last + 0.5).all()
        assert bool(found.terminated[row]) == expected.terminated
        assert int(found.steps[row]) == steps
        total = sum(gamma**k * reward for k, reward in enumerate(expected.rewards))
        discount = 0.0 if expected.terminated else gamma**steps
        for batch in batches.values():
            np.testing.assert_allclose(batch.reward[row], total, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(batch.discount[row], discount, rtol=1e-6)
        y = batches["outer"].frozen_target[row]
        np.testing.assert_allclose(y, total + discount * values[row], rtol=1e-4, atol=1e-4)


def test_a_compiled_round_remembers_where_its_episodes_go_on() -> None:
    """Once the ring is full and beyond its wrap-around, beside the log, of two rounds with both kinds of ends."""
    configuration, task = tiny(steps=128, n_step=5, kernel="xla", epsilon_start=0.6, epsilon_end=0.6)
    programs, _ = programs_for(configuration, task)
    [segment] = lane_segments(configuration, programs, [0, 1])
    kinds = set()
    for number in (0, 1):
        flags, ring = segment.log.flags[number].ravel(), np.asarray(segment.lanes.ring[number])
        reward = segment.log.reward[number].ravel()
        stream = [Step(r, bool(f & TERMINATED), bool(f & TRUNCATED)) for r, f in zip(reward, flags, strict=True)]
        stored = np.arange(128 - 40, 128)  # of which D is drawn
        found = gather(jnp.asarray(ring), jnp.asarray(stored % 48), 128, 5)
        for row, first in enumerate(stored.tolist()):
            expected = by_hand(stream, first, 5, 127)
            steps = len(expected.rewards)
            kinds.add((expected.terminated, stream[expected.last].truncated, steps))
            assert int(found.steps[row]) == steps
            assert bool(found.terminated[row]) == expected.terminated
            np.testing.assert_allclose(found.reward[row], [*expected.rewards, *[0.0] * (5 - steps)], rtol=1e-6)
            np.testing.assert_array_equal(found.next_observation[row], ring[expected.last % 48, 4:8])
    assert {(True, False), (False, True), (False, False)} <= {each[:2] for each in kinds}
    assert {1, 2, 3, 4, 5} <= {each[2] for each in kinds}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(n_step=41, learning_starts=64), "Raise replay_capacity to 41 or more"),
        (dict(n_step=17, learning_starts=0), "Raise learning_starts to 17 or more"),
        (dict(n_step=1_001), "from 1 to 1000"),
        (dict(n_step=0), "from 1 to 1000"),
    ],
)
def test_more_steps_than_there_are_is_refused(options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        tiny(**options)


def test_the_memories_of_several_environments_have_room_for_as_many_steps_each() -> None:
    with pytest.raises(InputError, match=r"environments = 4.*Raise replay_capacity to 44"):
        configure(
            "Other", defaults={}, steps=400, environments=4, n_step=11, replay_capacity=43, learning_frequency=4,
            batch_size=4, learning_starts=100,
        )  # fmt: skip
