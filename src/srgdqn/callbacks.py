"""Callbacks of a learning agent: evaluation, early stopping, checkpoints; with the names of Stable-Baselines3."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from srgdqn.errors import InputError
from srgdqn.runs.destination import make_folder
from srgdqn.training.best_policies import BestPolicies

if TYPE_CHECKING:
    from srgdqn.agent import Agent


class Callback:
    """Is called while an agent learns. Derive your own class, and override what you need."""

    agent: Agent

    def on_training_start(self, agent: Agent) -> None:
        """Called when `learn` begins."""
        self.agent = agent

    def on_step(self) -> bool:
        """Called after every block of `learning_frequency` environment steps; False ends the training."""
        return True

    @property
    def model(self) -> Agent:
        """The agent, as Stable-Baselines3 calls it."""
        return self.agent

    @property
    def num_timesteps(self) -> int:
        """The agent's steps so far."""
        return self.agent.num_timesteps

    def on_training_end(self) -> None:
        """Called when `learn` ends, also by an exception."""


CallbackLike: TypeAlias = Callback | Callable[["Agent"], Any] | Sequence[Any] | None
"""A callback, a function of the agent (which ends the training by returning False), several of these, or none."""


class CallbackList(Callback):
    """Several callbacks as one; training ends if any of them says so."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = list(callbacks)

    def on_training_start(self, agent: Agent) -> None:
        """Calls all of them."""
        super().on_training_start(agent)
        for each in self.callbacks:
            each.on_training_start(agent)

    def on_step(self) -> bool:
        """Calls all of them."""
        return all([each.on_step() is not False for each in self.callbacks])  # noqa: C419, as all are to be called

    def on_training_end(self) -> None:
        """Calls all of them."""
        for each in self.callbacks:
            each.on_training_end()


class _FunctionCallback(Callback):
    def __init__(self, function: Callable[[Agent], Any]) -> None:
        self._function = function

    def on_step(self) -> bool:
        return self._function(self.agent) is not False


def as_callback(given: CallbackLike) -> Callback:
    """One callback from whatever was given."""
    if given is None:
        return Callback()
    if isinstance(given, Callback):
        if hasattr(given, "_on_step"):
            raise InputError(
                f"the callback {type(given).__name__} has a method _on_step, which is never called. Call it on_step."
            )
        return given
    if isinstance(given, Sequence) and not isinstance(given, str):
        return CallbackList([as_callback(each) for each in given])
    if callable(given):
        return _FunctionCallback(given)
    raise InputError(
        f"callback is {given!r}. Give a srgdqn.callbacks.Callback, a function of the agent, or a list of these."
    )


class _Regular(Callback):
    """Is due every so many environment steps."""

    def __init__(self, interval: int, what: str) -> None:
        if interval < 1:
            raise InputError(f"{what} is {interval}, but must be 1 environment step or more.")
        self._interval = interval

    def on_training_start(self, agent: Agent) -> None:
        super().on_training_start(agent)
        self._done = agent.num_timesteps // self._interval

    def _due(self) -> bool:
        reached = self.agent.num_timesteps // self._interval
        due, self._done = reached > self._done, reached
        return due


class EvalCallback(_Regular):
    """Evaluates every `eval_freq` environment steps, saves the best agent, and may end the training.

    Args:
      eval_env: where to play (an id, an environment or a function that makes one); a copy of the agent's otherwise.
      callback_on_new_best: called when an evaluation was better than all before.
      callback_after_eval: called after every evaluation.
      n_eval_episodes: episodes of one evaluation.
      eval_freq: environment steps between two.
      best_model_save_path: a folder in which the best agent is saved as `best_model.safetensors`.
      deterministic: play greedily, or else with the present exploration.

    Attributes:
      evaluations: (environment steps, returns of the episodes, their lengths) of every evaluation so far.
      best: the best policy so far, as a run with `keep_best` keeps it: its steps in `made_at`, its mean return in
        `means` and its arrays in `policies`, each for the one round that an agent is.

    """

    def __init__(
        self,
        eval_env: Any = None,
        callback_on_new_best: CallbackLike = None,
        callback_after_eval: CallbackLike = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10_000,
        best_model_save_path: str | os.PathLike[str] | None = None,
        deterministic: bool = True,
    ) -> None:
        super().__init__(eval_freq, "eval_freq")
        self._environment, self._episodes, self._deterministic = eval_env, n_eval_episodes, deterministic
        self._on_new_best, self._after = as_callback(callback_on_new_best), as_callback(callback_after_eval)
        self._folder = None if best_model_save_path is None else make_folder(best_model_save_path)
        self.best = BestPolicies(1, self._present)
        self.last_mean_reward = -np.inf
        self.evaluations: list[tuple[int, np.ndarray, np.ndarray]] = []

    @property
    def best_mean_reward(self) -> float:
        """The mean return of the best evaluation so far."""
        return float(self.best.means[0])

    def _present(self) -> dict[str, np.ndarray]:
        return {path: array[None] for path, array in self.agent.parameters().items()}

    def on_training_start(self, agent: Agent) -> None:
        """Prepares the callbacks it calls."""
        super().on_training_start(agent)
        for each in (self._on_new_best, self._after):
            _set_parent(each, self)
            each.on_training_start(agent)

    def on_training_end(self) -> None:
        """Ends the callbacks it calls."""
        for each in (self._on_new_best, self._after):
            each.on_training_end()

    def on_step(self) -> bool:
        """Evaluates where one is due."""
        if not self._due():
            return True
        returns, lengths = self.agent.play(
            self._episodes, environment=self._environment, deterministic=self._deterministic
        )
        self.evaluations.append((self.agent.num_timesteps, returns, lengths))
        self.agent.log_evaluation(returns, lengths)
        self.last_mean_reward = float(np.mean(returns))
        proceed = True
        if self.best.offer(self.agent.num_timesteps, returns[None])[0]:
            if self._folder is not None:
                self.agent.save(self._folder / "best_model.safetensors", overwrite=True)
            proceed = self._on_new_best.on_step() is not False
        return (self._after.on_step() is not False) and proceed


def _set_parent(callback: Callback, parent: EvalCallback) -> None:
    """Gives a callback, and each in a list, the `EvalCallback` that calls it."""
    for each in callback.callbacks if isinstance(callback, CallbackList) else ():
        _set_parent(each, parent)
    callback.parent = parent  # type: ignore[attr-defined]


class _Stop(Callback):
    """Ends the training by the results of an `EvalCallback`."""

    parent: EvalCallback

    def on_training_start(self, agent: Agent) -> None:
        super().on_training_start(agent)
        if not hasattr(self, "parent"):
            raise InputError(
                f"{type(self).__name__} was given to the agent, but it needs evaluations. Give it to EvalCallback as "
                "callback_after_eval."
            )


class StopTrainingOnRewardThreshold(_Stop):
    """Ends the training once an evaluation's mean return is high enough; give it to `EvalCallback`."""

    def __init__(self, reward_threshold: float) -> None:
        self._threshold = reward_threshold

    def on_step(self) -> bool:
        """Whether to continue."""
        return self.parent.best_mean_reward < self._threshold


