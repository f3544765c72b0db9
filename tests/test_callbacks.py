"""What is called while an agent learns, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_environments import SMALL, Slope
from srgdqn.agent import Agent
from srgdqn.callbacks import (
    Callback,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
    as_callback,
)
from srgdqn.errors import InputError


@pytest.fixture
def agent() -> Agent:
    return Agent("srg-dqn", Slope, seed=0, **SMALL)


class Noting(Callback):
    """Notes its calls."""

    def __init__(self, last: int = 10**9, raising: BaseException | None = None) -> None:
        self.calls: list[Any] = []
        self._last, self._raising = last, raising

    def on_training_start(self, agent: Agent) -> None:
        super().on_training_start(agent)
        self.calls.append("start")

    def on_step(self) -> bool:
        self.calls.append(self.agent.num_timesteps)
        if self._raising is not None and self.agent.num_timesteps >= self._last:
            raise self._raising
        return self.agent.num_timesteps < self._last

    def on_training_end(self) -> None:
        self.calls.append("end")


def test_a_callback_is_called_after_every_block(agent: Agent) -> None:
    noting = Noting()
    agent.learn(30, noting)
    assert noting.calls == ["start", 8, 16, 24, 32, "end"]


def test_no_answer_continues_and_both_names_of_the_agent_are_known(agent: Agent) -> None:
    seen: list[int] = []

    class Silent(Callback):
        def on_step(self) -> None:  # type: ignore[override]
            assert self.model is self.agent
            seen.append(self.num_timesteps)

    agent.learn(24, [Silent()])
    assert seen == [8, 16, 24]


def test_functions_and_lists_may_be_called_after_evaluations(agent: Agent) -> None:
    seen: list[int] = []
    stop = StopTrainingOnRewardThreshold(-np.inf)
    called = [lambda each: seen.append(each.num_timesteps), [stop]]
    agent.learn(64, EvalCallback(eval_freq=16, n_eval_episodes=1, callback_after_eval=called))
    assert seen == [16]
    with_function = EvalCallback(eval_freq=16, n_eval_episodes=1, callback_on_new_best=lambda each: False)
    assert agent.learn(64, with_function).num_timesteps == 16


def test_a_method_that_nobody_calls_is_refused(agent: Agent) -> None:
    class Elsewhere(Callback):
        def _on_step(self) -> bool:
            return False

    with pytest.raises(InputError, match=r"Elsewhere has a method _on_step.*Call it on_step"):
        agent.learn(16, Elsewhere())


def test_any_of_several_may_end_the_training_and_all_are_asked(agent: Agent) -> None:
    first, second = Noting(last=16), Noting()
    seen: list[int] = []
    agent.learn(64, [first, [second, lambda each: seen.append(each.num_timesteps)]])
    assert agent.num_timesteps == 16
    assert first.calls == second.calls == ["start", 8, 16, "end"]
    assert seen == [8, 16]


def test_a_function_ends_the_training_by_false_alone(agent: Agent) -> None:
    for answer, steps in ((None, 32), (0, 32), (True, 32), (False, 8)):
        assert agent.learn(32, lambda _, answer=answer: answer).num_timesteps == steps


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_an_exception_in_a_callback_leaves_the_agent_usable(agent: Agent, error: BaseException) -> None:
    noting = Noting(16, error)
    with pytest.raises(type(error)) as caught:
        agent.learn(64, noting)
    assert caught.value is error
    assert noting.calls == ["start", 8, 16, "end"]
    agent.learn(48, reset_num_timesteps=False)
    other = Agent("srg-dqn", Slope, seed=0, **SMALL).learn(64)
    for mine, whole in zip(agent._round.learner.parameters.layers, other._round.learner.parameters.layers, strict=True):
        np.testing.assert_array_equal(mine.weight, whole.weight)


@pytest.mark.parametrize("given", [3, "word", {"a": 1}, [None, 3]])
def test_what_is_no_callback_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"Give a srgdqn.callbacks.Callback"):
        as_callback(given)


def test_checkpoints_are_whole_agents(agent: Agent, tmp_path: Path) -> None:
    agent.learn(64, CheckpointCallback(20, tmp_path / "saved", "ball", save_replay_buffer=True))
    names = sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert names == [
        f"ball_{steps}_steps.safetensors" for steps in (24, 40, 64)
    ]  # the first blocks not before 20, 40, 60
    loaded = Agent.load(tmp_path / "saved" / names[1], Slope)
    assert loaded.num_timesteps == 40
    assert loaded._round.memory.written == 40


@pytest.mark.parametrize(("make", "what"), [(EvalCallback, "eval_freq"), (CheckpointCallback, "save_freq")])
def test_intervals_are_of_one_step_or_more(make: Any, what: str, tmp_path: Path) -> None:
    more = {"save_path": tmp_path} if make is CheckpointCallback else {}
    with pytest.raises(InputError, match=f"{what} is 0, but must be 1"):
        make(**{what: 0}, **more)


class Played(Agent):
    """Whose evaluations come out as they are told to."""

    script: tuple[float, ...] = ()

    def play(self, episodes: int = 10, **named: Any) -> tuple[np.ndarray, np.ndarray]:
        value, self.script = self.script[0], self.script[1:]
        return np.full(episodes, value), np.full(episodes, 5)


def scripted(*values: float) -> Played:
    agent = Played("srg-dqn", Slope, seed=0, **SMALL)
    agent.script = values
    return agent


def test_evaluations_are_kept_and_the_best_agent_with_them(tmp_path: Path) -> None:
    best, after = Noting(), Noting()
    evaluation = EvalCallback(
        eval_freq=16,
        n_eval_episodes=3,
        best_model_save_path=tmp_path,
        callback_on_new_best=best,
        callback_after_eval=after,
    )
    scripted(1.0, 3.0, 2.0, 3.0).learn(64, evaluation)
    assert [(steps, returns.tolist()) for steps, returns, _ in evaluation.evaluations] == [
        (16, [1.0] * 3),
        (32, [3.0] * 3),
        (48, [2.0] * 3),
        (64, [3.0] * 3),
    ]
    assert (evaluation.best_mean_reward, evaluation.last_mean_reward) == (3.0, 3.0)
    assert best.calls == ["start", 16, 32, "end"]
    assert after.calls == ["start", 16, 32, 48, 64, "end"]
    loaded = Agent.load(tmp_path / "best_model", Slope)
    assert loaded.num_timesteps == evaluation.best.made_at[0] == 32
    for path, array in loaded.parameters().items():
        np.testing.assert_array_equal(evaluation.best.policies[path][0], array)


def test_real_evaluations_are_those_that_the_agent_plays(agent: Agent) -> None:
    evaluation, noted = EvalCallback(eval_freq=32, n_eval_episodes=2), []
    agent.learn(32, [evaluation, lambda each: noted.append(each.play(2)) if each.num_timesteps == 32 else None])
    [(_, returns, lengths)], [expected] = evaluation.evaluations, noted
    assert (returns.tolist(), lengths.tolist()) == (expected[0].tolist(), expected[1].tolist())
    elsewhere = EvalCallback(Slope(), eval_freq=32, n_eval_episodes=2, deterministic=False)
    agent.learn(32, elsewhere)
    assert len(elsewhere.evaluations) == 1


def test_a_threshold_ends_the_training() -> None:
    agent = scripted(1.0, 2.5, 9.0)
    agent.learn(64, EvalCallback(eval_freq=16, callback_on_new_best=StopTrainingOnRewardThreshold(2.5)))
    assert agent.num_timesteps == 32


@pytest.mark.parametrize(
    ("values", "most", "least", "stops"),
    [
        ((3, 2, 1, 0, 0, 0), 1, 0, 3),  # the second without a best is one too many
        ((3, 2, 4, 3, 3, 3), 1, 0, 5),
        ((3, 2, 1, 0, 0, 0), 0, 0, 2),
        ((3, 2, 1, 0, 0, 0), 1, 3, 5),  # those of the first three do not count
        ((1, 2, 3, 4, 5, 6), 0, 0, 6),
    ],
)
def test_no_improvement_ends_the_training(values: tuple[int, ...], most: int, least: int, stops: int) -> None:
    agent = scripted(*map(float, values))
    agent.learn(48, EvalCallback(eval_freq=8, callback_after_eval=StopTrainingOnNoModelImprovement(most, least)))
    assert agent.num_timesteps == 8 * stops


def test_a_callback_that_cannot_start_leaves_the_agent_as_it_was(agent: Agent) -> None:
    given = Slope()
    agent.set_env(given)
    with pytest.raises(InputError, match="needs evaluations"):
        agent.learn(16, StopTrainingOnRewardThreshold(1))
    assert len(agent.play(1, environment=given)[0]) == 1
    assert agent.learn(16).num_timesteps == 16
