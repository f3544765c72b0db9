"""A whole cell from the outside: the package's rounds beside those of a plain program that shares nothing with it.

The replica (`replica.py`) is written from the paper, the readings and Gymnasium's documentation, in double precision,
and gets nothing but the random numbers. They are compared in three ways:

- every step and every outer iteration of the package, given what the package itself had just before it: rounding has
  no time to grow, so this holds from the first step to the last in either precision;
- rounds that run on their own. A car that hovers near the top of a hill, as this reward teaches it to, doubles any
  difference about every eight steps, so that rounding separates the two sooner or later, and only that;
- the curves that `train_rounds` gives for the same random numbers.

A check is worth what it notices: each meets replicas with planted defects.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import replica
from replica import Chance, Learner, Round, Rows, Settings, Transition
from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.training import train_rounds
from srgdqn.training.draws import draw_block
from srgdqn.training.program import programs_for
from tiny import lane_segments

# Long enough for 188 outer iterations, and for the replay to forget a thousand transitions.
STEPS = 4_000
SETTINGS = Settings(STEPS)
LANES = 8
DIAGNOSTICS = ("loss", "max_q", "delta_norm", "theta_norm")

# What the package does


def paper(seed: int = 0, rounds: int = LANES, kernel: str = "xla") -> Configuration:
    """SRG-DQN on MountainCar with the paper's settings, for fewer steps."""
    options = dict(steps=STEPS, rounds=rounds, lanes=LANES, seed=seed, evaluation_interval=None, kernel=kernel)
    return configure("MountainCar", "srg-dqn", **options)


class Recording(NamedTuple):
    """One round of the package, in the replica's terms."""

    transitions: list[Transition]
    learners: list[Learner]  # before the first block, and after every block
    log: dict[str, np.ndarray]  # per block; NaN where there was no outer iteration


@functools.cache
def chances(seed: int, chunk: int = 0, double: bool = False) -> list[Chance]:
    """The random numbers of a seed's rounds 8 × chunk, 8 × chunk + 1, …"""
    with jax.enable_x64(double):
        configuration = paper(seed)
        task = tasks.make(configuration.task)
        programs, _ = programs_for(configuration, task)
        rounds = jnp.arange(chunk * LANES, (chunk + 1) * LANES, dtype=jnp.uint32)
        lanes = programs.init(jnp.uint32(seed), rounds, jnp.ones(LANES, bool))
        explore, action, starts, batch, picks = map(np.asarray, _numbers(double)(lanes.key))
        theta, state = flat(lanes.learner.parameters), np.asarray(lanes.situation.state, np.float64)
    columns = (theta, state[:, 0].tolist(), explore.astype(np.float64), action, starts.astype(np.float64), batch, picks)
    return [Chance(*row) for row in zip(*columns, strict=True)]


@functools.cache
def _numbers(double: bool) -> Callable[[jax.Array], tuple[jax.Array, ...]]:
    """From the keys of the lanes to the fields of `Chance` from `explore` on."""
    configuration = paper()
    environment = tasks.make(configuration.task).environment

    def numbers(key: jax.Array) -> tuple[jax.Array, ...]:
        blocks = jnp.arange(STEPS // SETTINGS.learning_frequency)
        draws = jax.vmap(lambda index: draw_block(configuration, key, index, actions=3, rows=64))(blocks)
        starts = jax.vmap(jax.vmap(environment.initial))(draws.episode)
        return (
            draws.explore.ravel(),
            draws.action.ravel(),
            starts[..., 0].ravel(),
            draws.batches.batch[:, 0],
            draws.batches.picks[:, 0, :, 0],
        )

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0, impl="threefry2x32"), LANES))
    # Called a few times: not worth the compiler's effort.
    return jax.jit(jax.vmap(numbers)).lower(keys).compile({"xla_backend_optimization_level": "0"})


