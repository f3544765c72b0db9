"""Agents as people use them: learning, predicting, saving and loading, in other libraries' hands too."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import SyncVectorEnv

import srgdqn
from host_environments import SMALL, Counting, Slope
from srgdqn.agent import Agent
from srgdqn.errors import InputError
from srgdqn.training.host.agent_round import renamed
from srgdqn.training.host.evaluation import evaluation_seed
from srgdqn.training.loop import policy_arrays
from tiny import bits

SEEN = np.random.default_rng(0).uniform(-2, 2, (40, 2)).astype(np.float32)


def agent_of(environment: Any = Slope, *, algorithm: str = "srg-dqn", **options: Any) -> Agent:
    return Agent(algorithm, environment, seed=0, **{**SMALL, **options})


def state_of(agent: Agent) -> list[tuple[Any, ...]]:
    """The bits of everything that is learnt."""
    round_ = agent._round
    return bits((round_.learner, round_.normaliser, jax.random.key_data(round_.key)))


def actions_of(agent: Agent) -> list[int]:
    return agent.predict(SEEN, deterministic=True)[0].tolist()


# Learning


def test_it_learns_what_train_learns() -> None:
    agent = agent_of().learn(96)
    result = srgdqn.train(Slope, "srg-dqn", **SMALL, steps=96, seed=0, progress=False)
    expected = policy_arrays(agent._round.learner.parameters, agent._round.normaliser)
    assert bits(result.parameters_of(0)) == bits(expected)
    assert result.policy(0)(SEEN).tolist() == actions_of(agent)
    assert len(set(actions_of(agent))) > 1


def test_an_id_an_instance_a_factory_and_a_spec_are_the_same() -> None:
    given = ("CartPole-v1", gym.make("CartPole-v1"), lambda: gym.make("CartPole-v1"), gym.spec("CartPole-v1"))
    first, *others = (state_of(agent_of(environment).learn(48)) for environment in given)
    assert others == [first] * 3


def test_two_parts_of_a_budget_are_the_whole() -> None:
    """The open episode goes on, and so do the schedules: the budget is the steps so far and those to come."""
    whole = agent_of().learn(96)
    parts = agent_of().learn(96, lambda agent: agent.num_timesteps < 40)
    assert parts.num_timesteps == 40
    assert state_of(parts) != state_of(whole)
    parts.learn(56, reset_num_timesteps=False)
    assert parts.num_timesteps == 96
    assert state_of(parts) == state_of(whole)
    assert parts.exploration_rate == whole.exploration_rate == pytest.approx(0.05)


def test_a_new_budget_begins_the_schedules_anew() -> None:
    agent = agent_of(epsilon_fraction=1.0).learn(80)
    assert agent.exploration_rate == pytest.approx(0.05)
    iterations = agent._round.iterations
    rates = []
    agent.learn(80, lambda each: rates.append(each.exploration_rate))
    np.testing.assert_allclose(rates, [1 - 0.95 * steps / 80 for steps in range(8, 81, 8)], rtol=1e-5)
    assert agent.num_timesteps == 80
    assert agent._round.iterations == iterations + 10  # there was enough to learn from already


@pytest.mark.parametrize("given", [0, 2.5, "100", None, float("nan"), True])
def test_budgets_are_whole_numbers(given: Any) -> None:
    with pytest.raises(InputError, match=r"total_timesteps is .* but must be a whole number of 1 or more"):
        agent_of().learn(given)
    assert agent_of().learn(1e1).num_timesteps == 16  # whole blocks


def test_nothing_grows_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.training.host.round._SEGMENT_BLOCKS", 3)
    agent = agent_of().learn(400)
    assert 0 < len(agent._round.step_log) <= 3


def test_an_interrupt_leaves_whole_blocks() -> None:
    agent, before = agent_of(), signal.getsignal(signal.SIGINT)

    def press(each: Agent) -> None:
        if each.num_timesteps == 24:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        agent.learn(96, press)
    assert agent.num_timesteps == 24
    assert signal.getsignal(signal.SIGINT) is before
    assert state_of(agent.learn(72, reset_num_timesteps=False)) == state_of(agent_of().learn(96))


def test_divergence_stops_it_with_the_last_finite_parameters(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"went non-finite at step \d+: .* smaller eta or alpha"):
        agent = agent_of(eta=3e38).learn(96)
    assert agent.diverged
    assert agent.num_timesteps < 96
    assert all(np.isfinite(array).all() for array in jax.tree.leaves(agent._round.learner.parameters))
    loaded = Agent.load(agent.save(tmp_path / "agent"), Slope)
    assert loaded.diverged
    assert actions_of(loaded) == actions_of(agent)
    with pytest.warns(RuntimeWarning, match="learns no more"):
        assert loaded.learn(96).num_timesteps == 0


# Predicting


class Levels(Slope):
    """Observes one of two levels, counted from 3; its actions are counted from 2."""

    observation_space = Discrete(2, start=3)
    action_space = Discrete(3, start=2)

    def reset(self, **named: Any) -> Any:
        return 3, {**super().reset(**named)[1]}

    def step(self, action: Any) -> Any:
        assert action in (2, 3, 4)
        _, *rest = super().step(action - 2)
        return np.int64(3 + (self.place > 1)), *rest


class Pushed(Slope):
    """A push from -1 to 1."""

    action_space = Box(-1.0, 1.0, (1,), np.float64)

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return super().step(1 + round(float(action.mean())))


@pytest.mark.parametrize(
    ("environment", "options", "single", "rows"),
    [
        (Slope, {}, SEEN[0], SEEN[:7]),
        (Levels, {}, 4, np.array([3, 4, 4, 3, 4, 4, 3])),
        (Pushed, dict(action_bins=3), SEEN[0], SEEN[:7]),
    ],
)
def test_predictions_are_actions_of_the_environment(
    environment: Any, options: dict[str, Any], single: Any, rows: Any, tmp_path: Path
) -> None:
    agent, space = agent_of(environment, **options).learn(32), environment.action_space
    for deterministic in (True, False):
        action, state = agent.predict(single, state="as it came", deterministic=deterministic)
        assert state == "as it came"
        assert (np.shape(action), np.asarray(action).dtype) == (space.shape, space.dtype)
        actions, _ = agent.predict(rows, deterministic=deterministic)
        assert (actions.shape, actions.dtype) == ((7, *space.shape), space.dtype)
        assert all(space.contains(each) for each in [action, *actions])
    best = agent.predict(rows, deterministic=True)[0]
    np.testing.assert_array_equal([agent.predict(row, deterministic=True)[0] for row in rows], best)
    loaded = Agent.load(agent.save(tmp_path / "agent"), environment)
    np.testing.assert_array_equal(loaded.predict(rows, deterministic=True)[0], best)


def test_random_actions_come_as_often_as_it_explores() -> None:
    agent, rows = agent_of(epsilon_start=0.5, epsilon_end=0.5), np.repeat(SEEN[:1], 3_000, axis=0)
    share = (agent.predict(rows)[0] == agent.predict(rows[0], deterministic=True)[0]).mean()
    assert share == pytest.approx(0.5 + 0.5 / 3, abs=0.04)  # four standard deviations


@pytest.mark.parametrize("odd", [np.zeros(3), None, np.zeros((1, 1, 2)), [["a", "b"]]])
def test_observations_of_another_shape_are_refused(odd: Any) -> None:
    with pytest.raises(InputError, match="Give what the environment gives"):
        agent_of().predict(odd)


# Saving and loading


@pytest.mark.parametrize(
    ("options", "include_replay"),
    [
        ({}, False),
        (dict(normalise_observations=True, normalise_rewards=True, target="polyak"), True),
        (dict(algorithm="dqn-storm", a=0.3), True),
        (dict(estimator="alpha_svrg", svrg_start=0.75, gradient_steps=2), True),
    ],
)
def test_an_agent_is_the_same_when_loaded(options: dict[str, Any], include_replay: bool, tmp_path: Path) -> None:
    agent = agent_of(**options).learn(72)
    path = agent.save(tmp_path / "agent", include_replay=include_replay)
    assert path == tmp_path / "agent.safetensors"
    loaded = Agent.load(tmp_path / "agent", Slope)
    assert state_of(loaded) == state_of(agent)
    assert loaded.configuration == agent.configuration
    assert (loaded.num_timesteps, loaded.exploration_rate) == (72, agent.exploration_rate)
    assert actions_of(loaded) == actions_of(agent)
    assert loaded.play(2)[0].tolist() == agent.play(2)[0].tolist()
    # Both begin new episodes, with seeds that no episode has had.
    agent.close()
    for each in (agent, loaded):
        each.learn(40, reset_num_timesteps=False)
    assert (state_of(loaded) == state_of(agent)) == include_replay
    assert loaded._round.iterations == agent._round.iterations - (0 if include_replay else 1)
    twice = Agent.load(loaded.save(tmp_path / "again", include_replay=True), Slope)
    twice.learn(8)
    loaded.close()
    assert state_of(twice) == state_of(loaded.learn(8))


def test_without_its_replay_it_learns_only_from_its_steps_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Agent.load(agent_of().learn(72).save(tmp_path / "agent"), Slope)
    memory, gather, drawn = loaded._round.memory, loaded._round.memory.gather, []

    def noting(slots: Any, **given: Any) -> Any:
        drawn.append((int(slots.max()) < memory.written, memory.written))
        return gather(slots, **given)

    monkeypatch.setattr(memory, "gather", noting)
    loaded.learn(32)
    assert drawn == [(True, 16), (True, 24), (True, 32)]


def test_an_episodes_seed_is_never_used_twice(tmp_path: Path) -> None:
    seeds: list[int] = []

    class Noting(Slope):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            assert seed is not None
            seeds.append(seed)
            return super().reset(seed=seed)

    agent = agent_of(Noting).learn(64)
    agent.close()
    agent.learn(32)
    Agent.load(agent.save(tmp_path / "agent"), Noting).learn(64)
    assert len(seeds) == len(set(seeds)) > 15


def test_a_file_is_replaced_only_if_allowed_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_of()
    path = agent.save(tmp_path / "agent")
    before = path.read_bytes()
    agent.learn(32)
    with pytest.raises(InputError, match="exists already"):
        agent.save(path, overwrite=False)
    assert path.read_bytes() == before

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("srgdqn.runs.destination.os.replace", full)
        with pytest.raises(InputError, match="No space left"):
            agent.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    agent.save(path)
    assert Agent.load(path, Slope).num_timesteps == 32
    with pytest.raises(InputError, match=r"is not a folder. Make it first"):
        agent.save(tmp_path / "nowhere" / "agent")


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    agent = agent_of()
    path = agent.save(tmp_path / "agent")
    with pytest.raises(InputError, match=r"nothing.safetensors does not exist. Give a file that Agent.save wrote"):
        Agent.load(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"observations of .*Counting are .*Give an environment with the same"):
        Agent.load(path, Counting)
    with pytest.raises(InputError, match=r"has 2 actions, but 3 were learned with"):
        Agent.load(path, type("Two", (Slope,), {"action_space": Discrete(2)}))
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"broken.safetensors cannot be loaded: .*Give a file that Agent.save wrote"):
        Agent.load(broken)
    run = srgdqn.train(Slope, **SMALL, steps=40, progress=False).save(tmp_path / "run")
    with pytest.raises(InputError, match="it holds tensors, but no agent"):
        Agent.load(next(run.glob("*.safetensors")))
    with pytest.raises(InputError, match=r"run is the folder of a run: srgdqn.load\(folder\).policy\(round\) acts"):
        Agent.load(run)


def test_an_environment_that_was_wrapped_is_given_again(tmp_path: Path) -> None:
    """Its id alone would make another one, which may have other spaces, or other rewards."""
    two = gym.wrappers.TransformObservation(
        gym.make("Acrobot-v1"), lambda seen: seen[:2], Box(-np.inf, np.inf, (2,), np.float32)
    )
    path = agent_of(two).learn(16).save(tmp_path / "agent")
    loaded = Agent.load(path)
    assert loaded.predict(SEEN, deterministic=True)[0].shape == (40,)
    with pytest.raises(InputError, match=r"Acrobot-v1 \(as given\) cannot be made from its name"):
        loaded.learn(16)
    with pytest.raises(InputError, match="Acrobot-v1 are vectors of 6 numbers, but vectors of 2 numbers were learned"):
        Agent.load(path, "Acrobot-v1")
    assert Agent.load(path, two).learn(16).num_timesteps == 16


def test_an_agent_without_its_environment_still_acts(tmp_path: Path) -> None:
    agent = agent_of().learn(32)
    loaded = Agent.load(agent.save(tmp_path / "agent"))
    assert actions_of(loaded) == actions_of(agent)
    with pytest.raises(InputError, match="or a function that makes it"):
        loaded.learn(8)
    loaded.set_env(Slope)
    assert loaded.learn(8).num_timesteps == 8
    gym.register("Passing-v0", Slope)
    try:
        path = agent_of("Passing-v0").save(tmp_path / "passing")
    finally:
        del gym.registry["Passing-v0"]
    with pytest.raises(InputError, match="unknown Gymnasium environment 'Passing-v0'"):
        Agent.load(path).learn(8)


def test_loading_imports_no_module_that_a_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap_of_a_stranger.py").write_text("raise RuntimeError('sprung')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    agent = agent_of("CartPole-v1")
    agent._round.configuration = renamed(agent.configuration, "trap_of_a_stranger:CartPole-v1")
    loaded = Agent.load(agent.save(tmp_path / "agent"))
    assert loaded.predict(np.zeros(4), deterministic=True)[0] in (0, 1)
    assert "trap_of_a_stranger" not in sys.modules
    with pytest.raises(InputError, match=r"cannot be imported \(RuntimeError: sprung\)"):
        loaded.learn(8)


def test_what_is_saved_is_the_environment_with_its_options(tmp_path: Path) -> None:
    agent = agent_of(gym.make("Acrobot-v1", max_episode_steps=5)).learn(16)
    loaded = Agent.load(agent.save(tmp_path / "agent"))
    assert loaded.configuration.task.task == "Acrobot-v1,max_episode_steps=5"
    assert loaded.play(2)[1].tolist() == [5, 5]
    agent.set_env("Acrobot-v1,max_episode_steps=3")
    assert Agent.load(agent.save(tmp_path / "agent")).play(1)[1].tolist() == [3]
    moved = Agent.load(tmp_path / "agent", "Acrobot-v1,max_episode_steps=4")
    assert Agent.load(moved.save(tmp_path / "moved")).play(1)[1].tolist() == [4]


def test_an_environment_that_does_not_fit_is_closed_again(tmp_path: Path) -> None:
    closed: list[int] = []

    class Changing(Slope):
        def close(self) -> None:
            closed.append(1)

    gym.register("Changing-v0", lambda **_: Changing())
    try:
        path = agent_of("Changing-v0").save(tmp_path / "agent")
        closed.clear()
        Changing.action_space = Discrete(7)
        with pytest.raises(InputError, match="has 7 actions, but 3 were learned with"):
            Agent.load(path).learn(8)
        assert closed == [1]
    finally:
        del gym.registry["Changing-v0"]


def stored(agent: Agent) -> list[tuple[Any, ...]]:
    """The transitions in the memory, as Counting's observations: (episode, step, action) before and after."""
    rows = agent._round.memory.rows[: agent._round.memory.written]
    return [(tuple(row[:3]), tuple(row[3:6])) for row in rows]


