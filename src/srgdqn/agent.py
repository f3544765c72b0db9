"""An agent as people know it: made for an environment, it learns, predicts, is saved and loaded."""

from __future__ import annotations

import dataclasses
import os
import secrets
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv

from srgdqn.callbacks import CallbackLike, as_callback
from srgdqn.configure import configure
from srgdqn.errors import InputError
from srgdqn.estimators import ESTIMATORS
from srgdqn.host.defaults import defaults_for
from srgdqn.host.environments import Environment, Source, close, source_named, source_of
from srgdqn.host.gradient_noise import GradientNoise
from srgdqn.host.judging import judge
from srgdqn.host.program import PAGE_BLOCKS, host_program
from srgdqn.host.reporting import RoundReports
from srgdqn.host.round import HostRound
from srgdqn.host.spaces import Actions, Observations, as_rows
from srgdqn.host.task import HostTask, about_task, check_same_spaces, host_task, make_player, read_spaces
from srgdqn.host.telling import Telling
from srgdqn.identifiers import is_identifier
from srgdqn.interrupts import deferred_interrupts
from srgdqn.learner import batch_rows
from srgdqn.native.choice import settled_on_host
from srgdqn.networks import NetworkFactory
from srgdqn.networks.naming import named
from srgdqn.progress import reporting
from srgdqn.replay import ring_length
from srgdqn.settings import Configuration
from srgdqn.settings.checks import check_stored
from srgdqn.settings.coercion import shown
from srgdqn.settings.network import BUILT_IN_NETWORKS
from srgdqn.shipping.export import write_policy
from srgdqn.shipping.plain import PlainPolicy
from srgdqn.shipping.playing import without_screen
from srgdqn.shipping.policy import Observation, Policy, make_policy, numpy_policy
from srgdqn.shipping.video import Film, film
from srgdqn.store import agents, configurations
from srgdqn.store.destination import check_file, write_file
from srgdqn.store.folders import read_ordinary
from srgdqn.store.inputs import inputs_of
from srgdqn.store.memory import check_room
from srgdqn.store.provenance import LOCAL, provenance
from srgdqn.store.told import check_told, is_count
from srgdqn.training.precision import is_double
from srgdqn.training.random_numbers import check_random_numbers
from srgdqn.training.rounds import policy_arrays
from srgdqn.trees import by_path, filled
from srgdqn.user_code import user_code
from srgdqn.watching import Logger, listening

# Bytes that a step takes beside its observations, in the replay, among the random numbers and in the diary.
_PER_STEP = 64


