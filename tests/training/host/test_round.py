"""Whole rounds on the host beside a plain program in double precision that gets nothing but the random numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import reference
from host_environments import SMALL, Slope, slope_start, slope_step
from srgdqn.adapters.environments import source_of
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.learner.outer_iteration import batch_rows
from srgdqn.training.draws import draw_block
from srgdqn.training.host.program import host_program
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.task import host_task, make_player, reset_seed
from srgdqn.training.lane import TERMINATED, TRUNCATED, round_keys
from translation import flat, options_of

SIZES = (2, 4, 3)
BLOCK, SEED, NUMBER = SMALL["learning_frequency"], 3, 2

# Budgets are powers of two, whose shares are the same in single precision, which they are computed in.
# Every algorithm's arithmetic is compared elsewhere: here it is what surrounds it, in as few shapes as will do.
CASES: dict[str, dict[str, Any]] = {
    "steps": dict(algorithm="srg-dqn", steps=256, target="current", loss="squared", clip_norm=None, schedule="linear"),
    "outer iterations": dict(
        algorithm="dqn-adam",
        outer_iterations=25,
        normalise_observations=True,
        normalise_rewards=True,
        target_period=3,
        environments=2,
    ),
    "episodes": dict(
        algorithm="svr-dqn",
        readings="printed",
        episodes=32,
        reward_clip=0.75,
        reward_scale=0.5,
        target="polyak",
        schedule="linear",
        normalise_rewards=True,
        epsilon_start=0.2,
        uniform_start=True,
    ),
    "several steps": dict(
        algorithm="srg-dqn", steps=256, n_step=4, environments=2, normalise_rewards=True, target="current"
    ),
    "a target by steps": dict(algorithm="dqn-adam", steps=256, target="hard", target_update_interval=21),
    "averaged copies by steps, and Adam anew": dict(
        algorithm="srg-dqn",
        steps=256,
        target="hard",
        target_update_interval=21,
        target_networks=3,
        adam_at_copy="reset",
    ),
    "Adam's clock restarted by steps": dict(
        algorithm="dqn-adam", steps=256, target="hard", target_update_interval=37, adam_at_copy="restart-clock"
    ),
    "uniform at first": dict(
        algorithm="dqn-adam", steps=256, target="outer", epsilon_start=0.2, uniform_start=True, weight_decay=0.5
    ),
}


def configuration_of(case: str) -> Configuration:
    options = {**SMALL, "epsilon_fraction": 0.7, "epsilon_end": 0.1, "seed": SEED, "kernel": "xla", **CASES[case]}
    return configure("Slope", defaults=host_preset("Slope"), **options)


# The plain program


class Draws(NamedTuple):
    explore: np.ndarray
    action: np.ndarray
    batch: np.ndarray
    picks: np.ndarray


class Lived(NamedTuple):
    rewards: list[float]
    terminated: list[bool]
    truncated: list[bool]
    theta: list[np.ndarray]  # after every block
    losses: list[float]  # NaN where nothing was learnt


class Ball:
    """The slope, seen by one environment."""

    def __init__(self, environment: int) -> None:
        self.place, self.episode = environment, -1
        self.begin()

    def begin(self) -> None:
        self.episode += 1
        random, _ = gym.utils.seeding.np_random(reset_seed(SEED, NUMBER, self.place, self.episode))
        self.state, self.steps = (slope_start(random), 0.0), 0

    def seen(self) -> np.ndarray:
        return np.array(self.state, np.float32).astype(np.float64)


class Running:
    """Mean and variance of everything so far, beside a thousandth of a sample with mean 0 and variance 1."""

    def __init__(self, size: int) -> None:
        self.rows: list[np.ndarray] = []
        self.size = size

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        rows = np.array(self.rows).reshape(-1, self.size)
        weight = len(rows) + 1e-3
        mean = rows.sum(0) / weight
        return mean, (((rows - mean) ** 2).sum(0) + 1e-3 * (1 + mean**2)) / weight


def normalised(running: Running | None, row: np.ndarray) -> np.ndarray:
    if running is None:
        return row
    mean, variance = running.moments()
    return (row - mean) / np.sqrt(variance + 1e-8)


def live(configuration: Configuration, theta: np.ndarray, draws: Draws) -> Lived:
    o, c = options_of(configuration, SIZES), configuration
    unit, amount = next(
        (u, getattr(c.training, u)) for u in ("steps", "outer_iterations", "episodes") if getattr(c.training, u)
    )
    learner = reference.init(o, theta)
    memory: deque[tuple] = deque(maxlen=c.replay.replay_capacity)
    balls = [Ball(environment) for environment in range(c.training.environments)]
    seen_so_far = Running(2) if c.normalisation.normalise_observations else None
    returns_so_far = Running(1) if c.normalisation.normalise_rewards else None
    open_returns = [0.0] * len(balls)
    spent = {"steps": 0, "outer_iterations": 0, "episodes": 0}
    story = Lived([], [], [], [], [])
    block = 0
    while spent[unit] < amount:
        rows, newly_seen = [], []
        turn = []
        for step in range(block * BLOCK, (block + 1) * BLOCK):
            ball = balls[step % len(balls)]
            interval = c.gradients.target_update_interval
            if interval is not None and (step + 1) % interval == 0:  # nothing is learned before the block ends
                adam = reference.after_copy(o, learner.first, learner.second, learner.adam_count)
                learner = reference.State(
                    learner.theta, *adam, reference.copy(o, learner.target, learner.theta), learner.iterations
                )
            if step % len(balls) == 0:
                # All are seen before any of them acts.
                turn = [reference.q_values(o, learner.theta, normalised(seen_so_far, each.seen())) for each in balls]
            share = (step if unit == "steps" else spent[unit]) / amount
            epsilon = c.acting.epsilon_start + (0.1 - c.acting.epsilon_start) * min(share / 0.7, 1.0)
            if c.acting.uniform_start and np.isnan(story.losses).all():
                epsilon = 1.0
            explores = draws.explore[step] < epsilon
            action = int(draws.action[step]) if explores else int(turn[ball.place].argmax())
            before = ball.seen()
            place, speed, reward, end = slope_step(*ball.state, action)
            ball.state, ball.steps = (place, speed), ball.steps + 1
            cut = ball.steps == 12 and not end
            reward = float(np.float32(reward))
            story.rewards.append(reward)
            story.terminated.append(end)
            story.truncated.append(cut)
            if c.task.reward_clip is not None:
                reward = min(max(reward, -c.task.reward_clip), c.task.reward_clip)
            reward *= c.task.reward_scale
            open_returns[ball.place] = o.gamma * open_returns[ball.place] + reward
            rows.append((before, action, reward, ball.seen(), end, cut, ball.place))
            newly_seen.append((before, open_returns[ball.place]))
            if end or cut:
                open_returns[ball.place] = 0.0
                spent["episodes"] += 1
                ball.begin()
        memory.extend(rows)
        for before, total in newly_seen:
            if seen_so_far is not None:
                seen_so_far.rows.append(before)
            if returns_so_far is not None:
                returns_so_far.rows.append(np.array([total]))
        made = (block + 1) * BLOCK
        spent["steps"] = made
        loss = np.nan
        if made >= c.training.learning_starts and (unit != "steps" or made <= amount):
            scale = 1.0 if returns_so_far is None else float(np.sqrt(returns_so_far.moments()[1][0] + 1e-8))
            data = []
            for word in draws.batch[block]:
                s, a, r, s_next, end, steps = from_there_on(
                    list(memory)[-1 - int(word) % len(memory) :], c.replay.n_step, o.gamma
                )
                transition = (normalised(seen_so_far, s), a, r / scale, normalised(seen_so_far, s_next), end)
                data.append(reference.Transition(*transition, steps))
            picks = [[int(word) % len(data) for word in row] for row in draws.picks[block]]
            learner, record = reference.outer_iteration(
                c.algorithm, o, learner, data, picks, progress=min(spent[unit] / amount, 1.0)
            )
            spent["outer_iterations"] += 1
            loss = record.loss
        story.theta.append(learner.theta)
        story.losses.append(loss)
        block += 1
    return story


def from_there_on(rows: list[tuple], n: int, gamma: float) -> tuple:
    """The first of these transitions and those that follow it in its environment, as one."""
    s, a, _, _, _, _, place = rows[0]
    total, steps, reached = 0.0, 0, (s, False)
    for _, _, reward, s_next, end, cut, at in rows:
        if at == place:
            total, steps, reached = total + gamma**steps * reward, steps + 1, (s_next, end)
            if end or cut or steps == n:
                break
    return s, a, total, *reached, steps


# The package


def draws_of(configuration: Configuration, blocks: int) -> Draws:
    def one(index: jax.Array) -> tuple[jax.Array, ...]:
        key = round_keys(jnp.uint32(SEED), jnp.uint32(NUMBER))[2]
        drawn = draw_block(configuration, key, index, actions=3, rows=batch_rows(configuration))
        return drawn.explore, drawn.action, drawn.batch().batch, drawn.batch().picks

    explore, action, batch, picks = map(np.asarray, jax.jit(jax.vmap(one))(jnp.arange(blocks)))
    return Draws(explore.ravel(), action.ravel(), batch, picks)


def round_of(configuration: Configuration, environment: Any = Slope) -> HostRound:
    task = host_task(configuration, source_of(environment))
    program, _ = host_program(configuration, task.network_input, task.actions.count)
    player, _ = make_player(configuration, task, NUMBER)
    return HostRound(configuration, task, program, player, NUMBER)


def blocks_of(round_: HostRound) -> Iterator[np.ndarray]:
    while round_.active:
        round_.step_block()
        yield flat(round_.learner.parameters)


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_plain_programs_round_to_the_end(case: str) -> None:
    """Also with far more blocks than the memory has room for, and random numbers of several pages."""
    with jax.enable_x64(True):
        configuration = configuration_of(case)
        round_ = round_of(configuration)
        story = live(configuration, flat(round_.learner.parameters), draws_of(configuration, 80))
        theta = list(blocks_of(round_))
    assert round_.diverged_at is None
    assert len(theta) == len(story.theta) > 3 * SMALL["replay_capacity"] / BLOCK
    np.testing.assert_array_equal(np.concatenate(round_.step_log["reward"]), story.rewards)
    flags = np.concatenate(round_.step_log["flags"])
    np.testing.assert_array_equal((flags & TERMINATED) > 0, story.terminated)
    np.testing.assert_array_equal((flags & TRUNCATED) > 0, story.truncated)
    assert any(story.terminated)
    assert any(story.truncated)
    np.testing.assert_allclose(theta, story.theta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.array(round_.step_log["diagnostics"])[:, 0], story.losses, rtol=1e-7)
    assert 0 < np.abs(theta[-1] - theta[0]).max() < 10


def test_a_vector_whose_resets_are_ours_lives_as_copies_do() -> None:
    """The copies act one after the other, and the vector's environments at once, which comes to the same."""
    configuration = configuration_of("outer iterations")
    together = SyncVectorEnv([Slope, Slope], autoreset_mode=gym.vector.AutoresetMode.DISABLED)
    with jax.enable_x64(True):
        copies, vector = round_of(configuration), round_of(configuration, together)
        for one, other in zip(blocks_of(copies), blocks_of(vector), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(np.stack(copies.step_log["reward"]), np.stack(vector.step_log["reward"]))
    np.testing.assert_array_equal(np.stack(copies.step_log["environments"]), np.stack(vector.step_log["environments"]))


@pytest.mark.parametrize("mode", gym.vector.AutoresetMode, ids=str)
def test_every_step_has_its_own_draw_also_of_those_lived_ahead(mode: gym.vector.AutoresetMode) -> None:
    """Where every action is random, step number t takes action number t; several environments reach into the next
    block, and the random numbers of a page into those of the next.
    """
    always = dict(epsilon_start=1.0, epsilon_end=1.0, outer_iterations=69)
    configuration = configuration_of("outer iterations").with_options(always)
    with jax.enable_x64(True):
        round_ = round_of(configuration, SyncVectorEnv([Slope, Slope], autoreset_mode=mode))
        actions, ahead = [], set()
        while round_.active:
            round_.step_block()
            actions += round_._block.action.tolist()
            ahead.add(round_.player.ahead)  # type: ignore[union-attr]
        assert actions == draws_of(configuration, 70).action.tolist()
    assert ahead == ({0, 1} if mode is gym.vector.AutoresetMode.NEXT_STEP else {0})


def test_an_episode_that_is_left_open_is_no_part_of_the_next_ones_return() -> None:
    configuration = configuration_of("outer iterations")
    round_ = round_of(configuration)
    round_.step_block()
    assert np.any(np.asarray(round_.normaliser.open_return) != 0)
    seen = round_.normaliser.returns
    player, _ = make_player(configuration, round_.task, NUMBER)
    round_.enter(player)
    np.testing.assert_array_equal(round_.normaliser.open_return, np.zeros(2))
    assert round_.normaliser.returns is seen