@functools.cache
def recordings(double: bool, kernel: str = "xla") -> list[Recording]:
    """The first rounds of seed 0, with everything they experienced and were."""
    with jax.enable_x64(double):
        configuration = paper(kernel=kernel)
        programs, _ = programs_for(configuration, tasks.make(configuration.task))
        first = chances(0, double=double)
        zero = np.zeros((LANES, first[0].theta.size))
        parameters, adam_first, adam_second = [np.stack([chance.theta for chance in first])], [zero], [zero]
        rows, logs = [], []
        for segment in lane_segments(configuration, programs, range(LANES), segment_blocks=1):
            ring, learner = np.asarray(segment.lanes.ring, np.float64), segment.lanes.learner
            newest = (segment.blocks_done - 1) * SETTINGS.learning_frequency % ring.shape[1]
            rows.append(ring[:, newest : newest + SETTINGS.learning_frequency])
            parameters.append(flat(learner.parameters))
            adam_first.append(flat(learner.adam.first))
            adam_second.append(flat(learner.adam.second))
            logs.append(segment.log)
    log = {name: np.concatenate([getattr(part, name) for part in logs], axis=1) for name in ("reward", *DIAGNOSTICS)}
    packed = np.concatenate(rows, axis=1)
    found = []
    for lane in range(LANES):
        # As the ring packs them: S, S', A, R, whether terminated.
        transitions = [
            Transition((x, v), int(a), r, (x_next, v_next), bool(end))
            for x, v, x_next, v_next, a, r, end in packed[lane].tolist()
        ]
        learned = np.append(False, ~np.isnan(log["loss"][lane])).cumsum().tolist()
        columns = (part[lane] for part in (np.stack(parameters, 1), np.stack(adam_first, 1), np.stack(adam_second, 1)))
        learners = [Learner(*row) for row in zip(*columns, learned, strict=True)]
        found.append(Recording(transitions, learners, {name: column[lane] for name, column in log.items()}))
    return found


def flat(parameters: Any) -> np.ndarray:
    """One row per lane: W_1, b_1, W_2, b_2."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(parameters)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


# Replicas with something wrong


class Defect(NamedTuple):
    """What is wrong: other settings, or other functions in the place of the replica's."""

    settings: Mapping[str, Any] = MappingProxyType({})
    functions: Mapping[str, Callable[..., Any]] = MappingProxyType({})


def along(at: int, before: int) -> Callable[..., np.ndarray]:
    """Line 13 with the earlier gradient at θ_at, and Δ_before."""

    def direction(settings: Settings, theta: list[np.ndarray], delta: list[np.ndarray], row: Rows) -> np.ndarray:
        earlier = replica.gradient(settings, theta[at], row)
        return replica.gradient(settings, theta[-1], row) - (earlier - delta[before])

    return direction


def wrong_sign(settings: Settings, theta: list[np.ndarray], delta: list[np.ndarray], row: Rows) -> np.ndarray:
    earlier = replica.gradient(settings, theta[-2], row)
    return replica.gradient(settings, theta[-1], row) + (earlier - delta[-1])


def no_recursion(settings: Settings, theta: list[np.ndarray], delta: list[np.ndarray], row: Rows) -> np.ndarray:
    return replica.gradient(settings, theta[-1], row)


def without_mask(theta: np.ndarray, rows: Rows) -> np.ndarray:
    return replica.q_values(theta, rows.s_next).max(axis=1)


def adam_afresh(settings: Settings, learner: Learner, theta: np.ndarray, g: np.ndarray) -> Learner:
    """Every time as if for the first time: α sign(g)."""
    return learner._replace(theta=theta - settings.alpha * g / (np.abs(g) + settings.adam_epsilon), s=learner.s + 1)


def rewarded_late(chance: Chance, step: int, state: replica.State, action: int) -> tuple[Transition, replica.State]:
    """Rewarded for the height left, not for the height reached."""
    position, speed = replica.move(*state, action)
    end = replica.at_the_flag(position, speed)
    after = (float(chance.next_start[step]), 0.0) if end else (position, speed)
    return Transition(state, action, replica.height(state[0]), (position, speed), end), after