@pytest.mark.parametrize("again", [True, False])
def test_an_environment_used_between_is_begun_anew(again: bool) -> None:
    """Whoever was given an environment may not be the only one to step it."""
    given = Counting()
    agent = agent_of(given, learning_starts=8).learn(16)
    given.reset(seed=1)
    given.step(0)
    agent.learn(16, reset_num_timesteps=again)
    agent.play(1, environment=given)
    agent.learn(16, reset_num_timesteps=again)
    for (episode, step, _), (next_episode, next_step, _) in stored(agent):
        assert (next_episode, next_step) == (episode, step + 1)


def test_nobody_plays_in_the_environment_that_is_being_learned_in() -> None:
    given = Slope()
    with pytest.raises(InputError, match=r"in the very environment, .*Give another copy"):
        agent_of(given).learn(64, lambda agent: agent.play(1, environment=gym.wrappers.TimeLimit(given, 5)))


def test_progress_of_an_agent_is_logged(tmp_path: Path) -> None:
    from srgdqn.callbacks import EvalCallback
    from srgdqn.integrations import JsonLines

    lines = JsonLines(tmp_path / "rows.jsonl")
    agent_of().learn(160, EvalCallback(eval_freq=80, n_eval_episodes=2), loggers=[lines])
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()][1:-1]
    assert rows[-1]["step"] == 160
    assert any((row.get("train/gradient_variance") or 0) > 0 for row in rows)  # not always, as it takes time
    assert any(row.get("eval/mean_reward") is not None for row in rows)
    returns = [row["rollout/ep_rew_mean"] for row in rows if row.get("rollout/ep_rew_mean") is not None]
    assert returns
    quiet = agent_of().learn(160, EvalCallback(eval_freq=80, n_eval_episodes=2))
    assert state_of(quiet) == state_of(agent_of().learn(160, loggers=[JsonLines(tmp_path / "others.jsonl")]))