class Agent:
    """A variance-reduced DQN agent for one Gymnasium environment.

    Args:
      algorithm: a name that `srgdqn list` shows.
      env: a Gymnasium id, an environment, a vector environment, or a function that makes an environment.
      seed: what everything random comes from; drawn from the system, and kept, if it is None.
      readings: what to do where the paper is silent or contradicts itself: `corrected` or `printed`.
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
            estimators={"none", *ESTIMATORS},
            seed=secrets.randbits(32) if seed is None else seed,
            **options,
        )
        check_random_numbers()
        configuration = settled_on_host(configuration, double=is_double())
        self._begin(configuration, host_task(configuration, source), module)

    def _begin(self, configuration: Configuration, task: HostTask, network: eqx.Module | NetworkFactory | None) -> None:
        self._task, self._network = task, network
        self._program, _ = host_program(configuration, task.network_input, task.actions.count, network)
        self._environments: list[gym.Env | VectorEnv] = []
        self._reports: RoundReports | None = None  # of the `learn` that is under way
        self._begun: list[int] = []
        self._round = HostRound(configuration, task, self._program, None)
        self._random = np.random.default_rng(configuration.training.seed)

    def __repr__(self) -> str:
        return f"<Agent {self.configuration.algorithm} in {self._task.name}: {self.num_timesteps:,} steps>"

    @property
    def configuration(self) -> Configuration:
        """Everything that decides what the agent does."""
        return self._round.configuration

    @property
    def num_timesteps(self) -> int:
        """Environment steps lived since `learn` last began anew."""
        return self._round.steps - self._round.steps_before

    @property
    def exploration_rate(self) -> float:
        """The present probability of a random action."""
        return self._round.exploration_rate

    @property
    def diverged(self) -> bool:
        """Whether the parameters went non-finite; the agent keeps the last finite ones, and learns no more."""
        return self._round.diverged_at is not None

    def get_env(self) -> gym.Env | VectorEnv | None:
        """The environment that was given, or that is learned in."""
        if self._task.source.given is not None:
            return self._task.source.given
        return self._environments[0] if self._environments else None

    def set_env(self, env: Environment) -> None:
        """Goes on in another environment with the same spaces; open episodes are left."""
        source = source_of(env)
        task = host_task(self.configuration, source)
        check_same_spaces(task.name, (task.observations, task.actions), (self._task.observations, self._task.actions))
        self.close()
        self._task = self._round.task = task
        self._round.configuration = _named(self.configuration, task.name)

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
          reset_num_timesteps: begin the schedules anew (what was learnt and remembered is kept); otherwise go on where
            the last call stopped, with the steps so far as part of the budget.
          progress_bar: show one.
          loggers: what hears how it goes, such as `srgdqn.watching.TensorBoard("logs")`.

        Returns:
          The agent itself. After an exception, from the environment or the keyboard, it stands at the end of the last
          whole block, and can be saved or go on.

        """
        total_timesteps = _whole(total_timesteps)
        round_, told = self._round, as_callback(callback)
        before = round_.steps if reset_num_timesteps else round_.steps_before
        already = round_.steps - before
        training = dataclasses.replace(
            self.configuration.training, steps=already + total_timesteps, outer_iterations=None, episodes=None
        )
        configuration = dataclasses.replace(self.configuration, training=training)
        # What was given may have been used since, by an evaluation for instance.
        midway = round_.player is not None and self._task.source.given is None
        if round_.player is None:
            self._enter(configuration)
        elif not midway:
            round_.leave_episodes()
        round_.spend(configuration, steps_before=before, to_the_end=True)
        assert round_.player is not None
        round_.player.check_spaces(round_.steps)
        self._warn_if_diverged()
        noise = GradientNoise(configuration, self._program.network) if loggers else None
        told.on_training_start(self)
        try:
            self._reports = RoundReports(round_, noise, midway=midway)
            with (
                deferred_interrupts() as interrupted,
                reporting(configuration, progress_bar) as bar,
                listening(configuration, loggers, bar) as listener,
            ):
                telling = Telling(round_, self._reports, listener)
                try:
                    going = True
                    while going and round_.active:
                        round_.live_block()
                        going = told.on_step() is not False
                        telling.tell()
                        if self._reports.up_to_date or not loggers:
                            round_.diary.keep_newest()
                        if interrupted.is_set():
                            raise KeyboardInterrupt
                finally:
                    telling.tell(ended=True)
        finally:
            self._reports = None
            told.on_training_end()
        if round_.diverged_at is not None and round_.steps - before > already:
            self._warn_if_diverged()
        elif round_.iterations == 0 and not round_.active:
            warnings.warn(
                f"nothing has been learnt yet: {round_.steps:,} steps were lived, and learning begins after "
                f"{configuration.training.learning_starts:,} (learning_starts).",
                RuntimeWarning,
                stacklevel=2,
            )
        return self

    def _warn_if_diverged(self) -> None:
        if self._round.diverged_at is not None:
            warnings.warn(
                f"the agent's parameters went non-finite at step {self._round.diverged_at:,}: it keeps the last finite "
                "ones, and learns no more. Make a new one with a smaller eta or alpha, or with clip_norm.",
                RuntimeWarning,
                stacklevel=3,
            )

    def log_evaluation(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Has the loggers of the `learn` that is under way told of episodes that were played."""
        if self._reports is not None:
            self._reports.judged(returns, lengths)

    def _enter(self, configuration: Configuration) -> None:
        """Makes what lives in the environment, which a file knows by its name alone, if it is the right one."""
        player, self._environments = make_player(configuration, self._task, 0, self._begun)
        present = self._environments[0] if self._environments else self._task.source.given
        assert present is not None
        try:
            found = read_spaces(configuration, present, self._task.name)
            check_same_spaces(self._task.name, found, (self._task.observations, self._task.actions))
        except InputError:
            self.close()
            raise
        self._round.enter(player)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """The action for an observation, or the actions for rows of them, and `state` as it came.

        Not `deterministic`, it is a random action with the present probability of exploring.
        """
        del episode_start  # nothing is remembered from step to step
        rows, single = as_rows(self._task.observations, observation)
        chosen = self._round.policy.rows(rows)
        if not deterministic:
            explores = self._random.random(len(chosen)) < self.exploration_rate
            chosen = np.where(explores, self._random.integers(self._task.actions.count, size=len(chosen)), chosen)
        actions = np.array([self._task.actions.table[index] for index in chosen])
        return (actions[0] if single else actions), state

    def play(
        self,
        episodes: int = 10,
        *,
        environment: Environment | None = None,
        deterministic: bool = True,
        seed: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The returns and lengths of episodes played, in a copy of the agent's environment or another one."""
        source = self._task.source if environment is None else source_of(environment)
        task = self._task
        if environment is not None:
            task = host_task(self.configuration, source)
            check_same_spaces(
                task.name, (task.observations, task.actions), (self._task.observations, self._task.actions)
            )
        given = source.given if environment is not None and isinstance(source.given, gym.Env) else None
        own = given is not None and _is_within(given, self._task.source.given)
        if own and self._reports is not None:
            raise InputError(
                f"episodes are to be played in the very environment, {task.name}, that the agent is learning in. Give "
                "another copy of it."
            )
        played_in = source.fresh() if given is None else given
        try:
            played = judge(
                played_in,
                task.name,
                task.observations,
                task.actions,
                self._round.policy if deterministic else _ExploringPolicy(self._explore),
                seed=self.configuration.training.seed if seed is None else seed,
                episodes=episodes,
                limit=task.evaluation_limit,
            )
        finally:
            if given is None:
                close(played_in, task.name)
            elif own and self._round.player is not None:
                self._round.leave_episodes()
        return np.asarray(played.total_reward), np.asarray(played.length)

    def save(self, path: str | os.PathLike[str], *, include_replay: bool = False, overwrite: bool = True) -> Path:
        """Writes the agent to one file, whole or not at all; with the replay, learning goes on as if never stopped."""
        place = Path(path)
        if place.suffix != ".safetensors":
            place = place.with_name(f"{place.name}.safetensors")
        check_file(place, (".safetensors",), what="agent", overwrite=overwrite)
        round_ = self._round
        tensors = by_path({"learner": round_.learner, "normaliser": round_.normaliser})
        tensors["key"] = np.asarray(jax.random.key_data(round_.key))
        if include_replay:
            tensors |= {f"replay.{name}": array for name, array in round_.memory.tensors().items()}
        about = {
            **about_task(self._task),
            "provenance": {**provenance("host"), "engine": LOCAL, "inputs": self._inputs()},
            "stands": {
                "blocks": round_.blocks,
                "iterations": round_.iterations,
                "steps_before": round_.steps_before,
                "blocks_before_memory": round_.blocks_before_memory,
                "diverged_at": round_.diverged_at,
                "episodes_begun": self._episodes_begun(),
            },
            "replay": include_replay,
        }
        saved = agents.SavedAgent(tensors, configurations.dumps(round_.configuration), about)
        return write_file(place, agents.encode(saved))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: Environment | None = None,
        *,
        network: eqx.Module | NetworkFactory | None = None,
    ) -> Agent:
        """The agent in a file. `env` is where it goes on learning, by default the environment of that id; `network` is
        the module that it was made with, where that was your own. Loading runs no code from the file.
        """
        place = Path(path)
        if not place.exists() and place.suffix != ".safetensors":
            place = place.with_name(f"{place.name}.safetensors")
        if not place.exists():
            raise InputError(f"{place} does not exist. Give a file that Agent.save wrote.")
        data = read_ordinary(place)
        try:
            saved = agents.decode(data)
            configuration = check_stored(configurations.loads(saved.configuration))
            check_told(saved.about)
        except InputError as error:
            told = str(error).rstrip(".")
            raise InputError(f"{place} cannot be loaded: {told}. Give a file that Agent.save wrote.") from error
        agent = cls.__new__(cls)
        try:
            agent._restore(saved, configuration, env, network)
        except InputError as error:
            raise InputError(f"{place} cannot be loaded: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            # Of what it tells something is missing, or is of another kind.
            raise InputError(f"{place} cannot be loaded: it is incomplete ({error}).") from error
        return agent

    def _restore(
        self,
        saved: agents.SavedAgent,
        configuration: Configuration,
        env: Environment | None,
        network: eqx.Module | NetworkFactory | None,
    ) -> None:
        needed = configuration.network.network
        if needed not in BUILT_IN_NETWORKS and network is None:
            raise InputError(f"its network is the module {needed!r}, which is not stored with it. Give it: network=….")
        task = _stored_task(configuration, saved.about, env)
        configuration = _named(configuration, task.name)
        stands = _stands(saved.about["stands"], configuration)
        # The arrays are compared with what they should be before any of these is made.
        program, _ = host_program(configuration, task.network_input, task.actions.count, network)
        learner, normaliser, _ = jax.eval_shape(program.begin, np.uint32(0), np.uint32(0))
        stored = filled({"learner": learner, "normaliser": normaliser}, saved.tensors)
        _check_room(configuration, task)
        self._begin(configuration, task, network)
        round_, restored = self._round, jax.tree.map(jnp.asarray, stored)
        round_.restore(restored["learner"], restored["normaliser"])
        key = saved.tensors.get("key")
        if key is None or (key.dtype, key.shape) != (np.uint32, (2,)):
            raise InputError("it holds no key that random numbers could come from.")
        round_.key = jax.random.wrap_key_data(jnp.asarray(key), impl="threefry2x32")
        round_.blocks, round_.iterations = stands["blocks"], stands["iterations"]
        round_.diverged_at = stands["diverged_at"]
        round_.blocks_before_memory = round_.blocks
        if saved.about["replay"]:
            round_.blocks_before_memory = stands["blocks_before_memory"]
            prefix = "replay."
            round_.memory.restore(
                {name.removeprefix(prefix): each for name, each in saved.tensors.items() if name.startswith(prefix)},
                task.actions.count,
            )
        round_.spend(configuration, steps_before=stands["steps_before"], to_the_end=True)
        self._begun = stands["episodes_begun"]

    def export(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
        """Writes the greedy policy for use without this package: `.onnx`, or `.py` for a file that needs only NumPy."""
        return write_policy(self._policy(), path, overwrite=overwrite)

    def video(
        self,
        path: str | os.PathLike[str],
        *,
        episodes: int = 1,
        seed: int = 0,
        environment: gym.Env | None = None,
        overwrite: bool = True,
        progress: bool | None = None,
    ) -> Film:
        """Films greedy episodes (`.mp4` or `.gif`) in a copy of the agent's environment, or in one of yours that was
        made with `render_mode="rgb_array"`. They end at the limit of evaluations.
        """

        def act(observation: Any) -> Any:
            return self.predict(observation, deterministic=True)[0]

        with without_screen():
            shown = self._task.source.fresh("rgb_array") if environment is None else environment
            try:
                ending = gym.wrappers.TimeLimit(shown, self._task.evaluation_limit)
                return film(ending, act, path, episodes, seed, overwrite=overwrite, progress=progress)
            finally:
                if environment is None:
                    close(shown, self._task.name)

    def to_numpy(self) -> PlainPolicy:
        """The greedy policy as a function that needs only NumPy, from what a network reads to actions' indices."""
        return numpy_policy(self._policy())

    def _policy(self) -> Policy:
        reading = self._task.observations
        return make_policy(
            policy_arrays(self._round.learner.parameters, self._round.normaliser),
            self.configuration,
            Observation(reading.kind, reading.shape),
            about={"steps": str(self._round.steps)},
        )

    def close(self) -> None:
        """Closes the environments that the agent made for itself; learning again makes new ones."""
        self._begun = self._episodes_begun()
        for environment in self._environments:
            close(environment, self._task.name)
        self._environments, self._round.player = [], None

    def _inputs(self) -> dict[str, Any]:
        """What it was learnt from, as its file tells it."""
        configuration = self._round.configuration
        return inputs_of(configuration, user_code(configuration, self._network, self._task.source))

    def _episodes_begun(self) -> list[int]:
        """By seat, so that an episode's seed is never used twice."""
        return self._begun if self._round.player is None else list(self._round.player.begun)

    def _explore(self, row: np.ndarray) -> int:
        if self._random.random() < self.exploration_rate:
            return int(self._random.integers(self._task.actions.count))
        return self._round.policy.one(row)


def _whole(total_timesteps: Any) -> int:
    """A number of steps, which may be written as 1e5 too."""
    if isinstance(total_timesteps, float) and total_timesteps.is_integer():
        total_timesteps = int(total_timesteps)
    if not isinstance(total_timesteps, Integral) or isinstance(total_timesteps, bool) or total_timesteps < 1:
        raise InputError(f"total_timesteps is {shown(total_timesteps)}, but must be a whole number of 1 or more.")
    return int(total_timesteps)


def _is_within(one: gym.Env, other: Any) -> bool:
    return isinstance(other, gym.Env) and one.unwrapped is other.unwrapped


class _ExploringPolicy(NamedTuple):
    one: Callable[[np.ndarray], int]


def _stands(told: Any, configuration: Configuration) -> dict[str, Any]:
    """Where an agent stands, if it can stand there."""
    counts = ("blocks", "iterations", "steps_before", "blocks_before_memory")
    begun, diverged_at = told["episodes_begun"], told["diverged_at"]
    sound = (
        all(is_count(told[name]) for name in counts)
        and is_count(told["blocks"] * configuration.training.learning_frequency)
        and told["blocks_before_memory"] <= told["blocks"]
        and isinstance(begun, list)
        and all(map(is_count, begun))
        and (diverged_at is None or is_count(diverged_at))
    )
    if not sound:
        raise InputError("it does not stand anywhere that an agent can.")
    return dict(told)


def _check_room(configuration: Configuration, task: HostTask) -> None:
    """An `InputError` where living as the configuration says would take more memory than a file may ask for."""
    training, inner = configuration.training, configuration.estimator
    block, rows = training.learning_frequency, batch_rows(configuration)
    step = 2 * task.observations.size * np.dtype(task.observations.dtype).itemsize + _PER_STEP
    remembered = (ring_length(configuration.replay, block) + block + training.environments) * step
    batch = rows * (step + 8 * sum(configuration.network.hidden))
    planned = PAGE_BLOCKS * (block * _PER_STEP + 8 * (rows + inner.inner_iterations * inner.inner_batch))
    check_room(remembered + batch + planned + _PER_STEP * (training.episodes or 0), "what its configuration asks for")


def _stored_task(configuration: Configuration, about: dict[str, Any], env: Environment | None) -> HostTask:
    """The task that a file tells of, in the environment given or in that of its name."""
    observations = Observations.told(about["observations"])
    if not is_count(about["evaluation_limit"], 1):
        raise InputError("it does not tell how long an episode may be.")
    actions = Actions.told(about["action_table"], about["action_type"])
    if env is not None:
        task = host_task(configuration, source_of(env))
        check_same_spaces(task.name, (task.observations, task.actions), (observations, actions))
        return task
    name = configuration.task.task
    # An id is not looked up before it is needed: that may import the module it names, which is no file's to decide.
    source = source_named(name) if is_identifier(name) else Source(name, None)
    return HostTask(source, observations, actions, about["evaluation_limit"], None)


def _named(configuration: Configuration, name: str) -> Configuration:
    """The same for an environment of another name."""
    return dataclasses.replace(configuration, task=dataclasses.replace(configuration.task, task=name))