DEFECTS = {
    "η is doubled": Defect({"eta": 0.02}),
    "η is halved": Defect({"eta": 0.005}),
    "γ is 0.99": Defect({"gamma": 0.99}),
    "one inner iteration too few": Defect({"inner_iterations": 15}),
    "no Adam process": Defect({"alpha": 0.0}),
    "Adam forgets": Defect(functions={"adam": adam_afresh}),
    "nothing is forgotten": Defect({"capacity": STEPS}),
    "learning starts with the 62nd block": Defect({"learning_starts": 992}),
    "ε does not decline": Defect({"epsilon_end": 0.1}),
    "the recursion has the wrong sign": Defect(functions={"direction": wrong_sign}),
    "the earlier gradient is at θ_0": Defect(functions={"direction": along(at=0, before=-1)}),
    "SVRG in place of SRG": Defect(functions={"direction": along(at=0, before=0)}),
    "no recursion": Defect(functions={"direction": no_recursion}),
    "terminal states have a future": Defect(functions={"future": without_mask}),
    "the reward is that of the state left": Defect(functions={"interact": rewarded_late}),
}


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[Settings]:
    """The replica with that defect, and the settings to run it with."""
    defect = DEFECTS[name] if name else Defect()
    with pytest.MonkeyPatch.context() as patch:
        for function, wrong in defect.functions.items():
            patch.setattr(replica, function, wrong)
        yield replace(SETTINGS, **defect.settings)


# The replica itself