def test_a_block_is_as_long_as_its_environments_can_share() -> None:
    """The defaults have four steps to a block."""
    for given in ("CartPole-v1", gym.make_vec("CartPole-v1", 3)):
        options = dict(environments=3) if given == "CartPole-v1" else {}
        assert Agent("dqn-adam", given, **options).configuration.training.learning_frequency == 6


class Own(eqx.Module):
    weight: jax.Array

    def __call__(self, observation: jax.Array) -> jax.Array:
        return observation @ self.weight


def test_a_network_of_ones_own_is_given_again(tmp_path: Path) -> None:
    network = Own(jax.numpy.ones((2, 3)) * jax.numpy.array([1.0, -1.0, 0.5]))
    agent = Agent("srg-dqn", Slope, seed=0, network=network, **SMALL).learn(32)
    path = agent.save(tmp_path / "agent")
    with pytest.raises(InputError, match=r"its network is the module .*Own.* Give it: network="):
        Agent.load(path, Slope)
    loaded = Agent.load(path, Slope, network=network)
    assert actions_of(loaded) == actions_of(agent)
    q = SEEN @ np.asarray(agent._round.learner.parameters.weight)
    assert actions_of(agent) == q.argmax(1).tolist()


# Environments


def test_another_environment_must_have_the_same_spaces() -> None:
    agent, other = agent_of().learn(16), Slope()
    with pytest.raises(InputError, match="Give an environment with the same spaces"):
        agent.set_env(Counting)
    agent.set_env(other)
    assert agent.get_env() is other
    assert agent.learn(16).num_timesteps == 16


