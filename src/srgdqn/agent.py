"""`Agent`: made for a Gymnasium environment, it learns, predicts, is saved and loaded, as in Stable-Baselines3."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import numpy as np
import polars as pl
from gymnasium.vector import VectorEnv

from srgdqn.adapters.action_masks import given_masks, random_allowed
from srgdqn.adapters.defaults import defaults_for
from srgdqn.adapters.environments import Environment, close, source_of
from srgdqn.adapters.policy import GreedyPolicy
from srgdqn.adapters.spaces import as_rows
from srgdqn.callbacks import Callback, CallbackLike, as_callback
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.errors import InputError, shown, unknown
from srgdqn.integrations import Logger, logging_to
from srgdqn.integrations.export import write_policy
from srgdqn.integrations.numpy_policy import PlainPolicy
from srgdqn.integrations.policy import about_parts, make_policy
from srgdqn.integrations.progress import reporting
from srgdqn.integrations.video import Film, film, filming_environment
from srgdqn.interrupts import deferred_interrupts
from srgdqn.learner.networks import NetworkFactory, named
from srgdqn.results.result import Which
from srgdqn.runs.provenance import LOCAL, inputs_of, provenance
from srgdqn.runs.snapshots import Tensors
from srgdqn.runs.tables import POLICIES, frame
from srgdqn.training.best_policies import BestPolicies
from srgdqn.training.host.agent_round import load_round, new_round, renamed, save_round
from srgdqn.training.host.evaluation import evaluate_policy
from srgdqn.training.host.gradient_noise import GradientNoise
from srgdqn.training.host.round import HostRound
from srgdqn.training.host.rounds import evaluation_environment
from srgdqn.training.host.task import HostTask, check_same_spaces, host_task, make_player, read_spaces
from srgdqn.training.loop import played_by, segments
from srgdqn.training.recorder import Recorder
from srgdqn.training.reports import Listener, ProgressReporter
from srgdqn.training.tables import policy_rows
from srgdqn.training.user_code import user_code


class Agent:
    """A variance-reduced DQN agent for one Gymnasium environment.

    Args:
      algorithm: a name that `srgdqn list` shows.
      env: a Gymnasium id, an environment, a vector environment, or a function that makes an environment.
      seed: what everything random comes from; drawn from the system if it is None.
      readings: what to do where the paper is silent or contradicts itself: `corrected`, `printed` or `mnih`.
      network: `mlp`, `cnn`, an equinox module of your own, or a function from a random key to one.
      **options: any option that `srgdqn train --help` shows.

    >>> agent = Agent("dqn-adam", "CartPole-v1", seed=0, learning_starts=64)
    >>> agent.learn(total_timesteps=128).num_timesteps
    128

    """

    def __init__(
        self,
        algorithm: str = "srg-dqn",
        env: Environment = "CartPole-v1",
        *,
        seed: int | None = None,
        readings: str = "corrected",
        network: str | eqx.Module | NetworkFactory | None = None,
        **options: Any,
    ) -> None:
        source = source_of(env)
        if isinstance(source.given, VectorEnv):
            options.setdefault("environments", source.given.num_envs)
        its_name, module = named(network)
        options |= its_name
        configuration = configure(
            source.name,
            algorithm,
            readings=readings,
            defaults=defaults_for(source),
            typed=options,
            seed=secrets.randbits(32) if seed is None else seed,
            **options,
        )
        self._begin(new_round(configuration, source, module), module)

    def _begin(self, round_: HostRound, network: eqx.Module | NetworkFactory | None) -> None:
        self._round, self._network = round_, network
        self._environments: list[gym.Env | VectorEnv] = []
        self._progress: ProgressReporter | None = None  # of the `learn` that is running
        self._random = np.random.default_rng(round_.configuration.training.seed)

    def __repr__(self) -> str:
        return f"<Agent {self.configuration.algorithm} in {self._task.name}: {self.num_timesteps:,} steps>"

    @property
    def _task(self) -> HostTask:
        return self._round.task

    @property
    def configuration(self) -> Configuration:
        """Everything that determines what the agent does."""
        return self._round.configuration

    @property
    def num_timesteps(self) -> int:
        """Environment steps made since `learn` last began anew."""
        return self._round.steps - self._round.steps_before

    @property
    def exploration_rate(self) -> float:
        """The present probability of a random action."""
        return self._round.exploration_rate

    @property
    def diverged(self) -> bool:
        """Whether the parameters went non-finite; the agent has the last finite ones, and learns no more."""
        return self._round.diverged_at is not None

    @property
    def policies(self) -> pl.DataFrame:
        """What its last and its best policy come to on fresh starts, as of a run (`srgdqn.runs.tables`), where the best
        is kept (`keep_best=True`); no rows elsewhere.
        """
        played = played_by(self._round, slice(0, 1)) or []
        rows = policy_rows(self.configuration, self._task.endings, played, [(0, self._round.steps)])
        return frame("policies", rows or dict.fromkeys(POLICIES, ()))

    def get_env(self) -> gym.Env | VectorEnv | None:
        """The environment that was given, or that is learned in."""
        if self._task.source.given is not None:
            return self._task.source.given
        return self._environments[0] if self._environments else None

    def set_env(self, env: Environment) -> None:
        """Learns in another environment with the same spaces from now on; open episodes are left."""
        task = self._task_in(env)
        self.close()
        self._round.task = task
        self._round.configuration = renamed(self.configuration, task.name)
        if self._round.best is not None:  # whose returns were another environment's
            self._round.best = BestPolicies(1, self._round.policies)

    def _task_in(self, environment: Environment) -> HostTask:
        task = host_task(self.configuration, source_of(environment))
        check_same_spaces(task.name, (task.observations, task.actions), (self._task.observations, self._task.actions))
        return task

    def learn(
        self,
        total_timesteps: int,
        callback: CallbackLike = None,
        *,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        loggers: Sequence[Logger] = (),
    ) -> Agent:
        """Learns for so many environment steps more (rounded up to whole blocks of `learning_frequency`).

        Args:
          total_timesteps: the budget, over which exploration and step sizes follow their schedules.
          callback: a `srgdqn.callbacks.Callback`, a function of the agent, or a list of these.
          reset_num_timesteps: begin the schedules anew (parameters and replay stay); otherwise continue where the last
            call stopped, with the steps so far as part of the budget.
          progress_bar: show one.
          loggers: where progress is logged, such as `srgdqn.integrations.TensorBoard("logs")`.

        Returns:
          The agent itself. After an exception, from the environment or the keyboard, it is at the end of the last whole
          block, and can be saved or learn on.

        """
        round_, callbacks, steps = self._round, as_callback(callback), self._round.steps
        steps_before = steps if reset_num_timesteps else round_.steps_before
        budget = steps - steps_before + _whole(total_timesteps)
        training = dataclasses.replace(self.configuration.training, steps=budget, outer_iterations=None, episodes=None)
        configuration = dataclasses.replace(self.configuration, training=training)
        self._enter(configuration)
        round_.spend(configuration, steps_before=steps_before, to_the_end=True)
        self._warn_if_diverged()
        callbacks.on_training_start(self)
        try:
            with (
                deferred_interrupts() as interrupted,
                reporting(configuration, progress_bar) as bar,
                logging_to(configuration, loggers, bar) as listener,
                self._evaluating(),
            ):
                self._advance(listener, callbacks, interrupted.is_set, logs=bool(loggers))
        finally:
            self._progress = None
            callbacks.on_training_end()
        if round_.steps > steps:
            self._warn_if_diverged()
        if round_.iterations == 0 and not (round_.active or self.diverged):
            warnings.warn(
                f"nothing has been learnt yet: {round_.steps:,} steps were made, and learning begins after "
                f"{training.learning_starts:,} (learning_starts).",
                RuntimeWarning,
                stacklevel=2,
            )
        return self

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        """With a copy of the environment for evaluations, where they choose the best policy."""
        round_, environment = self._round, None
        if round_.best is not None:
            round_.best.forget_played()
            environment = round_.evaluation_environment = evaluation_environment(self._task)
        try:
            yield
        finally:
            round_.evaluation_environment = None
            if environment is not None:
                close(environment, self._task.name)

    def _enter(self, configuration: Configuration) -> None:
        """Begins episodes in the environment, unless some are open that nobody else can have touched.

        An environment that is made only now, because a file has its id alone, must have the spaces learned with.
        """
        round_ = self._round
        if round_.player is None:
            player, self._environments = make_player(configuration, self._task, 0, round_.begun)
            present = self._environments[0] if self._environments else self._task.source.given
            assert present is not None
            try:
                found = read_spaces(configuration, present, self._task.name)
                check_same_spaces(self._task.name, found, (self._task.observations, self._task.actions))
            except InputError:
                self.close()
                raise
            round_.enter(player)
        elif self._task.source.given is not None:
            round_.leave_episodes()  # an evaluation, say, may have used it
        assert round_.player is not None
        round_.player.check_spaces(round_.steps)

    def _advance(self, listener: Listener, callbacks: Callback, interrupted: Callable[[], bool], *, logs: bool) -> None:
        """Trains until the budget is spent or somebody stops it, and reports progress."""
        round_, configuration = self._round, self.configuration
        recorder = Recorder.for_reports(
            configuration,
            self._task.endings,
            blocks=round_.blocks,
            first_learning=round_.first_learning,
            iterations=round_.iterations,
        )
        noise = GradientNoise(configuration, round_.network).measure if logs else None
        progress = self._progress = ProgressReporter(
            recorder,
            configuration,
            [round_.number],
            listener,
            steps_before=round_.steps_before,
            measure_noise=None if noise is None else lambda: noise(round_),
        )
        called_at, stopped = round_.blocks, False

        def halt() -> bool:
            """Calls the callbacks, once after every block."""
            nonlocal called_at, stopped
            if round_.blocks > called_at:
                called_at, stopped = round_.blocks, callbacks.on_step() is False
            return stopped or interrupted()

        try:
            for segment in segments(round_, halt=halt):
                recorder.record(segment.log, segment.environments)
                if segment.evaluation is not None:
                    recorder.record_evaluation(segment.blocks_done, segment.evaluation, last=segment.last)
                if segment.directions is not None:
                    recorder.record_directions(segment.blocks_done, segment.directions, last=segment.last)
                progress.report(segment.divergence, whole=segment.last)
                if not logs:
                    recorder.news()  # which nobody reads, and which would grow
            halt()
            if interrupted():
                raise KeyboardInterrupt
        finally:
            progress.report(round_.divergence, whole=not round_.active, ended=True)

    def _warn_if_diverged(self) -> None:
        if self._round.diverged_at is not None:
            warnings.warn(
                f"the agent's parameters went non-finite at step {self._round.diverged_at:,}: it has the last finite "
                "ones, and learns no more. Make a new one with a smaller eta or alpha, or with clip_norm.",
                RuntimeWarning,
                stacklevel=3,
            )

    def log_evaluation(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Logs episodes that were played, while `learn` runs."""
        if self._progress is not None:
            self._progress.add_evaluation(self._round.steps, returns, lengths)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
        *,
        which: Which = "last",
    ) -> tuple[Any, Any]:
        """The action for an observation, or the actions for rows of them, and `state` as it came.

        Not `deterministic`, it is a random action with the present probability of exploring. `action_masks` is what
        `info["action_mask"]` has, or rows of it: only such actions are chosen. `which`: by the present policy, or by
        the best one so far, where that is kept (`keep_best`).
        """
        del episode_start  # nothing is remembered from step to step
        rows, single = as_rows(self._task.observations, observation)
        count = self._task.actions.count
        masks = () if action_masks is None else (given_masks(action_masks, len(rows), single, count),)
        chosen = self._policy(which).rows(rows, *masks)
        if not deterministic:
            explores = self._random.random(len(chosen)) < self.exploration_rate
            drawn = self._random.integers(count, size=len(chosen))
            for allowed in masks:
                shares = self._random.random(len(chosen))
                drawn = np.array([random_allowed(*each) for each in zip(drawn, shares, allowed, strict=True)])
            chosen = np.where(explores, drawn, chosen)
        actions = np.array([self._task.actions.table[index] for index in chosen])
        return (actions[0] if single else actions), state

    def play(
        self,
        episodes: int = 10,
        *,
        environment: Environment | None = None,
        deterministic: bool = True,
        seed: int | None = None,
        which: Which = "last",
    ) -> tuple[np.ndarray, np.ndarray]:
        """The returns and lengths of episodes played, in a copy of the agent's environment or another one; `which` is
        as of `predict`, where it is `deterministic`.
        """
        policy = self._round.acting_policy if which == "last" and not deterministic else self._policy(which)
        act = policy.one if deterministic else functools.partial(self._explore, policy)
        task = self._task if environment is None else self._task_in(environment)
        source = task.source
        given = source.given if environment is not None and isinstance(source.given, gym.Env) else None
        own = given is not None and _is_within(given, self._task.source.given)
        if own and self._progress is not None:
            raise InputError(
                f"episodes are to be played in the very environment, {task.name}, that the agent is learning in. Give "
                "another copy of it."
            )
        played_in = source.fresh() if given is None else given
        try:
            played = evaluate_policy(
                played_in,
                task,
                act,
                seed=self.configuration.training.seed if seed is None else seed,
                episodes=episodes,
            )
        finally:
            if given is None:
                close(played_in, task.name)
            elif own and self._round.player is not None:
                self._round.leave_episodes()
        return np.asarray(played.total_reward), np.asarray(played.length)

    def save(self, path: str | os.PathLike[str], *, include_replay: bool = False, overwrite: bool = True) -> Path:
        """Writes the agent to one file, atomically; with the replay, learning continues as if never stopped."""
        parts = user_code(self.configuration, self._network, self._task.source)
        made_by = {**provenance("host"), "engine": LOCAL}
        about = {"provenance": {**made_by, "inputs": inputs_of(self.configuration, parts)}}
        return save_round(self._round, path, about, include_replay=include_replay, overwrite=overwrite)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: Environment | None = None,
        *,
        network: eqx.Module | NetworkFactory | None = None,
    ) -> Agent:
        """The agent in a file. `env` is where it learns from now on, by default the environment of that id; `network`
        is the module that it was made with, where that was your own. Loading runs no code from the file.
        """
        agent = cls.__new__(cls)
        agent._begin(load_round(path, env, network), network)
        return agent

    def export(self, path: str | os.PathLike[str], *, which: Which = "last", overwrite: bool = False) -> Path:
        """Writes the greedy policy for use without this package: `.onnx`, or `.py` for a file that needs only NumPy."""
        return write_policy(self.to_numpy(which), path, overwrite=overwrite)

    def video(
        self,
        path: str | os.PathLike[str],
        *,
        episodes: int = 1,
        seed: int = 0,
        environment: gym.Env | None = None,
        which: Which = "last",
        overwrite: bool = False,
        progress: bool | None = None,
    ) -> Film:
        """Films greedy episodes (`.mp4` or `.gif`) in a copy of the agent's environment, or in one of yours that was
        made with `render_mode="rgb_array"`. They end at the limit of evaluations.
        """

        def act(observation: Any, action_masks: Any = None) -> Any:
            return self.predict(observation, deterministic=True, action_masks=action_masks, which=which)[0]

        limit = self._task.evaluation_limit
        with filming_environment(lambda: self._task.source.fresh("rgb_array"), environment, limit) as shown:
            how: dict[str, Any] = {"overwrite": overwrite, "progress": progress, "masked": self._task.masked}
            return film(shown, act, path, episodes, seed, **how)

    def to_numpy(self, which: Which = "last") -> PlainPolicy:
        """The greedy policy as a function that needs only NumPy, from what a network reads to actions' indices."""
        reading, about = self._task.observations, {"steps": str(self._round.steps)}
        about |= about_parts(reading.metadata()) | ({} if which == "last" else {"which": which})
        return make_policy(self.parameters(which), self.configuration, reading.kind, reading.shape, about)

    def parameters(self, which: Which = "last") -> dict[str, np.ndarray]:
        """The arrays of the greedy policy by path, such as `network.layers.0.weight`."""
        return {path: np.array(array[0]) for path, array in self._arrays(which).items()}

    def _policy(self, which: Which) -> GreedyPolicy:
        return self._round.evaluated_policy if which == "last" else self._round.policy_of(self._arrays(which))

    def _arrays(self, which: Which) -> Tensors:
        """The arrays of its last or its best policy, with an axis of one round first."""
        if which not in ("last", "best"):
            raise unknown("policy", which, ("last", "best"))
        if which == "last":
            return self._round.policies()
        if self._round.best is None:
            raise InputError(
                "the best policy of this agent is not kept. Make it with keep_best=True, or give which='last'."
            )
        return self._round.best.filled(self._round.policies())

    def close(self) -> None:
        """Closes the environments that the agent made for itself; learning again makes new ones."""
        self._round.leave()
        for environment in self._environments:
            close(environment, self._task.name)
        self._environments = []

    def _explore(self, policy: GreedyPolicy, row: np.ndarray, *masks: np.ndarray) -> int:
        if self._random.random() < self.exploration_rate:
            drawn = int(self._random.integers(self._task.actions.count))
            for mask in masks:
                drawn = random_allowed(drawn, self._random.random(), mask)
            return drawn
        return policy.one(row, *masks)


def _whole(total_timesteps: Any) -> int:
    """A number of steps, which may be written as 1e5 too."""
    if isinstance(total_timesteps, float) and total_timesteps.is_integer():
        total_timesteps = int(total_timesteps)
    if not isinstance(total_timesteps, Integral) or isinstance(total_timesteps, bool) or total_timesteps < 1:
        raise InputError(f"total_timesteps is {shown(total_timesteps)}, but must be a whole number of 1 or more.")
    return int(total_timesteps)


def _is_within(one: gym.Env, other: Any) -> bool:
    return isinstance(other, gym.Env) and one.unwrapped is other.unwrapped
