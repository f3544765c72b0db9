"""Policies from the stored parameters of rounds: how they read observations, act, and play evaluation episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from srgdqn.config.discovery import NETWORKS
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import PRESETS
from srgdqn.errors import InputError
from srgdqn.runs.provenance import required
from srgdqn.runs.run import Run

if TYPE_CHECKING:
    import equinox as eqx

    from srgdqn.learner.networks import Network, NetworkFactory
    from srgdqn.learner.normalisation import Moments

Act = Callable[[Any], Any]
"""From an observation to an action."""


@dataclass(frozen=True, eq=False)
class RoundPolicies:
    """The policies of a run's rounds."""

    run: Run
    rounds: Sequence[int]
    """The numbers of the rounds, in the order of the stored arrays."""
    user_network: eqx.Module | NetworkFactory | None

    def rows_of(self, numbers: Sequence[int]) -> np.ndarray:
        """The rows of these rounds in the stored arrays."""
        known = list(self.rounds)
        for number in numbers:
            if number not in known:
                raise InputError(f"there is no round {number!r} in this run. Give one of {_span(known)}.")
        rows = np.array([known.index(number) for number in numbers], dtype=int)
        stored = min((len(array) for array in self.run.parameters.values()), default=0)
        if rows.size and rows.max() >= stored:
            raise InputError(f"this run has {len(known)} rounds, and the parameters of {stored}: it is damaged.")
        return rows

    def policy(self, number: int) -> Act:
        """The greedy policy of a round."""
        import jax

        from srgdqn.learner.normalisation import Normaliser, normalise_observation

        (row,) = self.rows_of([number])
        network = self._network()
        parameters = self._fill(network, row)
        normaliser = Normaliser(self._moments(row), None, None)

        @jax.jit
        def act(rows: Any) -> Any:
            return network.q_values(parameters, normalise_observation(normaliser, rows)).argmax(-1)

        table = self._action_table()

        def policy(observation: Any) -> Any:
            rows, single = self._as_rows(observation)
            actions = np.asarray(act(rows))
            if table is not None:
                chosen = [table[action] for action in actions]
                return chosen[0] if single else np.array(chosen)
            return int(actions[0]) if single else actions

        return policy

    def play_compiled(self, rows: np.ndarray, environment: Any, seed: int, episodes: int) -> tuple[Any, str]:
        """Episodes of some rounds' policies in a compiled task, and what counts as success there."""
        import jax

        from srgdqn.learner.normalisation import Normaliser
        from srgdqn.results.prepare import task_of
        from srgdqn.training.evaluation import evaluate_greedily, evaluation_keys

        configuration, network = self.run.configuration, self._network()
        if environment is None and configuration.task.task not in PRESETS:
            raise _environment_missing(configuration.task.task)
        task = task_of(configuration, environment)
        keys = evaluation_keys(seed, episodes)

        def play(parameters: Any, moments: Any) -> Any:
            return evaluate_greedily(task, network, parameters, Normaliser(moments, None, None), keys)

        played = jax.jit(jax.vmap(play))(self._fill(network, rows), self._moments(rows))
        return jax.tree.map(np.asarray, played), task.success

    def play_on_host(self, rows: np.ndarray, environment: Any, seed: int, episodes: int) -> Any:
        """Episodes of some rounds' policies in a Gymnasium environment."""
        import jax

        from srgdqn.adapters.environments import Source, source_of
        from srgdqn.learner.normalisation import Normaliser
        from srgdqn.training.host.evaluation import evaluate_policies, policy_of, same_task

        name = self.run.configuration.task.task
        if environment is None and not is_identifier(name):
            raise _environment_missing(name)
        source = (
            environment if isinstance(environment, Source) else source_of(name if environment is None else environment)
        )
        task = same_task(self.run.configuration, source, self.run.provenance)
        network = self._network()
        policies = (
            policy_of(network, self._fill(network, row), Normaliser(self._moments(row), None, None)) for row in rows
        )
        played = list(evaluate_policies(task, policies, seed=seed, episodes=episodes))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *played)

    def _network(self) -> Network:
        from srgdqn.learner.networks import make_network

        settings = self.run.configuration.network
        if settings.network not in NETWORKS and self.user_network is None:
            raise InputError(
                f"the network of this run is the module {settings.network!r}, which is not stored with it. Give it "
                "again: srgdqn.load(folder, network=…)."
            )
        about = self.run.provenance
        images = about.get("observation_kind") == "image"
        shape = tuple(required(about, "observation_shape")) if images else required(about, "observation_size")
        return make_network(settings, shape, required(about, "actions"), self.user_network)

    def _fill(self, network: Network, row: int | np.ndarray) -> Any:
        """The stored parameters of one round, or of several stacked, as the network's own tree."""
        import equinox as eqx
        import jax

        shapes = eqx.filter_eval_shape(network.init, jax.random.key(0))
        stored = self.run.parameters

        def leaf(path: Any, shape: Any) -> np.ndarray:
            name = "network." + jax.tree_util.keystr(path, simple=True, separator=".")
            found = stored.get(name)
            if found is None or found.shape[1:] != shape.shape or found.dtype.kind != "f":
                got = "nothing" if found is None else f"an array of shape {found.shape[1:]}"
                raise InputError(
                    f"the run holds {got} for the network's {name.removeprefix('network.')}, which has shape "
                    f"{shape.shape}. Give the module that the run was trained with."
                )
            return found[row]

        return jax.tree_util.tree_map_with_path(leaf, shapes)

    def _moments(self, rows: Any) -> Moments | None:
        """The statistics that observations are normalised with, if they are."""
        from srgdqn.learner.normalisation import Moments

        stored = self.run.parameters
        if "normaliser.mean" not in stored:
            return None
        size = required(self.run.provenance, "observation_size")
        shapes = {"weight": (), "mean": (size,), "variance": (size,)}
        for name in Moments._fields:
            found = stored.get(f"normaliser.{name}")
            if found is None or found.shape[1:] != shapes[name] or found.dtype.kind != "f":
                raise InputError(f"the run's observations are normalised, but its {name} is none: it is damaged.")
        return Moments(*(stored[f"normaliser.{name}"][rows] for name in Moments._fields))

    def _action_table(self) -> tuple[Any, ...] | None:
        """The actions that indices stand for; None if they stand for themselves."""
        stored = self.run.provenance.get("action_table")
        if stored is None:
            return None
        from srgdqn.adapters.spaces import Actions

        table = Actions.from_metadata(stored, required(self.run.provenance, "action_type")).table
        if len(table) != required(self.run.provenance, "actions"):
            raise InputError(f"this run records {len(table)} actions and another number of them: it is damaged.")
        return table

    def _as_rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Observations as the network reads them, in rows, and whether there was only one."""
        stored, size = self.run.provenance.get("observations"), required(self.run.provenance, "observation_size")
        if stored is not None:
            from srgdqn.adapters.spaces import Observations, as_rows

            reading = Observations.from_metadata(stored)
            if reading.size != size or list(reading.shape) != self.run.provenance.get("observation_shape"):
                raise InputError("this run records two kinds of observations: it is damaged.")
            return as_rows(reading, observation)
        dtype = next(iter(self.run.parameters.values())).dtype
        try:
            given = np.asarray(observation)
            if given.ndim == 0 and np.issubdtype(given.dtype, np.integer) and 0 <= given < size:
                return (np.arange(size) == given).astype(dtype)[None], True
            given = given.astype(dtype)
        except (TypeError, ValueError) as error:
            raise InputError(f"the observation is no array of numbers ({error}). Give an array of {size}.") from error
        if given.ndim >= 2 and math.prod(given.shape[1:]) == size:
            return given.reshape(-1, size), False
        if given.size == size and given.ndim >= 1:
            return given.reshape(1, size), True
        raise InputError(f"the observation has shape {given.shape}; the policy expects ({size},), or (rows, {size}).")


def _environment_missing(name: str) -> InputError:
    return InputError(
        f"the task of this run is the environment {name!r}, which is not stored with it. Give it again: "
        "result.evaluate(environment=…)."
    )


def _span(known: list[int]) -> str:
    if not known:
        return "none: it was interrupted before any began"
    return f"{known[0]} to {known[-1]}" if known == list(range(known[0], known[-1] + 1)) else str(known)