def test_it_learns_in_the_instance_given_with_its_wrappers() -> None:
    given = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.TimeLimit(Slope(), 7))
    agent = agent_of(given).learn(80)
    assert agent.get_env() is given
    assert list(given.length_queue) == [min(length, 7) for length in given.length_queue]
    assert 80 - 7 < sum(given.length_queue) <= 80


def test_it_learns_in_vectors() -> None:
    """Also in wrapped ones, and it is known from them how many there are."""
    given = gym.wrappers.vector.RecordEpisodeStatistics(SyncVectorEnv([Slope, Slope]))
    agent = agent_of(given).learn(80)
    assert agent.configuration.training.environments == 2
    assert agent.num_timesteps == 80
    assert set(agent._round._block.environment.tolist()) == {0, 1}
    assert len(given.length_queue) > 3


def test_episodes_played_are_those_of_gymnasium_by_hand() -> None:
    agent = agent_of("CartPole-v1").learn(48)
    returns, lengths = agent.play(3, seed=9)
    environment = gym.make("CartPole-v1")
    for episode in range(3):
        seen, _ = environment.reset(seed=evaluation_seed(9, episode))
        total, steps, ended = 0.0, 0, False
        while not ended:
            seen, reward, terminated, truncated, _ = environment.step(agent.predict(seen, deterministic=True)[0])
            total, steps, ended = total + float(reward), steps + 1, terminated or truncated
        assert (total, steps) == (returns[episode], lengths[episode])


