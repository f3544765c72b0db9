"""A run ready to be trained: its kernel chosen, its identity known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium as gym
import jax
from gymnasium.envs.registration import EnvSpec
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Discrete
from gymnasium.vector import VectorEnv

from srgdqn import tasks
from srgdqn.adapters.defaults import defaults_for
from srgdqn.adapters.environments import Source, source_of
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.adapters.registry import check_name
from srgdqn.config import Configuration
from srgdqn.config.discovery import NETWORKS
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import is_compiled
from srgdqn.errors import InputError
from srgdqn.interrupts import let_interrupts_through
from srgdqn.kernel.build import toolchain
from srgdqn.kernel.support import KernelConditions, resolved, resolved_on_host
from srgdqn.learner.networks import NetworkFactory, named
from srgdqn.results.result import Result
from srgdqn.runs.provenance import LOCAL, inputs_of, provenance, what_bits_depend_on
from srgdqn.runs.run import Run
from srgdqn.runs.tables import SCHEMAS, frame, names_for
from srgdqn.training import Trained, train_rounds
from srgdqn.training.host.rounds import train_on_host
from srgdqn.training.host.task import about_task, host_task
from srgdqn.training.interaction import action_count, observation_size
from srgdqn.training.jax_setup import check_random_numbers, is_double
from srgdqn.training.user_code import user_code


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

    def train(self, *, ran_by: str = LOCAL, **how: Any) -> Result:
        """Trains it; `how` has options of `train_rounds` or `train_on_host`, and `ran_by` is the engine's name.

        Raises `EnvironmentFailedError` where an environment misbehaves: its `result` is everything until then.
        """
        configuration = self.configuration
        if configuration.network.network not in NETWORKS and self.network is None:
            raise InputError(
                f"the configuration's network is the module {configuration.network.network!r}. Give it: network=…."
            )
        let_interrupts_through()
        if self.source is None:
            compiled = tasks.task_of(configuration, self.environment)
            trained = train_rounds(configuration, compiled, self.network, **how)
            return self.result(trained, about_compiled(compiled), ran_by)
        task = host_task(configuration, self.source)
        trained = train_on_host(configuration, task, self.network, **how)
        result = self.result(trained, about_task(task), ran_by)
        if trained.failures:
            words = "; ".join(f"round {number}: {failure.rstrip('.')}" for number, failure in trained.failures.items())
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
        names = names_for(self.configuration.training)
        frames = {name: frame(name, trained.tables.get(name) or dict.fromkeys(SCHEMAS[name], ())) for name in names}
        return self.with_user_code(Run(self.configuration, frames, trained.policies, about, trained.best))

    def with_user_code(self, run: Run) -> Result:
        """A trained run as a result that can act: with the user's own network and environment."""
        return Result(run, self.network, self.environment if self.source is None else self.source)


NOTHING_OWN: Mapping[str, Any] = MappingProxyType({})


class Given(NamedTuple):
    """A task and a network as users give them: by name, or objects of their own."""

    task: str
    """Its name."""
    options: dict[str, Any]
    """The options that follow from what was given, below the user's."""
    defaults: dict[str, Any] | None
    """What takes the place of a preset; None for a task that has one."""
    own: dict[str, Any]
    """`environment`, `source` and `network`, where they are the user's own, for `prepare`."""


def what_is_given(task: Any, network: Any = None) -> Given:
    """The name, the options and the user's own code behind a task and a network, as `srgdqn.train` takes them."""
    options: dict[str, Any]
    options, module = named(network)
    own: dict[str, Any] = {} if module is None else {"network": module}
    if isinstance(task, str) and not is_identifier(task):
        check_name(task)
        return Given(task, options, None, own)
    ordinary = isinstance(task, str | EnvSpec | gym.Env | VectorEnv)
    makes_one = issubclass(task, gym.Env) if isinstance(task, type) else callable(task)
    if not ordinary and (isinstance(task, FuncEnv) or not makes_one):
        return Given(tasks.adopt(task).name, options, {}, {**own, "environment": task})
    source = source_of(task)
    if isinstance(source.given, VectorEnv):
        options = {**options, "environments": source.given.num_envs}
    return Given(source.name, options, defaults_for(source), {**own, "source": source})


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
    if environment is not None and configuration.acting.action_masks:
        raise InputError(
            "action_masks is on, but is for Gymnasium environments whose info has an action_mask, and a functional "
            "environment gives none. Switch it off."
        )
    if environment is None and source is None and not is_compiled(configuration.task.task):
        source = source_of(configuration.task.task)
    configuration = with_kernel(configuration, own_environment=environment is not None)
    about = provenance_of(configuration, on_host=source is not None)
    own = user_code(configuration, network, environment if source is None else source)
    return PreparedRun(configuration, environment, source, network, about, own)


def result_of(
    configuration: Configuration,
    task: tasks.Task,
    trained: Trained,
    *,
    ran_by: str = LOCAL,
    own: Mapping[str, Any] = NOTHING_OWN,
) -> Result:
    """What training on a compiled task left, with its provenance; `own` is the user's own code, as of `Given`."""
    return prepare(configuration, **own).result(trained, about_compiled(task), ran_by)


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


def with_kernel(configuration: Configuration, *, own_environment: bool = False) -> Configuration:
    """The configuration with what will run it decided: `kernel` is `native` or `xla`, no longer `auto`."""
    check_random_numbers()
    if not own_environment and not is_compiled(configuration.task.task):
        return resolved_on_host(configuration, double=is_double())
    surroundings = KernelConditions(
        own_environment=own_environment,
        double=is_double(),
        on_cpu=jax.default_backend() == "cpu",
    )
    return resolved(configuration, surroundings)


def provenance_of(configuration: Configuration, *, on_host: bool) -> dict[str, Any]:
    """What the bits of a run depend on beside its configuration."""
    compiler = toolchain() if configuration.training.kernel == "native" else None
    return {**provenance("host" if on_host else "training"), "compiler": compiler}
