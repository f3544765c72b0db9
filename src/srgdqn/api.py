"""The package's front door in Python: `train` and `load`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
from srgdqn.configure import configure
from srgdqn.engines.choice import for_training, ready
from srgdqn.errors import InputError
from srgdqn.estimators import ESTIMATORS
from srgdqn.host.defaults import defaults_for
from srgdqn.host.environments import Environment, Source, source_of
from srgdqn.host.failures import EnvironmentFailedError
from srgdqn.host.registry import check_name
from srgdqn.host.rounds import train_on_host
from srgdqn.host.task import about_task, host_task
from srgdqn.identifiers import is_identifier
from srgdqn.interrupts import let_interrupts_through
from srgdqn.native.build import toolchain
from srgdqn.native.choice import Surroundings, settled, settled_on_host
from srgdqn.networks import NetworkFactory
from srgdqn.networks.naming import named
from srgdqn.presets import is_compiled
from srgdqn.progress import reporting
from srgdqn.result import Result, load_result
from srgdqn.settings import Configuration
from srgdqn.settings.checks import check
from srgdqn.settings.network import BUILT_IN_NETWORKS
from srgdqn.store.care import Care
from srgdqn.store.inputs import inputs_of
from srgdqn.store.provenance import LOCAL, provenance, what_bits_depend_on
from srgdqn.store.run import Run
from srgdqn.store.tables import SCHEMAS, frame
from srgdqn.training import Trained, train_rounds
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.precision import is_double
from srgdqn.training.random_numbers import check_random_numbers
from srgdqn.under_way import begin, finished_already
from srgdqn.user_code import user_code
from srgdqn.watching import Logger, listening


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
      loggers: what hears how every round goes, such as `srgdqn.watching.TensorBoard("logs")`.
      out: a new folder that the run is saved in; until then its checkpoints are beside it, in `out`.unfinished.
      resume: go on with the run that these checkpoints are of, if there are any: it ends with the same bits.
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
    configuration = configure(
        name, algorithm, readings=readings, defaults=defaults, estimators={"none", *ESTIMATORS}, **options
    )
    given: dict[str, Any] = {"environment": environment, "source": source, "network": module}
    listeners: dict[str, Any] = {"progress": progress, "loggers": loggers}
    if out is None:
        if resume or overwrite or checkpoint_every is not None or keep_checkpoints is not None:
            raise InputError("a run that is kept while it goes on needs a folder. Give out=….")
        with ready(engine, address):
            where = for_training(engine, compiled=source is None)
            return train_configured(configuration, **given, **listeners, **where)
    care = Care(Path(out), resume, overwrite, checkpoint_every, keep_checkpoints).checked()
    with care.occupied(), ready(engine, address):
        where = for_training(engine, compiled=source is None)
        decided, about = what_decides(configuration, **given)
        if (found := finished_already(decided, about, care)) is not None:
            return Result(found.run, module, environment if source is None else source)
        run = begin(decided, about, care)
        try:
            result = train_configured(decided, **given, **listeners, **where, keeping=run.keeping)
        except EnvironmentFailedError as error:
            run.save(error.result)
            raise
        run.save(result)
    return result


def what_decides(
    configuration: Configuration,
    *,
    environment: FuncEnv | None = None,
    source: Source | None = None,
    network: eqx.Module | NetworkFactory | None = None,
) -> tuple[Configuration, dict[str, Any]]:
    """The configuration with what will run it decided, and what the bits of its run depend on beside it."""
    configuration = with_kernel(check(configuration, {"none", *ESTIMATORS}), own_environment=environment is not None)
    on_host = environment is None and not is_compiled(configuration.task.task)
    if on_host and source is None:
        source = source_of(configuration.task.task)
    about = provenance_of(configuration, on_host=on_host)
    code = user_code(configuration, network, source if on_host else environment)
    return configuration, what_bits_depend_on({**about, "precision": _precision(), "inputs": {"user_code": code}})


def train_configured(
    configuration: Configuration,
    *,
    environment: FuncEnv | None = None,
    source: Source | None = None,
    network: eqx.Module | NetworkFactory | None = None,
    progress: bool | None = None,
    loggers: Sequence[Logger] = (),
    ran_by: str = LOCAL,
    **engine: Any,
) -> Result:
    """Trains what a configuration describes. `environment` (functional), `source` (of ordinary ones) and `network` are
    the user's own, where it names such; `engine` says how it is to be run, if not on every core, and `ran_by` what that
    engine is called in the run's provenance.

    Raises `EnvironmentFailedError` where an environment misbehaves: its `result` is everything until then.
    """
    configuration = check(configuration, {"none", *ESTIMATORS})
    if configuration.network.network not in BUILT_IN_NETWORKS and network is None:
        raise InputError(
            f"the configuration's network is the module {configuration.network.network!r}. Give it: network=…."
        )
    let_interrupts_through()
    configuration = with_kernel(configuration, own_environment=environment is not None)
    if environment is None and not is_compiled(configuration.task.task):
        return _train_on_host(configuration, source, network, progress, loggers, ran_by, engine)
    task = task_of(configuration, environment)
    code = user_code(configuration, network, environment)
    with reporting(configuration, progress) as bar, listening(configuration, loggers, bar) as listener:
        trained = train_rounds(configuration, task, network, **{"listener": listener, **engine})
    result = result_of(configuration, task, trained, code, ran_by=ran_by)
    return Result(result.run, network, environment)


def task_of(configuration: Configuration, environment: FuncEnv | None = None) -> tasks.Task:
    """The compiled task that a configuration names, or the user's own environment as one."""
    if environment is None:
        task = tasks.make(configuration.task)
    else:
        settings = configuration.task
        task = tasks.adopt(environment, name=settings.task, time_limit=settings.time_limit)
    return tasks.judged_for(task, configuration.training.evaluation_limit)