# In other hands


@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
def test_stable_baselines_evaluates_it_unchanged() -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    vectors = pytest.importorskip("stable_baselines3.common.vec_env")
    agent = agent_of("CartPole-v1").learn(48)

    def by_hand(environment: Any, episodes: int) -> list[float]:
        totals = []
        for _ in range(episodes):
            (seen, _), total, ended = environment.reset(), 0.0, False
            while not ended:
                seen, reward, terminated, truncated, _ = environment.step(agent.predict(seen, deterministic=True)[0])
                total, ended = total + float(reward), terminated or truncated
            totals.append(total)
        return totals

    def seeded() -> gym.Env:
        environment = gym.make("CartPole-v1")
        environment.reset(seed=3)
        return environment

    expected = by_hand(seeded(), 4)
    for wrapped in (seeded(), monitor.Monitor(seeded()), vectors.DummyVecEnv([seeded])):
        returns, lengths = evaluation.evaluate_policy(agent, wrapped, 4, return_episode_rewards=True)
        assert returns == pytest.approx(expected)
        assert lengths == expected
    mean, _ = evaluation.evaluate_policy(agent, vectors.DummyVecEnv([seeded, seeded]), 4)
    assert mean == pytest.approx(np.mean(expected[:2]))


def test_repr() -> None:
    assert repr(agent_of().learn(16)) == "<Agent srg-dqn in host_environments.Slope: 16 steps>"


def test_a_budget_that_ends_before_learning_begins() -> None:
    with pytest.warns(RuntimeWarning, match=r"nothing has been learnt yet: 8 steps .*after 16 \(learning_starts\)"):
        agent = agent_of().learn(8)
    assert agent.learn(8, reset_num_timesteps=False).num_timesteps == 16


def test_an_agent_is_filmed(tmp_path: Path) -> None:
    film = agent_of("CartPole-v1", evaluation_limit=4).learn(16).video(tmp_path / "pole.gif", episodes=2)
    assert [played.length for played in film.episodes] == [4, 4]
    assert film.images == 2 * 5
    assert film.path.stat().st_size > 0


def test_gymnasiums_own_vector_takes_one_seed() -> None:
    """Its CartPole is a single program, unlike vectors of copies."""
    firsts = []
    for _ in range(2):
        together = gym.make_vec("CartPole-v1", 4)
        agent = agent_of(together, learning_frequency=8).learn(16)
        firsts.append(agent._round.memory.rows.tobytes())
    assert firsts[0] == firsts[1]
