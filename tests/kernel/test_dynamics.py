"""Every transition that the kernel's rounds make, beside Gymnasium's own step from the same state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gymnasium_steps import by_gymnasium
from native_rounds import Native, native, observed, random_lanes
from srgdqn.tasks.shaping import ANGLE_LIMIT
from srgdqn.training.lane import STEPPED, TERMINATED, TRUNCATED, Lane

pytestmark = pytest.mark.usefixtures("kernel")

LANES, SCALE = 600, -0.25
CLOSE = 2e-6  # relative to the largest magnitude: roundings of 24 bits, which the sines magnify


def one_step(task: str, states: np.ndarray, **options: Any) -> tuple[Native, Lane, Any, np.ndarray]:
    """A random action from each state: what was run, what it left, its log, and the transitions."""
    usual = dict(learning_frequency=1, batch_size=1, replay_capacity=1, hidden=(2,), reward_scale=SCALE)
    program = native(task, steps=10_000, epsilon_start=1.0, epsilon_end=1.0, **{**usual, **options})
    lanes = random_lanes(program, np.random.default_rng(0), len(states))
    situation = lanes.situation._replace(state=states.copy(), observation=observed(program.configuration, states))
    after, log = program.segment(lanes._replace(situation=situation), 0, 1)
    return program, after, log, np.asarray(after.ring)[:, 0].astype(np.float64)


def check(
    found: tuple[Native, Lane, Any, np.ndarray],
    states: np.ndarray,
    expected: np.ndarray,
    rewards: np.ndarray,
    ends: np.ndarray,
    unclear: np.ndarray | None = None,
) -> None:
    """Observations reached, rewards and ends; whatever is `unclear` may end or not."""
    program, after, log, rows = found
    size = program.sizes[0]
    clear = np.ones(len(states), bool) if unclear is None else ~unclear
    assert clear.mean() > 0.98
    magnitude = np.abs(expected).max(axis=0)
    np.testing.assert_array_equal(rows[:, :size], observed(program.configuration, states))
    assert (np.abs(rows[:, size : 2 * size] - expected)[clear] <= CLOSE * magnitude).all()
    logged, flags = np.asarray(log.reward)[:, 0, 0], np.asarray(log.flags)[:, 0, 0]
    np.testing.assert_allclose(logged, rewards, rtol=0, atol=CLOSE * np.abs(rewards).max())
    np.testing.assert_array_equal(rows[:, -2], logged * np.float32(SCALE))
    np.testing.assert_array_equal(rows[clear, -1], ends[clear])
    np.testing.assert_array_equal(flags, STEPPED + TERMINATED * (rows[:, -1] == 1))
    np.testing.assert_array_equal(after.episodes, rows[:, -1])
    np.testing.assert_array_equal(after.situation.episode_steps, 1 - rows[:, -1])
    goes_on = rows[:, -1] == 0
    np.testing.assert_array_equal(np.asarray(after.situation.observation)[goes_on], rows[goes_on, size : 2 * size])


def box(seed: int, *ranges: tuple[float, float]) -> np.ndarray:
    low, high = np.array(ranges).T
    return np.random.default_rng(seed).uniform(low, high, (LANES, len(ranges))).astype(np.float32)


@pytest.mark.parametrize("reward", ["raw", "height", "distance"])
def test_mountain_car(reward: str) -> None:
    wall, flag = box(1, (-1.2, -1.1), (-0.09, 0.01)), box(2, (0.4, 0.6), (-0.02, 0.09))
    states = np.concatenate([box(0, (-1.2, 0.6), (-0.1, 0.1)), wall, flag])
    found = one_step("MountainCar", states, reward=reward)
    reached, _, rewards, ends = by_gymnasium("MountainCar-v0", states, found[-1][:, -3])
    x = reached[:, 0]
    rewards = {"raw": rewards, "height": 0.45 * np.sin(3 * x) + 0.55, "distance": np.abs(x + 0.5)}[reward]
    unclear = (np.abs(x - 0.5) < 1e-6) | ((x > 0.49) & (np.abs(reached[:, 1]) < 1e-7)) | (np.abs(x + 1.2) < 1e-6)
    unclear &= ~((x == -1.2) & (reached[:, 1] == 0))
    check(found, states, reached, rewards, ends, unclear)
    assert 0.05 < ends.mean() < 0.5
    assert ((x == -1.2) & (reached[:, 1] == 0)).sum() > 100


@pytest.mark.parametrize("reward", ["raw", "position-and-angle", "upright-cosine"])
def test_cart_pole(reward: str) -> None:
    far, leaning = (2.3, 2.5), (-0.22, -0.19)
    states = np.concatenate(
        [box(0, (-2.6, 2.6), (-4, 4), (-0.25, 0.25), (-4, 4)), box(1, far, (-3, 3), leaning, (-2, 2))]
    )
    found = one_step("CartPole", states, reward=reward)
    reached, _, rewards, ends = by_gymnasium("CartPole-v1", states, found[-1][:, -3])
    x, angle, limit = np.abs(reached[:, 0]), np.abs(reached[:, 2]), math.radians(12)
    shaped = (2.4 - x) / 2.4 - 0.8 + (limit - angle) / limit - 0.5
    rewards = {"raw": rewards, "position-and-angle": shaped, "upright-cosine": np.cos(angle)}[reward]
    unclear = (np.abs(x - 2.4) < 1e-6) | (np.abs(angle - limit) < 1e-7)
    check(found, states, reached, rewards, ends, unclear)
    assert 0.2 < ends.mean() < 0.8


def test_the_limits_of_cart_pole_do_not_end_an_episode_but_the_next_numbers_do() -> None:
    """At rest, a step moves neither position nor angle."""
    x, angle = np.float32(2.4), np.float32(ANGLE_LIMIT)
    at = [[x, 0, 0, 0], [-x, 0, 0, 0], [0, 0, angle, 0], [0, 0, -angle, 0]]
    beyond = [[np.nextafter(value, value * 2) if value else value for value in state] for state in at]
    found = one_step("CartPole", np.array([*at, *beyond], np.float32))
    assert found[-1][:, -1].tolist() == [0] * 4 + [1] * 4


@pytest.mark.parametrize("dynamics", ["v0", "v1"])
@pytest.mark.parametrize(
    ("torques", "values"), [("endpoints", np.linspace(-2, 2, 12)), ("midpoints", (np.arange(12) + 0.5) / 3 - 2)]
)
def test_pendulum(torques: str, values: np.ndarray, dynamics: str) -> None:
    turn = 2 * np.pi
    fast = box(1, (-np.pi, np.pi), (7, 8))
    states = np.concatenate([box(0, (-turn, turn), (-8, 8)), fast, -fast])
    found = one_step("Pendulum", states, torques=torques, dynamics=dynamics)
    actions = found[-1][:, -3].astype(int)
    reached, _, rewards, ends = by_gymnasium("Pendulum-v1", states, actions, lambda action: values[[action]])
    if dynamics == "v0":  # the angle moves with the speed before that is clipped
        angle, speed = states.astype(np.float64).T
        faster = speed + 0.05 * (15 * np.sin(angle) + 3 * values[actions])
        reached[:, 0] = angle + 0.05 * faster
    assert (np.abs(reached[:, 1]) == 8).sum() > 100
    seen = np.stack([np.cos(reached[:, 0]), np.sin(reached[:, 0]), reached[:, 1]], axis=1)
    check(found, states, seen, rewards, ends)
    assert (np.abs(np.asarray(found[1].situation.state)[:, 0]) <= np.float32(np.pi)).all()
    assert not ends.any()


def test_acrobot() -> None:
    turned, slow = (-np.pi, np.pi), (-2, 2)
    states = np.concatenate(
        [
            box(0, turned, turned, (-10, 10), (-10, 10)),  # the method magnifies roundings beyond
            box(1, (1.6, 2.4), (-1, 1), slow, slow),  # the tip about as high as it must be
            box(2, (-0.2, 0.2), (-0.2, 0.2), slow, slow),
        ]
    )
    found = one_step("Acrobot", states)
    reached, _, rewards, ends = by_gymnasium("Acrobot-v1", states, found[-1][:, -3])
    height = -np.cos(reached[:, 0]) - np.cos(reached[:, 0] + reached[:, 1])
    seen = observed(found[0].configuration, reached)
    unclear = np.abs(height - 1) < 1e-5
    check(found, states, seen, np.where(unclear, found[-1][:, -1] - 1, rewards), ends, unclear)
    assert 0.1 < ends.mean() < 0.9
    assert (np.abs(np.asarray(found[1].situation.state)[:, :2]) <= np.float32(np.pi)).all()


def test_the_speeds_of_acrobot_are_limited() -> None:
    fast = box(0, (-np.pi, np.pi), (-np.pi, np.pi), (12, 14), (27, 30))
    states = np.concatenate([fast, -fast])
    _, after, _, rows = one_step("Acrobot", states)
    reached, *_ = by_gymnasium("Acrobot-v1", states, rows[:, -3])
    goes_on, limits = rows[:, -1] == 0, np.float32(np.pi * np.array([4, 9]))
    found = np.asarray(after.situation.state)[goes_on, 2:]
    assert (np.abs(found) <= limits).all()
    assert ((np.abs(found) == limits).sum(axis=0) > 100).all()
    np.testing.assert_allclose(found, reached[goes_on, 2:], rtol=0, atol=2e-3 * limits.max())


def test_an_episode_is_cut_at_its_time_limit_unless_it_terminates_there() -> None:
    """Seven steps of a limit of three, and a lane that is at the flag after the third."""
    program = native(
        "MountainCar", steps=10_000, learning_frequency=7, time_limit=3, hidden=(2,), epsilon_start=1.0, epsilon_end=1.0
    )
    lanes = random_lanes(program, np.random.default_rng(0), 2)
    np.asarray(lanes.situation.state)[1] = 0.35, 0.07
    after, log = program.segment(lanes, 0, 1)
    stepped, cut, end = STEPPED, STEPPED + TRUNCATED, STEPPED + TERMINATED
    assert np.asarray(log.flags)[0, 0].tolist() == [stepped, stepped, cut, stepped, stepped, cut, stepped]
    assert np.asarray(log.flags)[1, 0].tolist() == [stepped, stepped, end, stepped, stepped, cut, stepped]
    assert np.asarray(after.ring)[:, :7, -1].tolist() == [[0] * 7, [0, 0, 1, 0, 0, 0, 0]]
    assert np.asarray(after.episodes).tolist() == [2, 2]
    assert np.asarray(after.situation.episode_steps).tolist() == [1, 1]
