"""One round from the inside: what it does, remembers and learns, followed by hand."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import reference
from srgdqn import tasks
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.tasks import Task
from srgdqn.training import lane, program, train_rounds
from srgdqn.training.draws import draw_block
from srgdqn.training.lane import TERMINATED, TRUNCATED
from srgdqn.training.program import Once, programs_for
from tiny import BLOCK, STUBBORN, TIME_LIMIT, lane_segments, levers, tiny

# What is remembered


class Memory(NamedTuple):
    """A round's ring and log after so many blocks."""

    ring: np.ndarray
    reward: np.ndarray
    flags: np.ndarray


def remember(configuration: Configuration, task: Task, number: int) -> Memory:
    programs, _ = programs_for(configuration, task)
    [segment] = lane_segments(configuration, programs, [number])
    log = segment.log
    return Memory(np.array(segment.lanes.ring[0]), log.reward[0].ravel(), log.flags[0].ravel())


def shaped_reward(position: float, angle: float) -> float:
    """The readings' row 18, first option."""
    limit = np.deg2rad(12)
    return (2.4 - abs(position)) / 2.4 - 0.8 + (limit - abs(angle)) / limit - 0.5


@pytest.mark.parametrize("blocks", [3, 8])  # the ring has 48 slots: once full, and beyond the wrap-around
@pytest.mark.parametrize("number", [0, 1])
def test_the_ring_holds_what_gymnasium_does_with_the_same_actions(blocks: int, number: int) -> None:
    steps = blocks * BLOCK
    configuration, task = tiny(steps=steps, reward_scale=0.5, epsilon_start=0.6, epsilon_end=0.6)
    memory = remember(configuration, task, number)
    assert memory.ring.shape == (48, 2 * 4 + 3)
    environment: Any = gymnasium.make("CartPole-v1").unwrapped
    seen, next_seen = memory.ring[:, :4], memory.ring[:, 4:8]
    action, reward, terminated = memory.ring[:, 8:].T
    # Where an episode ends is told by the log; where it starts is after that, or at the start of the run.
    ends = [step for step in range(steps) if memory.flags[step] & (TERMINATED | TRUNCATED)]
    for step in range(steps - 48, steps):
        slot, following = step % 48, (step + 1) % 48
        environment.reset()
        environment.state = seen[slot].astype(np.float64)
        expected, _, end, _, _ = environment.step(int(action[slot]))
        np.testing.assert_allclose(next_seen[slot], expected, rtol=1e-5, atol=1e-6)
        assert bool(terminated[slot]) == end == bool(memory.flags[step] & TERMINATED)
        unscaled = shaped_reward(float(expected[0]), float(expected[2]))
        assert memory.reward[step] == pytest.approx(unscaled, abs=1e-5)
        assert reward[slot] == pytest.approx(0.5 * unscaled, abs=1e-5)
        started = max((earlier + 1 for earlier in ends if earlier < step), default=0)
        cut = not end and step + 1 - started == TIME_LIMIT
        assert bool(memory.flags[step] & TRUNCATED) == cut
        if step + 1 < steps:
            if end or cut:  # a fresh start, though what was stored as the next observation is where it ended
                assert np.abs(seen[following]).max() <= 0.05
                assert (seen[following] != next_seen[slot]).all()
            else:
                # Computed where it is observed and again where it is stored, which may round differently.
                np.testing.assert_allclose(seen[following], next_seen[slot], rtol=1e-6, atol=1e-8)
    assert 0 < action.mean() < 1


def test_those_memories_have_both_ends() -> None:
    flags = np.concatenate(
        [remember(*tiny(steps=128, epsilon_start=0.6, epsilon_end=0.6), number).flags for number in (0, 1)]
    )
    assert (flags & TERMINATED).any()
    assert (flags & TRUNCATED).any()
    assert not ((flags & TERMINATED).astype(bool) & (flags & TRUNCATED).astype(bool)).any()


# When it explores