def result_of(
    configuration: Configuration,
    task: tasks.Task,
    trained: Trained,
    code: Mapping[str, Any] | None = None,
    *,
    ran_by: str = LOCAL,
) -> Result:
    """What training left, with where it came from; `code` is the identity of the user's, where it is not what is
    registered alone.
    """
    code = user_code(configuration) if code is None else code
    about = {
        "observation_size": observation_size(task.environment),
        "observation_kind": "one-hot" if isinstance(task.environment.observation_space, Discrete) else "vector",
        "actions": action_count(task.environment),
        "evaluation_limit": task.evaluation_limit,
    }
    return Result(_run(configuration, trained, about, code, ran_by, on_host=False))


def _train_on_host(
    configuration: Configuration,
    source: Source | None,
    network: eqx.Module | NetworkFactory | None,
    progress: bool | None,
    loggers: Sequence[Logger],
    ran_by: str,
    engine: dict[str, Any],
) -> Result:
    source = source_of(configuration.task.task) if source is None else source
    code = user_code(configuration, network, source)  # before an environment that was given is stepped
    task = host_task(configuration, source)
    engine = {"measure_noise": bool(loggers), **engine}
    with reporting(configuration, progress) as bar, listening(configuration, loggers, bar) as listener:
        trained, failures = train_on_host(configuration, task, network, **{"listener": listener, **engine})
    result = Result(_run(configuration, trained, about_task(task), code, ran_by, on_host=True), network, source)
    if failures:
        told = "; ".join(f"round {number}: {failure.rstrip('.')}" for number, failure in failures.items()) + "."
        raise EnvironmentFailedError(told, result)
    return result


def _run(
    configuration: Configuration,
    trained: Trained,
    about: dict[str, Any],
    code: Mapping[str, Any],
    ran_by: str,
    *,
    on_host: bool,
) -> Run:
    about = {
        **provenance_of(configuration, on_host=on_host),
        "engine": ran_by,
        "inputs": inputs_of(configuration, code),
        **about,
        "precision": _precision(),
        "backend": jax.default_backend(),
        "interrupted": trained.interrupted,
    }
    frames = {name: frame(name, trained.tables.get(name) or dict.fromkeys(SCHEMAS[name], ())) for name in SCHEMAS}
    return Run(configuration, frames, trained.policies, about)


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
        return settled_on_host(configuration, double=is_double())
    surroundings = Surroundings(
        own_environment=own_environment,
        double=is_double(),
        on_cpu=jax.default_backend() == "cpu",
    )
    return settled(configuration, surroundings)


def provenance_of(configuration: Configuration, *, on_host: bool) -> dict[str, Any]:
    """What the bits of a run depend on beside its configuration."""
    compiler = toolchain() if configuration.training.kernel == "native" else None
    return {**provenance("host" if on_host else "training"), "compiler": compiler}


def load(folder: str | os.PathLike[str], *, network: eqx.Module | NetworkFactory | None = None) -> Result:
    """The result in a run's folder; `network` is the user's own module, where the run was trained with one."""
    return load_result(folder, network=network)
