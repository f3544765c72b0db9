"""The package's front door in Python: `train` and `load`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import gymnasium as gym
import jax
from gymnasium.envs.registration import EnvSpec
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Discrete
from gymnasium.vector import VectorEnv

from srgdqn import tasks
from srgdqn.adapters.defaults import defaults_for
from srgdqn.adapters.environments import Environment, Source, source_of
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.adapters.registry import check_name
from srgdqn.config import Configuration
from srgdqn.config.checks import check
from srgdqn.config.configure import configure
from srgdqn.config.discovery import NETWORKS
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import is_compiled
from srgdqn.engines.choice import ready
from srgdqn.engines.host_rounds import train_on_host
from srgdqn.errors import InputError
from srgdqn.integrations import Logger, listening
from srgdqn.integrations.progress import reporting
from srgdqn.kernel.build import toolchain
from srgdqn.kernel.support import Surroundings, resolved, resolved_on_host
from srgdqn.learner.networks import NetworkFactory, named
from srgdqn.results.result import Result, load_result
from srgdqn.results.session import run_session
from srgdqn.results.user_code import user_code
from srgdqn.runs.checkpoint_options import CheckpointOptions, claimed
from srgdqn.runs.inputs import inputs_of
from srgdqn.runs.interrupts import let_interrupts_through
from srgdqn.runs.provenance import LOCAL, provenance, what_bits_depend_on
from srgdqn.runs.run import Run
from srgdqn.runs.tables import SCHEMAS, frame
from srgdqn.training import Trained, train_rounds
from srgdqn.training.host.task import about_task, host_task
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.precision import is_double
from srgdqn.training.random_numbers import check_random_numbers


def train(
    task: FuncEnv | Environment,
    algorithm: str = "srg-dqn",
    *,
    readings: str = "corrected",
    network: str | eqx.Module | NetworkFactory | None = None,
    progress: bool | None = None,
    loggers: Sequence[Logger] = (),
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_every: float | None = None,
    keep_checkpoints: int | Literal["all"] | None = None,
    engine: str = LOCAL,
    address: str | None = None,
    **options: Any,
) -> Result:
    """Trains an algorithm on a task, all rounds at once.

    Args:
      task: the name of one of the paper's tasks; the id of a Gymnasium environment, an environment, or a function that
        makes one, which is stepped on the host; or a functional JAX environment (`gymnasium`'s `FuncEnv`), whose
        attributes must not change once it is trained on: compiled programs would not notice.
      algorithm: a name that `srgdqn list` shows.
      readings: what to do where the paper is silent or contradicts itself: `corrected` or `printed`.
      network: `mlp` (a perceptron with `hidden` widths) or `cnn`; or an equinox module from one observation (flat, or
        an image with its channels first) to Q-values, or a function from a random key to one.
      progress: show a progress bar (by default where there is a terminal).
      loggers: what every round is logged to, such as `srgdqn.integrations.TensorBoard("logs")`.
      out: a new folder that the run is saved in; until then its checkpoints are beside it, in `out`.unfinished.
      resume: continue from these checkpoints, if there are any; the result is bit-identical.
      overwrite: replace the run that is in the folder.
      checkpoint_every: seconds between two checkpoints; by default a minute, or as seldom as keeps them cheap.
      keep_checkpoints: how many are kept (or `"all"`), also in the finished run; by default two, until it is finished.
      engine: where it is trained: `"local"`, on this machine, or `"ray"`, on the cores of a Ray cluster, with the same
        bits.
      address: of that cluster: `"HOST:PORT"`, or `"auto"` for the one that this machine is a node of; by default
        `$RAY_ADDRESS`, or a Ray of its own on this machine.
      **options: any option that `srgdqn train --help` shows, such as `rounds=50`, `seed=0`, `steps=…`, `eta=…`.

    Returns:
      The result; also if it was interrupted from the keyboard, with what was reached by then.

    >>> result = train("CartPole", "dqn-adam", steps=2_000, evaluation_episodes=1)
    >>> result.curves.select("round", "step").rows()
    [(0, 1000), (0, 2000)]

    """
    its_name, module = named(network)
    options |= its_name
    environment, source, defaults = _what_to_learn(task)
    if source is not None:
        name = source.name
        if isinstance(source.given, VectorEnv):
            options.setdefault("environments", source.given.num_envs)
    else:
        name = task if isinstance(task, str) else tasks.adopt(environment).name
    configuration = configure(name, algorithm, readings=readings, defaults=defaults, **options)
    checkpoints = None
    if out is not None:
        checkpoints = CheckpointOptions(Path(out), resume, overwrite, checkpoint_every, keep_checkpoints).checked()
    elif resume or overwrite or checkpoint_every is not None or keep_checkpoints is not None:
        raise InputError("resume, overwrite and checkpoints are for runs that are saved. Give out=… as well.")
    with claimed(checkpoints), ready(engine, address):
        run = prepare(configuration, environment=environment, source=source, network=module)
        outcome = run_session(run, checkpoints, engine=engine, progress=progress, loggers=loggers)
    if outcome.failure is not None:
        raise outcome.failure
    return outcome.result


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A run that can be trained: its configuration with the kernel chosen, and the user's own code."""

    configuration: Configuration
    environment: FuncEnv | None
    source: Source | None
    """Of ordinary environments, which are stepped on the host."""
    network: eqx.Module | NetworkFactory | None
    provenance: dict[str, Any]
    user_code: dict[str, Any]

    @property
    def on_host(self) -> bool:
        """Whether its environments are stepped on the host."""
        return self.source is not None

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the bits beside the configuration."""
        own = {"user_code": self.user_code}
        return what_bits_depend_on({**self.provenance, "precision": _precision(), "inputs": own})

    def train(
        self, *, progress: bool | None = None, loggers: Sequence[Logger] = (), ran_by: str = LOCAL, **engine: Any
    ) -> Result:
        """Trains it. `engine` says how, if not on every core, and `ran_by` what that is called in the provenance.

        Raises `EnvironmentFailedError` where an environment misbehaves: its `result` is everything until then.
        """
        configuration = self.configuration
        if configuration.network.network not in NETWORKS and self.network is None:
            raise InputError(
                f"the configuration's network is the module {configuration.network.network!r}. Give it: network=…."
            )
        let_interrupts_through()
        failures: dict[int, str] = {}
        task: Any = (
            task_of(configuration, self.environment) if self.source is None else host_task(configuration, self.source)
        )
        with reporting(configuration, progress) as bar, listening(configuration, loggers, bar) as listener:
            engine = {"listener": listener, **engine}
            if self.source is None:
                trained = train_rounds(configuration, task, self.network, **engine)
            else:
                engine = {"measure_noise": bool(loggers), **engine}
                trained, failures = train_on_host(configuration, task, self.network, **engine)
        result = self.result(trained, about_compiled(task) if self.source is None else about_task(task), ran_by)
        if failures:
            words = "; ".join(f"round {number}: {failure.rstrip('.')}" for number, failure in failures.items())
            raise EnvironmentFailedError(f"{words}.", result)
        return result

    def result(self, trained: Trained, task: dict[str, Any], ran_by: str) -> Result:
        """What training left, with its provenance."""
        about = {
            **self.provenance,
            "engine": ran_by,
            "inputs": inputs_of(self.configuration, self.user_code),
            **task,
            "precision": _precision(),
            "backend": jax.default_backend(),
            "interrupted": trained.interrupted,
        }
        frames = {name: frame(name, trained.tables.get(name) or dict.fromkeys(SCHEMAS[name], ())) for name in SCHEMAS}
        return self.with_user_code(Run(self.configuration, frames, trained.policies, about))

    def with_user_code(self, run: Run) -> Result:
        """A trained run as a result that can act: with the user's own network and environment."""
        return Result(run, self.network, self.environment if self.source is None else self.source)


def prepare(
    configuration: Configuration,
    *,
    environment: FuncEnv | None = None,
    source: Source | None = None,
    network: eqx.Module | NetworkFactory | None = None,
) -> PreparedRun:
    """Chooses the kernel of a configuration that was checked, and finds out what else determines the bits.

    `environment` (functional), `source` (of ordinary ones) and `network` are the user's own, where it names such.
    """
    if environment is None and source is None and not is_compiled(configuration.task.task):
        source = source_of(configuration.task.task)
    configuration = with_kernel(configuration, own_environment=environment is not None)
    about = provenance_of(configuration, on_host=source is not None)
    own = user_code(configuration, network, environment if source is None else source)
    return PreparedRun(configuration, environment, source, network, about, own)


def identity_of(configuration: Configuration, **user_code: Any) -> tuple[Configuration, dict[str, Any]]:
    """The configuration with its kernel chosen, and what else determines the bits of its run."""
    run = prepare(_checked(configuration), **user_code)
    return run.configuration, run.identity


def train_configured(
    configuration: Configuration,
    *,
    environment: FuncEnv | None = None,
    source: Source | None = None,
    network: eqx.Module | NetworkFactory | None = None,
    **how: Any,
) -> Result:
    """Trains a configuration, from wherever it comes: see `prepare` and `PreparedRun.train`."""
    run = prepare(_checked(configuration), environment=environment, source=source, network=network)
    return run.train(**how)


def _checked(configuration: Configuration) -> Configuration:
    return check(configuration)


def task_of(configuration: Configuration, environment: FuncEnv | None = None) -> tasks.Task:
    """The compiled task that a configuration names, or the user's own environment as one."""
    if environment is None:
        task = tasks.make(configuration.task)
    else:
        settings = configuration.task
        task = tasks.adopt(environment, name=settings.task, time_limit=settings.time_limit)
    return tasks.with_evaluation_limit(task, configuration.training.evaluation_limit)


def result_of(configuration: Configuration, task: tasks.Task, trained: Trained, *, ran_by: str = LOCAL) -> Result:
    """What training on a compiled task of the package left, with its provenance."""
    return prepare(configuration).result(trained, about_compiled(task), ran_by)


def about_compiled(task: tasks.Task) -> dict[str, Any]:
    """What a run stores about a compiled task, for its policies to be used."""
    return {
        "observation_size": observation_size(task.environment),
        "observation_kind": "one-hot" if isinstance(task.environment.observation_space, Discrete) else "vector",
        "actions": action_count(task.environment),
        "evaluation_limit": task.evaluation_limit,
    }


def _precision() -> str:
    return "float64" if is_double() else "float32"


def _what_to_learn(task: Any) -> tuple[Any, Source | None, dict[str, Any] | None]:
    """What may be a functional environment, or the source of an ordinary one; and what takes a preset's place."""
    if isinstance(task, str) and not is_identifier(task):
        check_name(task)
        return None, None, None
    ordinary = isinstance(task, str | EnvSpec | gym.Env | VectorEnv)
    makes_one = issubclass(task, gym.Env) if isinstance(task, type) else callable(task)
    if ordinary or (makes_one and not isinstance(task, FuncEnv)):
        source = source_of(task)
        return None, source, defaults_for(source)
    return task, None, {}


def with_kernel(configuration: Configuration, *, own_environment: bool = False) -> Configuration:
    """The configuration with what will run it decided: `kernel` is `native` or `xla`, no longer `auto`."""
    check_random_numbers()
    if not own_environment and not is_compiled(configuration.task.task):
        return resolved_on_host(configuration, double=is_double())
    surroundings = Surroundings(
        own_environment=own_environment,
        double=is_double(),
        on_cpu=jax.default_backend() == "cpu",
    )
    return resolved(configuration, surroundings)


def provenance_of(configuration: Configuration, *, on_host: bool) -> dict[str, Any]:
    """What the bits of a run depend on beside its configuration."""
    compiler = toolchain() if configuration.training.kernel == "native" else None
    return {**provenance("host" if on_host else "training"), "compiler": compiler}


def load(folder: str | os.PathLike[str], *, network: eqx.Module | NetworkFactory | None = None) -> Result:
    """The result in a run's folder; `network` is the user's own module, where the run was trained with one."""
    return load_result(folder, network=network)