def test_its_outer_iterations_are_those_of_the_reference() -> None:
    """One transition at a time, as the paper writes it: too slow for whole rounds, but not for a few iterations."""
    options = reference.Options(sizes=(2, 20, 3))
    theta, data, picks = reference.random_problem(0, (2, 20, 3), rows=64, inner_iterations=16)
    slow, fast = reference.init(options, theta), replica.newcomer(theta)
    rows = Rows(*map(np.array, list(zip(*data, strict=True))[:5]))
    for _ in range(3):
        slow, record = reference.outer_iteration("srg-dqn", options, slow, data, picks)
        fast, iterates, deltas = replica.outer_iteration(SETTINGS, fast, rows, [i for [i] in picks])
        np.testing.assert_allclose(deltas, record.delta, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(iterates, record.theta, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(fast.theta, slow.theta, rtol=1e-10, atol=1e-12)
        assert (replica.errors(SETTINGS, iterates[0], rows) ** 2).mean() == pytest.approx(record.loss)


def test_its_car_is_gymnasiums() -> None:
    environment: Any = gymnasium.make("MountainCar-v0").unwrapped
    environment.reset()
    rng = np.random.default_rng(0)
    positions = [-1.2, -1.19, -0.5, 0.45, 0.499, 0.52, 0.6, *rng.uniform(-1.2, 0.6, 200)]
    ends = 0
    for position in positions:
        for speed in (-0.07, 0.0, 0.07, rng.uniform(-0.07, 0.07)):
            for action in range(3):
                environment.state = (position, speed)
                _, _, end, _, _ = environment.step(action)
                assert replica.move(position, speed, action) == pytest.approx(environment.state, rel=1e-14, abs=1e-16)
                assert replica.at_the_flag(*environment.state) == end
                assert replica.height(position) == pytest.approx(environment._height(position))
                ends += end
    assert 0 < ends < 12 * len(positions)


# Step by step


class Misfit(NamedTuple):
    """How far the package is from what the replica makes of the package's own past, at worst."""

    state: float
    reward: float
    action: float  # how much better than the package's the replica finds its own choice
    theta: float
    loss: float  # relative, as are the next three
    max_q: float
    delta_norm: float
    theta_norm: float


def misfits(settings: Settings, chance: Chance, recording: Recording) -> Iterator[tuple[int, Misfit]]:
    """Block by block, with the steps made by then."""
    start = (chance.start, 0.0)
    for block, (learner, found) in enumerate(itertools.pairwise(recording.learners)):
        worst = dict.fromkeys(Misfit._fields, 0.0)

        def note(worst: dict[str, float] = worst, **values: float) -> None:
            worst.update({name: max(worst[name], float(value)) for name, value in values.items()})

        made = (block + 1) * settings.learning_frequency
        for step in range(block * settings.learning_frequency, made):
            real = recording.transitions[step]
            q = replica.q_values(learner.theta, np.array(real.s))
            note(action=abs(q[replica.choose(settings, chance, step, q)] - q[real.a]))
            expected, fresh = replica.interact(chance, step, real.s, real.a)
            note(state=np.abs(np.subtract([start, expected.s_next], [real.s, real.s_next])).max())
            # An end too early or too late is as wrong as the car is far from the flag.
            note(state=0.0 if expected.terminal == real.terminal else abs(real.s_next[0] - 0.5))
            note(reward=max(abs(expected.r - told) for told in (real.r, recording.log["reward"].ravel()[step])))
            start = fresh if real.terminal else real.s_next
        if replica.is_due(settings, made):
            memory = recording.transitions[max(made - settings.capacity, 0) : made]
            learner, iteration = replica.learn(settings, chance, made, learner, memory)
            for name in DIAGNOSTICS:
                told, value = recording.log[name][block], getattr(iteration, name)
                note(**{name: math.inf if math.isnan(told) else abs(told / value - 1)})
        note(theta=np.abs(learner.theta - found.theta).max())
        yield made, Misfit(**worst)


# An iteration adds 17 nearly equal steps to a parameter near 1, which may round all of them the same way: 17 × 6e-8.
TOLERANCES = {
    False: Misfit(
        state=3e-7, reward=1e-6, action=1e-5, theta=6e-6, loss=1e-4, max_q=1e-5, delta_norm=2e-2, theta_norm=2e-6
    ),
    True: Misfit(
        state=2e-15,
        reward=2e-15,
        action=1e-13,
        theta=1e-13,
        loss=1e-11,
        max_q=1e-13,
        delta_norm=1e-10,
        theta_norm=1e-14,
    ),
}


def within(found: Misfit, most: Misfit) -> bool:
    return all(value <= limit for value, limit in zip(found, most, strict=True))


def follow(double: bool, kernel: str) -> None:
    made = 0
    for chance, recording in list(zip(chances(0, double=double), recordings(double, kernel), strict=True))[:3]:
        for made, found in misfits(SETTINGS, chance, recording):
            assert within(found, TOLERANCES[double]), (made, found)
        assert made == STEPS


def test_every_step_and_iteration_follows_from_the_one_before(each_kernel: str) -> None:
    follow(False, each_kernel)


def test_every_step_and_iteration_follows_from_the_one_before_in_double_precision() -> None:
    follow(True, "xla")


# When each defect is noticed in round 2 of double precision, which reaches the flag after 2,039 steps: at once, or as
# soon as it makes a difference at all.
AT_ONCE = 1_008
NOTICED = dict.fromkeys(DEFECTS, AT_ONCE) | {
    "Adam forgets": 1_024,
    "nothing is forgotten": 3_008,
    "learning starts with the 62nd block": 992,
    "the reward is that of the state left": 16,
}


@pytest.mark.parametrize("name", DEFECTS)
def test_following_notices_every_planted_defect(name: str) -> None:
    chance, recording = chances(0, double=True)[2], recordings(True)[2]
    end = next(step for step, transition in enumerate(recording.transitions, start=1) if transition.terminal)
    with planted(name) as settings:
        blocks = misfits(settings, chance, recording)
        noticed = next((made for made, found in blocks if not within(found, TOLERANCES[True])), None)
    assert noticed is not None
    if name == "terminal states have a future":
        assert end < noticed < end + 1_000  # once one of 64 draws from at most 3,000 transitions is that one
    elif name == "ε does not decline":
        assert noticed < STEPS
    else:
        assert noticed == NOTICED[name]


# Each on its own


@functools.cache
def lived(seed: int, chunk: int = 0, double: bool = False, count: int = LANES) -> list[Round]:
    return [replica.run_round(SETTINGS, chance) for chance in chances(seed, chunk, double)[:count]]


def apart(a: list[Transition], b: list[Transition]) -> np.ndarray:
    """By how much two rounds differ at each step; infinitely where their actions do or only one of them ended."""
    states = np.abs(np.array([x.s_next for x in a]) - np.array([x.s_next for x in b])).max(axis=1)
    rewards = np.abs(np.array([x.r for x in a]) - np.array([x.r for x in b]))
    other = np.array([(x.a, x.terminal) != (y.a, y.terminal) for x, y in zip(a, b, strict=True)])
    return np.where(other, np.inf, np.maximum(states, rewards))


def separation(a: list[Transition], b: list[Transition]) -> int:
    """The steps that two rounds have in common, up to a thousandth."""
    beyond = np.flatnonzero(apart(a, b) > 1e-3)
    return int(beyond[0]) if len(beyond) else STEPS


def drift(history: Round, recording: Recording) -> np.ndarray:
    """By how much the parameters differ after each outer iteration."""
    first = len(recording.learners) - len(history.iterations)
    return np.array(
        [
            np.abs(iteration.theta - learner.theta).max()
            for iteration, learner in zip(history.iterations, recording.learners[first:], strict=True)
        ]
    )


def test_in_double_precision_it_is_the_same_round_to_the_end() -> None:
    """4,000 actions, rewards and ends, and 188 outer iterations; most rounds agree to 1e-11 even then."""
    for history, recording in zip(lived(0, double=True, count=3), recordings(True)[:3], strict=True):
        assert apart(history.transitions, recording.transitions).max() < 1e-9
        assert drift(history, recording).max() < 1e-9
    assert any(transition.terminal for recording in recordings(True)[:3] for transition in recording.transitions)


def test_in_single_precision_it_is_the_same_round_until_rounding_separates_them(each_kernel: str) -> None:
    """That happened to about half of the rounds, after 2,000 steps or more; which ones depends on the compiler's mood.

    What separates them is a hill, not a tie between two actions: by the first other action the cars are already apart.
    That nothing but rounding started it is what following each step from the one before shows.
    """
    lengths = []
    for history, recording in zip(lived(0), recordings(False, each_kernel), strict=True):
        assert apart(history.transitions, recording.transitions)[:1_600].max() < 1e-4
        assert drift(history, recording)[: (1_600 - 1_008) // 16].max() < 1e-4
        lengths.append(separation(history.transitions, recording.transitions))
    assert min(lengths) > 1_600
    assert np.median(lengths) > 2_500


# What a whole run tells


def scores(histories: list[Round]) -> np.ndarray:
    """The means of every 1,000 steps, as in the table of curves: by round, window and score."""
    found = []
    for history in histories:
        for end in range(1_000, STEPS + 1, 1_000):
            rewards = [transition.r for transition in history.transitions[end - 1_000 : end]]
            learned = [iteration for iteration in history.iterations if end - 1_000 < iteration.step <= end]
            of_learning = [[getattr(iteration, name) for iteration in learned] or [np.nan] for name in DIAGNOSTICS]
            found.append([np.mean(values) for values in (rewards, *of_learning)])
    return np.reshape(found, (len(histories), -1, 1 + len(DIAGNOSTICS)))


def test_the_same_random_numbers_give_the_same_scores(each_kernel: str) -> None:
    """All of them for 2,000 steps; at the end those of the rounds that rounding has not separated by then."""
    configuration = paper(kernel=each_kernel)
    curves = train_rounds(configuration, tasks.make(configuration.task)).tables["curves"]
    assert curves["step"].tolist() == [1_000, 2_000, 3_000, 4_000] * LANES
    columns = [np.ma.filled(curves[name].astype(np.float64), np.nan) for name in ("reward", *DIAGNOSTICS)]
    package = np.stack(columns, axis=1).reshape(LANES, 4, -1)
    spread = package.std(axis=0)

    def agreeing(plain: np.ndarray) -> np.ndarray:
        """The share of rounds all of whose scores are the same up to 1 % of their spread over rounds, by window."""
        same = np.isclose(package[: len(plain)] / spread, plain / spread, rtol=0, atol=0.01, equal_nan=True)
        return same.all(axis=2).mean(axis=0)

    of_replica = agreeing(scores(lived(0)))
    assert of_replica[:2].tolist() == [1, 1]
    assert of_replica[3] > 0.2
    with planted("SVRG in place of SRG") as settings:
        of_another = agreeing(scores([replica.run_round(settings, chance) for chance in chances(0)[:1]]))
    assert of_another.tolist() == [1, 0, 0, 0]  # nothing is learned in the first window
