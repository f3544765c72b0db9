"""The compiled tasks against Gymnasium's own environments, one transition at a time from the same states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.experimental.functional import FuncEnv

from gymnasium_steps import Outcome, by_gymnasium
from srgdqn.tasks.acrobot import Acrobot
from srgdqn.tasks.cart_pole import CartPole
from srgdqn.tasks.mountain_car import MountainCar
from srgdqn.tasks.pendulum import Pendulum

# Largest error of a component, relative to that component's largest magnitude over all cases. Double precision leaves
# room for a few roundings in another order; single precision for those of 24 bits, which the sines magnify.
TOLERANCE = {"float32": 2e-6, "float64": 1e-12}

# A flag or a speed that jumps at a threshold may legitimately fall on the other side when the quantity compared is
# nearer to it than the tolerance. Only those transitions are left out, and at most this share of them.
SKIPPED_SHARE = 5e-4

ANGLE_LIMIT: float = gymnasium.make("CartPole-v1").unwrapped.theta_threshold_radians


def compiled(environment: FuncEnv, states: np.ndarray, actions: np.ndarray) -> Outcome:
    def step(state: jax.Array, action: jax.Array) -> tuple[jax.Array, ...]:
        reached = environment.transition(state, action, None)
        observation = environment.observation(reached, None)
        return (
            reached,
            observation,
            environment.reward(state, action, reached, None),
            environment.terminal(reached, None),
        )

    outcome = jax.jit(jax.vmap(step))(jnp.asarray(states), jnp.asarray(actions, jnp.int32))
    assert outcome[0].dtype == outcome[1].dtype == outcome[2].dtype == states.dtype
    assert outcome[3].dtype == bool
    return tuple(np.asarray(part, part.dtype if part.dtype == bool else np.float64) for part in outcome)


def assert_close(
    name: str,
    found: np.ndarray,
    expected: np.ndarray,
    precision: str,
    clear: np.ndarray | None = None,
    magnified: float = 1,
) -> None:
    assert found.shape == expected.shape
    if clear is not None:
        found, expected = found[clear], expected[clear]
    error = np.abs(found - expected).max(axis=0)
    magnitude = np.abs(expected).max(axis=0)
    print(f"{name} {precision}: largest error {error}, of magnitude {magnitude}")
    assert (error <= magnified * TOLERANCE[precision] * magnitude).all()


def away_from(precision: str, *distances: np.ndarray) -> np.ndarray:
    """The cases in which no distance to a threshold is within the tolerance."""
    clear = np.all([np.abs(distance) > TOLERANCE[precision] for distance in distances], axis=0)
    print(f"skipped {(~clear).sum()} of {len(clear)}")
    assert (~clear).mean() <= SKIPPED_SHARE
    return clear


def test_mountain_car(mountain_car_cases: Any, precision: str) -> None:
    states, actions = mountain_car_cases.states.astype(precision), mountain_car_cases.actions
    found = compiled(MountainCar(reward="raw"), states, actions)
    expected = by_gymnasium("MountainCar-v0", states, actions)
    position, speed = states.astype(np.float64).T
    speed = np.clip(speed + (actions - 1) * 0.001 - 0.0025 * np.cos(3 * position), -0.07, 0.07)
    beyond_wall, beyond_goal = position + speed + 1.2, position + speed - 0.5
    clear = away_from(precision, beyond_wall, beyond_goal, np.where(beyond_goal > -0.01, speed / 0.07, 1.0))
    assert_close("MountainCar state", found[0], expected[0], precision, clear)
    np.testing.assert_array_equal(found[1], found[0])
    assert_close("MountainCar observation", found[1], expected[1], "float32", clear)
    np.testing.assert_array_equal(found[2], expected[2])
    np.testing.assert_array_equal(found[3][clear], expected[3][clear])
    # The cases are what they claim to be.
    assert 0.05 < expected[3].mean() < 0.5
    assert ((expected[0][:, 0] == -1.2) & (expected[0][:, 1] == 0)).sum() > 500
    assert (np.abs(expected[0][:, 1]) == 0.07).sum() > 500
    assert ((expected[0][:, 0] >= 0.5) & ~expected[3]).sum() > 100


def pendulum_state(state: np.ndarray) -> np.ndarray:
    """A state whose angle may be off by whole turns, as coordinates that do not show it."""
    return np.stack([np.cos(state[:, 0]), np.sin(state[:, 0]), state[:, 1]], axis=1)


@pytest.mark.parametrize(
    ("torques", "values"),
    [("endpoints", np.linspace(-2, 2, 12)), ("midpoints", (np.arange(12) + 0.5) / 3 - 2)],
)
def test_pendulum_v1(pendulum_cases: Any, precision: str, torques: Any, values: np.ndarray) -> None:
    states, actions = pendulum_cases.states.astype(precision), pendulum_cases.actions
    found = compiled(Pendulum(torques=torques, dynamics="v1"), states, actions)
    expected = by_gymnasium("Pendulum-v1", states, actions, lambda action: values[[action]])
    assert_close("Pendulum v1 state", pendulum_state(found[0]), pendulum_state(expected[0]), precision)
    assert_close("Pendulum v1 observation", found[1], pendulum_state(expected[0]), precision)
    assert_close("Pendulum v1 observation", found[1], expected[1], "float32")
    assert_close("Pendulum v1 reward", found[2], expected[2], precision)
    assert not found[3].any()
    assert not expected[3].any()
    assert (np.abs(expected[0][:, 1]) == 8).sum() > 1_000


def test_pendulum_v0_integrates_the_speed_before_it_is_clipped(pendulum_cases: Any, precision: str) -> None:
    states, actions = pendulum_cases.states.astype(precision), pendulum_cases.actions
    found = compiled(Pendulum(torques="endpoints", dynamics="v0"), states, actions)
    # An independent double-precision step: θ̈ = 3g/2l sin θ + 3u/ml² with g = 10, m = l = 1, dt = 0.05.
    angle, speed = states.astype(np.float64).T
    torque = np.linspace(-2, 2, 12)[actions]
    faster = speed + 0.05 * (15 * np.sin(angle) + 3 * torque)
    expected = pendulum_state(np.stack([angle + 0.05 * faster, np.minimum(np.maximum(faster, -8), 8)], axis=1))
    cost = np.arctan2(np.sin(angle), np.cos(angle)) ** 2 + speed**2 / 10 + torque**2 / 1000
    assert_close("Pendulum v0 state", pendulum_state(found[0]), expected, precision)
    assert_close("Pendulum v0 observation", found[1], expected, precision)
    assert_close("Pendulum v0 reward", found[2], -cost, precision)
    # It is v1 wherever nothing is clipped, and only there.
    v1 = compiled(Pendulum(torques="endpoints", dynamics="v1"), states, actions)
    clipped = np.abs(faster) > 8
    assert 1_000 < clipped.sum() < len(clipped) - 1_000
    for ours, theirs in zip(found, v1, strict=True):
        np.testing.assert_array_equal(ours[~clipped], theirs[~clipped])
    clearly = np.abs(faster) > 8.1
    assert (found[1][clearly, :2] != v1[1][clearly, :2]).any(axis=1).all()


def test_cart_pole(cart_pole_cases: Any, precision: str) -> None:
    states, actions = cart_pole_cases.states.astype(precision), cart_pole_cases.actions
    found = compiled(CartPole(reward="raw"), states, actions)
    expected = by_gymnasium("CartPole-v1", states, actions)
    position, _, angle, _ = expected[0].T
    clear = away_from(precision, (np.abs(position) - 2.4) / 2.4, (np.abs(angle) - ANGLE_LIMIT) / ANGLE_LIMIT)
    assert_close("CartPole state", found[0], expected[0], precision)
    np.testing.assert_array_equal(found[1], found[0])
    assert_close("CartPole observation", found[1], expected[1], "float32")
    np.testing.assert_array_equal(found[2], expected[2])
    np.testing.assert_array_equal(found[3][clear], expected[3][clear])
    assert 0.2 < expected[3].mean() < 0.8


def acrobot_state(state: np.ndarray) -> np.ndarray:
    """A state whose angles may be off by whole turns, as coordinates that do not show it: those observed."""
    (first, second), speeds = state[:, :2].T, state[:, 2:]
    return np.column_stack([np.cos(first), np.sin(first), np.cos(second), np.sin(second), speeds])


def test_acrobot(acrobot_cases: Any, precision: str) -> None:
    states, actions = acrobot_cases.states.astype(precision), acrobot_cases.actions
    found = compiled(Acrobot(), states, actions)
    expected = by_gymnasium("Acrobot-v1", states, actions)
    first, second, *speeds = expected[0].T
    usual = np.abs(states[:, 2:]).max(axis=1) < 10
    clear = usual & away_from(precision, -np.cos(first) - np.cos(first + second) - 1)
    # Near the limits of speed the method's long step magnifies roundings.
    for cases, magnified in ((usual, 1), (~usual, 1_000)):
        assert_close(
            "Acrobot state", acrobot_state(found[0]), acrobot_state(expected[0]), precision, cases, magnified=magnified
        )
    assert_close("Acrobot observation", found[1], acrobot_state(found[0]), "float32")
    assert_close("Acrobot observation", found[1], expected[1], "float32", usual)
    assert (np.abs(found[0][:, :2]) <= np.pi * (1 + 1e-6)).all()
    np.testing.assert_array_equal(found[2][clear], expected[2][clear])
    np.testing.assert_array_equal(found[3][clear], expected[3][clear])
    assert 0.1 < expected[3].mean() < 0.9
    for speed, limit in zip(speeds, (4 * np.pi, 9 * np.pi), strict=True):
        assert (np.abs(speed) == limit).sum() > 1_000


# Shaped rewards: the formulas of the readings (rows 17 and 18), as functions of the state reached


@pytest.mark.parametrize(
    ("environment", "cases", "formula"),
    [
        (MountainCar("height"), "mountain_car_cases", lambda x, v: 0.45 * np.sin(3 * x) + 0.55),
        (MountainCar("distance"), "mountain_car_cases", lambda x, v: np.where(x > -0.5, x + 0.5, -0.5 - x)),
        (
            CartPole("position-and-angle"),
            "cart_pole_cases",
            lambda x, v, a, w: 0.7 - np.abs(x) / 2.4 - np.abs(a) / (np.pi / 15),
        ),
        (CartPole("upright-cosine"), "cart_pole_cases", lambda x, v, a, w: np.cos(a)),
    ],
)
def test_shaped_rewards(
    environment: FuncEnv, cases: str, formula: Callable[..., Any], precision: str, request: pytest.FixtureRequest
) -> None:
    given = request.getfixturevalue(cases)
    reached, _, found, _ = compiled(environment, given.states.astype(precision), given.actions)
    np.testing.assert_allclose(found, formula(*reached.T), rtol=0, atol=TOLERANCE[precision])


def test_defaults_are_the_papers() -> None:
    """The first options of rows 17 to 19 and 22."""
    hill_top = MountainCar().reward(None, None, jnp.array([np.pi / 6, 0.0]))  # type: ignore[arg-type]
    assert float(hill_top) == pytest.approx(1.0)
    centred = CartPole().reward(None, None, jnp.zeros(4))  # type: ignore[arg-type]
    assert float(centred) == pytest.approx(0.7)
    # From 8 rad/s hanging level, torque 2 makes 8 + (15 + 6)/20 = 9.05 rad/s: v0 turns by 9.05/20, then clips to 8.
    swung = Pendulum().transition(jnp.array([np.pi / 2, 8.0]), jnp.asarray(11))
    assert swung.tolist() == pytest.approx([np.pi / 2 + 9.05 / 20, 8.0])


MOUNTAIN_CAR_ENDS = [
    # (state, action, terminated); the force of gravity at 0.5 is -0.0025 cos 1.5 = -0.00018
    ((0.5, 0.0), 2, True),
    ((0.5, 0.0), 1, False),  # rolls back
    ((0.6, 0.07), 2, True),
    ((0.6, 0.07), 0, True),
    ((0.6, -0.07), 2, False),
    ((0.43, 0.07), 0, False),
    ((0.44, 0.07), 2, True),
    ((-1.2, -0.07), 0, False),
]
CART_POLE_ENDS = [
    # The thresholds themselves do not terminate; the next number after them does. At rest, a step moves no position.
    ((2.4, 0.0, 0.0, 0.0), 1, False),
    ((-2.4, 0.0, 0.0, 0.0), 1, False),
    ((np.nextafter(2.4, 3), 0.0, 0.0, 0.0), 0, True),
    ((np.nextafter(-2.4, -3), 0.0, 0.0, 0.0), 0, True),
    ((0.0, 0.0, ANGLE_LIMIT, 0.0), 1, False),
    ((0.0, 0.0, -ANGLE_LIMIT, 0.0), 1, False),
    ((0.0, 0.0, np.nextafter(ANGLE_LIMIT, 1), 0.0), 0, True),
    ((0.0, 0.0, np.nextafter(-ANGLE_LIMIT, -1), 0.0), 0, True),
    ((2.39, 1.0, 0.0, 0.0), 0, True),
    ((0.0, 0.0, 0.2, 1.0), 0, True),
    ((0.0, 0.0, 0.2, -1.0), 0, False),
]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("identifier", "environment", "ends"),
    [
        ("MountainCar-v0", MountainCar(reward="raw"), MOUNTAIN_CAR_ENDS),
        ("CartPole-v1", CartPole(reward="raw"), CART_POLE_ENDS),
    ],
)
def test_ends_of_episodes_to_the_last_bit(identifier: str, environment: FuncEnv, ends: list[Any]) -> None:
    states, actions, terminated = (np.array(column) for column in zip(*ends, strict=True))
    found = compiled(environment, states, actions)
    expected = by_gymnasium(identifier, states, actions)
    np.testing.assert_array_equal(expected[3], terminated)
    np.testing.assert_array_equal(found[3], terminated)
    np.testing.assert_array_equal(found[2], expected[2])
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=TOLERANCE["float64"])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("identifier", "environment", "as_action"),
    [
        ("MountainCar-v0", MountainCar(reward="raw"), int),
        ("Pendulum-v1", Pendulum(dynamics="v1"), lambda action: np.linspace(-2, 2, 12)[[action]]),
        ("CartPole-v1", CartPole(reward="raw"), int),
        ("Acrobot-v1", Acrobot(), int),
    ],
)
def test_whole_episodes(identifier: str, environment: FuncEnv, as_action: Callable[[Any], Any]) -> None:
    """Errors do not build up: the same actions lead through the same episode, from Gymnasium's reset to its end."""
    host = gymnasium.make(identifier)
    actions = np.random.default_rng(4).integers(environment.action_space.n, size=500)

    def step(state: jax.Array, action: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        reached = environment.transition(state, action, None)
        reward = environment.reward(state, action, reached, None)
        return reached, (environment.observation(reached, None), reward, environment.terminal(reached, None))

    episode = jax.jit(lambda state: jax.lax.scan(step, state, jnp.asarray(actions))[1])
    for seed in range(5):
        host.reset(seed=seed)
        state: Any = host.unwrapped.state  # type: ignore[attr-defined]
        observations, rewards, terminals = (np.asarray(part) for part in episode(jnp.asarray(state, float)))
        for t, action in enumerate(actions):
            observation, reward, terminated, truncated, _ = host.step(as_action(action))
            np.testing.assert_allclose(observations[t], observation, rtol=0, atol=1e-6)
            np.testing.assert_allclose(rewards[t], reward, rtol=0, atol=1e-9)
            assert bool(terminals[t]) == terminated
            if terminated or truncated:
                break
        assert terminated or truncated


@pytest.mark.parametrize("dynamics", ["v0", "v1"])
def test_pendulum_angle_stays_small_when_it_spins_for_a_whole_run(dynamics: Any) -> None:
    environment = Pendulum(dynamics=dynamics)

    def step(state: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        reached = environment.transition(state, jnp.asarray(11), None)
        return reached, reached

    _, states = jax.jit(lambda state: jax.lax.scan(step, state, None, 20_000))(jnp.array([3.0, 8.0]))
    angles = np.asarray(states[:, 0])
    assert np.abs(angles).max() <= np.pi * (1 + 1e-6)
    assert (np.abs(np.diff(angles)) > np.pi).sum() > 500  # turns


# Where episodes start

DRAWS = 20_000

# The largest distance of an empirical distribution of so many draws from its own is below this but once in 10,000
# samples (Kolmogorov–Smirnov: 2.23 / sqrt(20,000)).
LARGEST_DISTANCE = 0.016

TASKS = [
    (MountainCar(), "MountainCar-v0", [(-0.6, -0.4), (0.0, 0.0)]),
    (Pendulum(), "Pendulum-v1", [(-np.pi, np.pi), (-1.0, 1.0)]),
    (CartPole(), "CartPole-v1", [(-0.05, 0.05)] * 4),
    (Acrobot(), "Acrobot-v1", [(-0.1, 0.1)] * 4),
]


@pytest.mark.parametrize(("environment", "identifier", "ranges"), TASKS)
def test_starts_are_uniform_over_gymnasiums_ranges(
    environment: Any, identifier: str, ranges: list[Any], precision: str
) -> None:
    keys = jax.random.split(jax.random.key(0), DRAWS)
    starts = np.asarray(jax.jit(jax.vmap(environment.initial))(keys))
    assert starts.dtype == precision
    host: Any = gymnasium.make(identifier).unwrapped
    theirs = np.array([(host.reset(seed=seed), host.state)[1] for seed in range(200)])
    for component, (low, high) in enumerate(ranges):
        ours = np.sort(starts[:, component].astype(np.float64))
        assert low - 1e-6 <= min(ours[0], theirs[:, component].min())
        assert max(ours[-1], theirs[:, component].max()) <= high + 1e-6
        if low < high:
            distance = np.abs((ours - low) / (high - low) - (np.arange(DRAWS) + 0.5) / DRAWS).max()
            assert distance < LARGEST_DISTANCE
    correlations = np.corrcoef(starts[:, [low < high for low, high in ranges]].T)
    assert np.abs(np.atleast_2d(correlations) - np.eye(len(np.atleast_2d(correlations)))).max() < 0.04
