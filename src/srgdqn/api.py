"""The package's front door in Python: `train` and `load`."""

from __future__ import annotations

import os
from typing import Any

import equinox as eqx
import jax
from gymnasium.experimental.functional import FuncEnv

from srgdqn import tasks
from srgdqn.configure import configure
from srgdqn.errors import InputError
from srgdqn.estimators import ESTIMATORS
from srgdqn.interrupts import let_interrupts_through
from srgdqn.native.build import toolchain
from srgdqn.native.choice import Surroundings, settled
from srgdqn.networks import NetworkFactory
from srgdqn.progress import reporting
from srgdqn.result import Result, load_result
from srgdqn.settings import Configuration
from srgdqn.settings.checks import check
from srgdqn.store.provenance import provenance
from srgdqn.store.run import Run
from srgdqn.store.tables import SCHEMAS, frame
from srgdqn.training import train_rounds
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.precision import is_double


def train(
    task: str | FuncEnv,
    algorithm: str = "srg-dqn",
    *,
    readings: str = "corrected",
    network: eqx.Module | NetworkFactory | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Result:
    """Trains an algorithm on a task, all rounds at once.

    Args:
      task: the name of one of the paper's tasks, or a functional JAX environment (`gymnasium`'s `FuncEnv`), whose
        attributes must not change once it is trained on: compiled programs would not notice.
      algorithm: a name that `srgdqn list` shows.
      readings: what to do where the paper is silent or contradicts itself: `corrected` or `printed`.
      network: an equinox module from one flat observation to Q-values, or a function from a random key to one; by
        default a perceptron with `hidden` widths.
      progress: show a progress bar (by default where there is a terminal).
      **options: any option that `srgdqn train --help` shows, such as `rounds=50`, `seed=0`, `steps=…`, `eta=…`.

    Returns:
      The result; also if it was interrupted from the keyboard, with what was reached by then.

    >>> result = train("CartPole", "dqn-adam", steps=2_000, evaluation_episodes=1)
    >>> result.curves.select("round", "step").rows()
    [(0, 1000), (0, 2000)]

    """
    environment = None if isinstance(task, str) else task
    name = task if isinstance(task, str) else tasks.adopt(task).name
    if network is not None:
        options["network"] = _name_of(network)
    configuration = configure(
        name,
        algorithm,
        readings=readings,
        adopted=environment is not None,
        estimators={"none", *ESTIMATORS},
        **options,
    )
    return train_configured(configuration, environment=environment, network=network, progress=progress)


def train_configured(
    configuration: Configuration,
    *,
    environment: FuncEnv | None = None,
    network: eqx.Module | NetworkFactory | None = None,
    progress: bool | None = None,
    **engine: Any,
) -> Result:
    """Trains what a configuration describes. `environment` and `network` are the user's own, where it names such;
    `engine` says how `train_rounds` is to run it, if not on every core.
    """
    configuration = with_kernel(check(configuration, {"none", *ESTIMATORS}), own_environment=environment is not None)
    if configuration.network.network != "mlp" and network is None:
        raise InputError(
            f"the configuration's network is the module {configuration.network.network!r}. Give it: network=…."
        )
    if environment is None:
        task = tasks.make(configuration.task)
    else:
        settings = configuration.task
        task = tasks.adopt(environment, name=settings.task, time_limit=settings.time_limit)
    task = tasks.judged_for(task, configuration.training.evaluation_limit)
    let_interrupts_through()
    with reporting(configuration, progress) as listener:
        trained = train_rounds(configuration, task, network, **{"listener": listener, **engine})
    about = {
        **provenance_of(configuration),
        "observation_size": observation_size(task.environment),
        "actions": action_count(task.environment),
        "evaluation_limit": task.evaluation_limit,
        "precision": "float64" if is_double() else "float32",
        "backend": jax.default_backend(),
        "interrupted": trained.interrupted,
    }
    frames = {name: frame(name, trained.tables.get(name) or dict.fromkeys(SCHEMAS[name], ())) for name in SCHEMAS}
    return Result(Run(configuration, frames, trained.policies, about), network, environment)


def with_kernel(configuration: Configuration, *, own_environment: bool = False) -> Configuration:
    """The configuration with what will run it decided: `kernel` is `native` or `xla`, no longer `auto`."""
    surroundings = Surroundings(
        own_environment=own_environment,
        double=is_double(),
        partitionable=bool(jax.config.values["jax_threefry_partitionable"]),
        on_cpu=jax.default_backend() == "cpu",
    )
    return settled(configuration, surroundings)


def provenance_of(configuration: Configuration) -> dict[str, Any]:
    """What the bits of a run depend on beside its configuration."""
    return {**provenance(), "compiler": toolchain() if configuration.training.kernel == "native" else None}


def load(folder: str | os.PathLike[str], *, network: eqx.Module | NetworkFactory | None = None) -> Result:
    """The result in a run's folder; `network` is the user's own module, where the run was trained with one."""
    return load_result(folder, network=network)


def _name_of(network: Any) -> str:
    """What the user's own network is called in a configuration; never `mlp`, the built-in one's name."""
    if not callable(network):
        raise InputError(
            f"network is {network!r}, which is neither an equinox module nor a function from a random key to one. Give "
            "such a thing, or leave it out for a perceptron with the widths in hidden."
        )
    named = network if hasattr(network, "__qualname__") else type(network)
    return f"{named.__module__}.{named.__qualname__}"