def pulled_by_hand(configuration: Configuration, task: Task, number: int) -> list[tuple[int, str]]:
    """The levers that a round pulls and what each pull ends, given its random numbers, until its budget is spent.

    The greedy action is lever 0, always.
    """
    settings, acting = configuration.training, configuration.acting
    programs, _ = programs_for(configuration, task, STUBBORN)
    numbers = jnp.full(settings.lanes, number, jnp.uint32)
    key = programs.init(jnp.uint32(settings.seed), numbers, jnp.ones(settings.lanes, bool)).key[0]
    draws = jax.vmap(lambda index: draw_block(configuration, key, index, actions=8, rows=4))(jnp.arange(80))
    explore, random_levers = np.asarray(draws.explore, np.float64).ravel(), np.asarray(draws.action).ravel()
    limit = task.time_limit or (settings.episode_cap if settings.episodes else None)

    pulled: list[tuple[int, str]] = []
    iterations = episodes = length = 0
    for step in range(len(explore)):
        if step % settings.learning_frequency == 0 and step >= settings.learning_starts:
            iterations += 1
        units = [("steps", step), ("outer_iterations", iterations), ("episodes", episodes)]
        [progress] = [done / amount for unit, done in units if (amount := getattr(settings, unit)) is not None]
        if progress >= 1:
            return pulled
        share = min(progress / acting.epsilon_fraction, 1)
        epsilon = (1 - share) * acting.epsilon_start + share * acting.epsilon_end
        epsilon = 1.0 if acting.uniform_start and iterations == 0 else epsilon
        lever = int(random_levers[step]) if explore[step] < epsilon else 0
        length += 1
        end = "terminated" if lever == 7 else "cut" if length == limit else ""
        episodes, length = (episodes + 1, 0) if end else (episodes, length)
        pulled.append((lever, end))
    raise AssertionError("more blocks were needed")


BUDGETS: dict[str, dict[str, Any]] = {
    "steps": dict(steps=700),
    "outer_iterations": dict(outer_iterations=40),
    "episodes": dict(episodes=120, episode_cap=6),
    "episodes with a time limit": dict(episodes=120, time_limit=6),
}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("fraction", "uniform"), [(1.0, False), (0.3, False), (0.3, True)])
def test_epsilon_declines_over_the_budget_in_its_own_unit(budget: str, fraction: float, uniform: bool) -> None:
    chosen: dict[str, Any] = dict(BUDGETS[budget], epsilon_fraction=fraction, epsilon_start=0.9, learning_starts=40)
    chosen["uniform_start"] = uniform
    configuration, task = levers(rounds=6, seed=4, **chosen)
    trained = train_rounds(configuration, task, STUBBORN)
    curves, episodes = trained.tables["curves"], trained.tables["episodes"]
    lengths = set()
    for number in (0, 5):
        pulled = pulled_by_hand(configuration, task, number)
        # Windows of one step: a row's reward is the number of the lever.
        assert curves["reward"][curves["round"] == number].tolist() == [lever for lever, _ in pulled]
        ends = [step for step, (_, end) in enumerate(pulled, start=1) if end]
        assert episodes["step"][episodes["round"] == number].tolist() == ends
        terminated = [end == "terminated" for _, end in pulled if end]
        assert (episodes["ending"][episodes["round"] == number] == "terminated").tolist() == terminated
        lengths.add(len(pulled))
        explored = np.array([lever > 0 for lever, _ in pulled])
        assert explored[:200].mean() > 0.3
        assert explored[-40:].mean() < 0.2
    assert (len(lengths) > 1) == ("episodes" in budget)


def test_all_of_epsilon_is_uniform_and_none_of_it_is_greedy() -> None:
    for epsilon, levers_pulled in ((1.0, range(8)), (0.0, range(1))):
        configuration, task = levers(rounds=4, steps=700, epsilon_start=epsilon, epsilon_end=epsilon)
        rewards = train_rounds(configuration, task, STUBBORN).tables["curves"]["reward"]
        counts = np.bincount(rewards.astype(int), minlength=8)
        assert np.flatnonzero(counts).tolist() == list(levers_pulled)
        assert counts.max() - counts[list(levers_pulled)].min() < 5 * np.sqrt(2 * 2_800 / 8)


# What it learns


class Iteration(NamedTuple):
    """What one outer iteration was given by the loop, and the parameters after it."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_observation: np.ndarray
    terminated: np.ndarray
    picks: np.ndarray
    progress: float
    after: np.ndarray

    @property
    def data(self) -> list[reference.Transition]:
        columns = (column.astype(np.float64) for column in (self.observation, self.reward, self.next_observation))
        observation, reward, next_observation = columns
        rows = zip(observation, self.action, reward, next_observation, self.terminated, strict=True)
        return [reference.Transition(s, int(a), float(r), t, bool(end)) for s, a, r, t, end in rows]


class Lesson(NamedTuple):
    """A round's outer iterations, and everything it had experienced before each."""

    configuration: Configuration
    start: np.ndarray
    iterations: list[Iteration]
    experience: np.ndarray  # packed transitions, in the order of steps
    ended: np.ndarray  # whether an episode ended with each


