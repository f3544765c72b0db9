"""What training gives back: tidy tables, a policy per round, and the way to and from a folder."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.network import BUILT_IN_NETWORKS
from srgdqn.config.presets import PRESETS
from srgdqn.errors import InputError
from srgdqn.runs.metadata import required
from srgdqn.runs.run import Run, load, save
from srgdqn.runs.tables import frame

if TYPE_CHECKING:
    import equinox as eqx
    from gymnasium.experimental.functional import FuncEnv

    from srgdqn.adapters.environments import Environment, Source
    from srgdqn.learner.networks import Network, NetworkFactory
    from srgdqn.learner.normalisation import Moments

Policy = Callable[[Any], Any]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A finished (or interrupted) run.

    Tables are polars data frames whose columns `srgdqn.runs.tables` describes.
    """

    run: Run
    user_network: eqx.Module | NetworkFactory | None = None
    user_environment: FuncEnv | Source | None = None

    def __repr__(self) -> str:
        task, algorithm = self.configuration.task.task, self.configuration.algorithm
        state = ", interrupted" if self.run.provenance.get("interrupted") else ""
        return f"<Result of {algorithm} on {task}: {self.rounds.height} rounds{state}>"

    @property
    def configuration(self) -> Configuration:
        """Everything that decided the run."""
        return self.run.configuration

    @property
    def on_host(self) -> bool:
        """Whether it was trained in an ordinary Gymnasium environment."""
        return "observations" in self.run.provenance

    @property
    def curves(self) -> pl.DataFrame:
        """One row per round and window of environment steps."""
        return self._recorded("curves")

    @property
    def episodes(self) -> pl.DataFrame:
        """One row per episode of training."""
        return self._recorded("episodes")

    @property
    def evaluations(self) -> pl.DataFrame:
        """One row per episode of greedy evaluation on the raw reward."""
        return self._recorded("evaluations")

    @property
    def rounds(self) -> pl.DataFrame:
        """One row per round: what it spent, and whether it diverged."""
        return self._recorded("rounds")

    @property
    def timings(self) -> pl.DataFrame:
        """Wall-clock seconds: the only table that differs between two runs of the same configuration."""
        return self._recorded("timings")

    def _recorded(self, name: str) -> pl.DataFrame:
        if name not in self.run.tables:
            raise InputError(f"this run has no table of {name}: it is damaged. Restore it from a copy.")
        return self.run.tables[name]

    @property
    def best(self) -> int:
        """The round whose last greedy evaluation has the highest mean return (the first of equals)."""
        if self.evaluations.is_empty():
            raise InputError("no round of this run was evaluated before it was interrupted, so that none is the best.")
        last = self.evaluations.filter(pl.col("step") == pl.col("step").max().over("round"))
        means = last.group_by("round", maintain_order=True).agg(pl.col("return").mean())
        return int(means["round"][int(np.argmax(means["return"].to_numpy()))])

    def policy(self, number: int) -> Policy:
        """The greedy policy of a round: from an observation to an action, or from rows of observations to actions.

        Observations are as the environment gives them: one of several dimensions is flattened, and one that is a number
        (of a Discrete space) is made one-hot, as in training. Actions are as a Gymnasium environment takes them, and
        indices for the compiled tasks.
        """
        import jax

        from srgdqn.learner.normalisation import Normaliser, normalise_observation

        (row,) = self._rows_of([number])
        network = self._network()
        parameters = self._fill(network, row)
        normaliser = Normaliser(self._moments(row), None, None)

        @jax.jit
        def act(rows: Any) -> Any:
            return network.q_values(parameters, normalise_observation(normaliser, rows)).argmax(-1)

        table = self._table

        def policy(observation: Any) -> Any:
            rows, single = self._as_rows(observation)
            actions = np.asarray(act(rows))
            if table is not None:
                chosen = [table[action] for action in actions]
                return chosen[0] if single else np.array(chosen)
            return int(actions[0]) if single else actions

        return policy

    def parameters_of(self, number: int) -> dict[str, np.ndarray]:
        """The stored arrays of a round by path, such as `network.layers.0.weight`."""
        (row,) = self._rows_of([number])
        return {name: array[row] for name, array in self.run.parameters.items()}

    def evaluate(
        self,
        *,
        episodes: int = 100,
        seed: int | None = None,
        rounds: Sequence[int] | None = None,
        environment: FuncEnv | Environment | None = None,
    ) -> pl.DataFrame:
        """Plays episodes greedily with the policies of some rounds (by default of all), on the raw reward.

        The protocol is that of the evaluations during training, and so are the columns; `step` is the steps that a
        round was trained for. The starts depend on `seed` (by default the run's) and the episode's number alone.
        `environment` is the user's own, where the run was trained in one (also as a function
        that makes it).
        """
        if episodes < 1:
            raise InputError(f"episodes is {episodes}, but must be 1 or more. Give 100 for a steady mean.")
        chosen = self.rounds["round"].to_list() if rounds is None else list(rounds)
        if not chosen:
            raise InputError("there is no round to evaluate. Give a run that was not interrupted before any had begun.")
        rows = self._rows_of(chosen)

        seed = self.configuration.training.seed if seed is None else seed
        if self.on_host:
            played, success = self._play_on_host(rows, environment, seed, episodes), "none"
        else:
            played, success = self._play_compiled(rows, environment, seed, episodes)
        ended = ~played.terminated if success == "truncation" else played.terminated
        return frame(
            "evaluations",
            {
                "round": np.repeat(np.array(chosen, np.int32), episodes),
                "step": np.repeat(self.rounds["steps"].to_numpy()[rows], episodes),
                "episode": np.tile(np.arange(episodes, dtype=np.int32), len(chosen)),
                "return": played.total_reward.ravel().astype(np.float64),
                "length": played.length.ravel().astype(np.int32),
                "success": [None] * ended.size if success == "none" else ended.ravel(),
            },
        )

    def _play_compiled(self, rows: np.ndarray, environment: Any, seed: int, episodes: int) -> tuple[Any, str]:
        """Episodes of some rounds' policies in a compiled task, and what its success is."""
        import jax

        from srgdqn import tasks
        from srgdqn.learner.normalisation import Normaliser
        from srgdqn.training.evaluation import evaluate_greedily, evaluation_keys

        settings, network = self.configuration.task, self._network()
        environment = environment or self.user_environment
        if environment is None and settings.task not in PRESETS:
            raise InputError(
                f"the task of this run is the environment {settings.task!r}, which is not stored with it. Give it "
                "again: result.evaluate(environment=…)."
            )
        task = (
            tasks.make(settings)
            if environment is None
            else tasks.adopt(environment, name=settings.task, time_limit=settings.time_limit)
        )
        task = tasks.judged_for(task, self.configuration.training.evaluation_limit)
        keys = evaluation_keys(seed, episodes)

        def play(parameters: Any, moments: Any) -> Any:
            return evaluate_greedily(task, network, parameters, Normaliser(moments, None, None), keys)

        played = jax.jit(jax.vmap(play))(self._fill(network, rows), self._moments(rows))
        return jax.tree.map(np.asarray, played), task.success

    def _play_on_host(self, rows: np.ndarray, environment: Any, seed: int, episodes: int) -> Any:
        """Episodes of some rounds' policies in a Gymnasium environment."""
        import jax

        from srgdqn.adapters.environments import source_of
        from srgdqn.learner.normalisation import Normaliser
        from srgdqn.training.host.stored_policies import evaluate_policies, policy_of, same_task

        name = self.configuration.task.task
        if environment is not None:
            source: Any = source_of(environment)
        elif self.user_environment is not None:
            source = self.user_environment
        elif is_identifier(name):
            source = source_of(name)
        else:
            raise InputError(
                f"the task of this run is the environment {name!r}, which is not stored with it. Give it again: "
                "result.evaluate(environment=…)."
            )
        task = same_task(self.configuration, source, self.run.provenance)
        network = self._network()
        policies = (
            policy_of(network, self._fill(network, row), Normaliser(self._moments(row), None, None)) for row in rows
        )
        played = list(evaluate_policies(task, policies, seed=seed, episodes=episodes))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *played)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes the run to a new folder, whole or not at all."""
        return save(self.run, folder, overwrite=overwrite)

    @property
    def _table(self) -> tuple[Any, ...] | None:
        """What the actions' indices stand for; None if nothing but themselves."""
        told = self.run.provenance.get("action_table")
        if told is None:
            return None
        from srgdqn.adapters.spaces import Actions

        table = Actions.told(told, required(self.run.provenance, "action_type")).table
        if len(table) != required(self.run.provenance, "actions"):
            raise InputError(f"this run tells of {len(table)} actions and of another number of them: it is damaged.")
        return table

    def _rows_of(self, numbers: Sequence[int]) -> np.ndarray:
        """Where the rounds of these numbers stand in the stored arrays."""
        known = self.rounds["round"].to_list()
        for number in numbers:
            if number not in known:
                raise InputError(f"there is no round {number!r} in this run. Give one of {_span(known)}.")
        rows = np.array([known.index(number) for number in numbers], dtype=int)
        stored = min((len(array) for array in self.run.parameters.values()), default=0)
        if rows.size and rows.max() >= stored:
            raise InputError(f"this run has {len(known)} rounds, and the parameters of {stored}: it is damaged.")
        return rows

    def _moments(self, rows: Any) -> Moments | None:
        """The statistics that observations were normalised with, where they were."""
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

    def _network(self) -> Network:
        from srgdqn.learner.networks import make_network

        settings = self.configuration.network
        if settings.network not in BUILT_IN_NETWORKS and self.user_network is None:
            raise InputError(
                f"the network of this run is the module {settings.network!r}, which is not stored with it. Give it "
                "again: srgdqn.load(folder, network=…)."
            )
        told = self.run.provenance
        images = told.get("observation_kind") == "image"
        shape = tuple(required(told, "observation_shape")) if images else required(told, "observation_size")
        return make_network(settings, shape, required(told, "actions"), self.user_network)

    def _fill(self, network: Network, row: int | np.ndarray) -> Any:
        """The stored parameters of one round, or of several stacked, in the network's own form."""
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

    def _as_rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Observations as a network reads them, in rows, and whether there was but one."""
        told, size = self.run.provenance.get("observations"), required(self.run.provenance, "observation_size")
        if told is not None:
            from srgdqn.adapters.spaces import Observations, as_rows

            reading = Observations.told(told)
            if reading.size != size or list(reading.shape) != self.run.provenance.get("observation_shape"):
                raise InputError("this run tells of two kinds of observations: it is damaged.")
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


def load_result(folder: str | os.PathLike[str], *, network: eqx.Module | NetworkFactory | None = None) -> Result:
    """The result in a run's folder. `network` is the user's own module, where the run was trained with one."""
    return Result(load(folder), network)


def _span(known: list[int]) -> str:
    if not known:
        return "none: it was interrupted before any began"
    return f"{known[0]} to {known[-1]}" if known == list(range(known[0], known[-1] + 1)) else str(known)