class StopTrainingOnNoModelImprovement(_Stop):
    """Ends the training after so many evaluations in a row without a new best; give it to `EvalCallback` as
    `callback_after_eval`.
    """

    def __init__(self, max_no_improvement_evals: int, min_evals: int = 0) -> None:
        self._most, self._least = max_no_improvement_evals, min_evals
        self._best, self._without = -np.inf, 0

    def on_step(self) -> bool:
        """Whether to continue."""
        improved = self.parent.best_mean_reward > self._best
        self._best = self.parent.best_mean_reward
        if improved or len(self.parent.evaluations) <= self._least:
            self._without = 0
            return True
        self._without += 1
        return self._without <= self._most


class CheckpointCallback(_Regular):
    """Saves the agent every `save_freq` environment steps, as `agent_10000_steps.safetensors` and so on."""

    def __init__(
        self,
        save_freq: int,
        save_path: str | os.PathLike[str],
        name_prefix: str = "agent",
        save_replay_buffer: bool = False,
    ) -> None:
        super().__init__(save_freq, "save_freq")
        self._folder: Path = make_folder(save_path)
        self._prefix, self._with_replay = name_prefix, save_replay_buffer

    def on_step(self) -> bool:
        """Saves where one is due."""
        if self._due():
            name = f"{self._prefix}_{self.agent.num_timesteps}_steps.safetensors"
            self.agent.save(self._folder / name, include_replay=self._with_replay, overwrite=True)
        return True