FREQUENCY, STARTS, STEPS = 4, 6, 30


def follow(monkeypatch: pytest.MonkeyPatch, algorithm: str, **options: Any) -> Lesson:
    """Trains one round with a recording in front of its outer iterations."""
    monkeypatch.setattr(program, "_cache", Once(64))
    given: dict[int, Any] = {}
    real = lane.outer_iteration

    def recording(configuration: Any, network: Any, state: Any, transitions: Any, picks: Any, **more: Any) -> Any:
        def record(number: Any, *arrays: Any) -> None:
            given[int(number)] = [np.array(array) for array in arrays]

        jax.debug.callback(record, state.iterations, *transitions[:5], picks, more["progress"])
        return real(configuration, network, state, transitions, picks, **more)

    monkeypatch.setattr(lane, "outer_iteration", recording)
    usual: dict[str, Any] = dict(
        hidden=(3,),
        lanes=1,
        batch_size=5,
        replay_capacity=10,
        inner_iterations=2,
        learning_frequency=FREQUENCY,
        learning_starts=STARTS,
        time_limit=TIME_LIMIT,
        evaluation_episodes=1,
        epsilon_start=0.5,
        steps=STEPS,
        eta=0.05,
        alpha=0.02,
    )
    configuration = configure("CartPole", algorithm, **{**usual, **options})
    programs, _ = programs_for(configuration, tasks.make(configuration.task))
    parameters, rows, ended = [], [], []
    slots = -(-configuration.replay.replay_capacity // FREQUENCY) * FREQUENCY
    for segment in lane_segments(configuration, programs, [0], segment_blocks=1):
        newest = [
            step % slots for step in range((segment.blocks_done - 1) * FREQUENCY, segment.blocks_done * FREQUENCY)
        ]
        rows.append(np.array(segment.lanes.ring[0])[newest])
        ended.append((segment.log.flags[0].ravel() & (TERMINATED | TRUNCATED)) > 0)
        parameters.append(flat(segment.lanes.learner.parameters))
    jax.effects_barrier()
    learned = [block for block in range(STEPS // FREQUENCY) if (block + 1) * FREQUENCY >= STARTS]
    assert sorted(given) == list(range(len(learned)))
    iterations = [Iteration(*given[i], after=parameters[block]) for i, block in enumerate(learned)]  # type: ignore[misc]
    # Nothing is learned before, so that the parameters after the first block are those at the start.
    return Lesson(configuration, parameters[0], iterations, np.concatenate(rows), np.concatenate(ended))


def flat(parameters: Any) -> np.ndarray:
    return np.asarray(ravel_pytree(jax.tree.map(lambda leaf: np.array(leaf[0]), parameters))[0], np.float64)


def by_reference(lesson: Lesson, **changed: Any) -> list[np.ndarray]:
    """The parameters after each outer iteration, by the plain implementation of the paper."""
    known = {field.name for field in dataclasses.fields(reference.Options)}
    options = {name: value for name, value in lesson.configuration.options().items() if name in known}
    chosen = reference.Options(**{**options, "sizes": (4, 3, 2), **changed})
    state, found = reference.init(chosen, lesson.start), []
    for iteration in lesson.iterations:
        state, _ = reference.outer_iteration(
            lesson.configuration.algorithm,
            chosen,
            state,
            iteration.data,
            iteration.picks.tolist(),
            progress=float(iteration.progress),
        )
        found.append(state.theta)
    return found


def close(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return np.allclose(np.stack(found), np.stack(expected), rtol=1e-3, atol=2e-5)


LESSONS: dict[str, dict[str, Any]] = {
    "svr-dqn": dict(
        target="hard",
        target_period=2,
        loss="huber",
        huber_delta=0.4,
        clip_norm=0.7,
        schedule="linear",
        schedule_end=0.2,
        sampling="without-replacement",
        inner_batch=3,
        inner_sampling="without-replacement",
    ),
    "sgd-inner-adam": dict(
        readings="printed",
        target="polyak",
        target_tau=0.4,
        schedule="cosine",
        schedule_end=0.1,
        sampling="newest",
        learning_starts=STARTS,
    ),
    "srg-dqn-no-adam": dict(
        target="outer",
        normalise_observations=True,
        normalise_rewards=True,
        coefficient=0.7,
        inner_batch=2,
        anchor_step=False,
        reward_scale=3.0,
    ),
}

# What each lesson would be without one of its options, to show that it matters.
DEFAULTS: dict[str, Any] = dict(
    target="current",
    loss="squared",
    clip_norm=None,
    schedule="constant",
    target_period=3,
    target_tau=0.3,
    huber_delta=0.1,
    schedule_end=0.9,
    coefficient=1.0,
    anchor_step=True,
)


@pytest.mark.parametrize("algorithm", LESSONS)
def test_the_loop_learns_what_the_paper_says(monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    options = LESSONS[algorithm]
    lesson = follow(monkeypatch, algorithm, **options)
    learned = [iteration.after for iteration in lesson.iterations]
    assert len(learned) == 6  # after steps 8, 12, …, 28
    assert np.abs(learned[-1] - lesson.start).max() > 0.01
    assert close(learned, by_reference(lesson))
    for name in options:
        if name in DEFAULTS:
            assert not close(learned, by_reference(lesson, **{name: DEFAULTS[name]})), name
    check_progress(lesson)
    check_batches(lesson)
    check_picks(lesson)


def check_progress(lesson: Lesson) -> None:
    """The share of the budget spent when an outer iteration is made."""
    expected = [step / STEPS for step in range(8, STEPS + 1, FREQUENCY)]
    assert [float(iteration.progress) for iteration in lesson.iterations] == pytest.approx(expected)


def check_batches(lesson: Lesson) -> None:
    """D consists of the newest transitions, as the network and the learner see them by then."""
    sampling, capacity = lesson.configuration.replay.sampling, lesson.configuration.replay.replay_capacity
    for index, iteration in enumerate(lesson.iterations):
        written = 8 + FREQUENCY * index
        alive = as_seen(lesson, written)[max(written - capacity, 0) :]
        columns = (iteration.action, iteration.reward, iteration.terminated)
        batch = np.column_stack([iteration.observation, iteration.next_observation, *columns])
        distances = np.abs(batch[:, None] - alive[None]).max(-1)
        found = distances.argmin(1)
        assert distances.min(1).max() < 1e-3
        if sampling == "newest":
            assert found.tolist() == [len(alive) - 1 - age for age in range(5)]
        if sampling == "without-replacement":
            assert len(set(found.tolist())) == 5


def as_seen(lesson: Lesson, written: int) -> np.ndarray:
    """The experience so far, with the running statistics of all of it taken out, where that is asked for."""
    settings = lesson.configuration.normalisation
    rows = lesson.experience[:written].astype(np.float64)
    seen = rows.copy()
    if settings.normalise_observations:
        mean, variance = moments(rows[:, :4])
        for part in (slice(0, 4), slice(4, 8)):
            seen[:, part] = (rows[:, part] - mean) / np.sqrt(variance + 1e-8)
    if settings.normalise_rewards:
        totals, total = [], 0.0
        for reward, end in zip(rows[:, 9], lesson.ended, strict=False):
            total = lesson.configuration.gradients.gamma * total + reward
            totals.append(total)
            total = 0.0 if end else total
        seen[:, 9] = rows[:, 9] / np.sqrt(moments(np.array(totals))[1] + 1e-8)
    return seen


def moments(rows: np.ndarray) -> tuple[Any, Any]:
    """Mean and variance of the rows and of a thousandth of a sample with mean 0 and variance 1."""
    weight = len(rows) + 1e-3
    mean = rows.sum(0) / weight
    return mean, ((rows**2).sum(0) + 1e-3) / weight - mean**2


def check_picks(lesson: Lesson) -> None:
    inner = lesson.configuration.estimator
    for iteration in lesson.iterations:
        assert iteration.picks.shape == (2, inner.inner_batch)
        assert iteration.picks.min() >= 0
        assert iteration.picks.max() < 5
        if inner.inner_sampling == "without-replacement":
            assert all(len(set(row)) == inner.inner_batch for row in iteration.picks.tolist())
    assert len({str(iteration.picks) for iteration in lesson.iterations}) > 1
