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

from srgdqn.errors import InputError
from srgdqn.presets import PRESETS
from srgdqn.settings import Configuration
from srgdqn.store.run import Run, load, save
from srgdqn.store.tables import frame

if TYPE_CHECKING:
    import equinox as eqx
    from gymnasium.experimental.functional import FuncEnv

    from srgdqn.networks import Network, NetworkFactory
    from srgdqn.normalisation import Moments

Policy = Callable[[Any], Any]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A finished (or interrupted) run.

    Tables are polars data frames whose columns `srgdqn.store.tables` describes.
    """

    run: Run
    user_network: eqx.Module | NetworkFactory | None = None
    user_environment: FuncEnv | None = None

    def __repr__(self) -> str:
        task, algorithm = self.configuration.task.task, self.configuration.algorithm
        state = ", interrupted" if self.run.provenance.get("interrupted") else ""
        return f"<Result of {algorithm} on {task}: {self.rounds.height} rounds{state}>"

    @property
    def configuration(self) -> Configuration:
        """Everything that decided the run."""
        return self.run.configuration

    @property
    def curves(self) -> pl.DataFrame:
        """One row per round and window of environment steps."""
        return self.run.tables["curves"]

    @property
    def episodes(self) -> pl.DataFrame:
        """One row per episode of training."""
        return self.run.tables["episodes"]

    @property
    def evaluations(self) -> pl.DataFrame:
        """One row per episode of greedy evaluation on the raw reward."""
        return self.run.tables["evaluations"]

    @property
    def rounds(self) -> pl.DataFrame:
        """One row per round: what it spent, and whether it diverged."""
        return self.run.tables["rounds"]

    @property
    def timings(self) -> pl.DataFrame:
        """Wall-clock seconds: the only table that differs between two runs of the same configuration."""
        return self.run.tables["timings"]

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

        An observation of several dimensions is flattened, and one that is a number (of a Discrete space that starts at
        0) is made one-hot, as in training.
        """
        import jax

        from srgdqn.normalisation import Normaliser, normalise_observation

        (row,) = self._rows_of([number])
        network = self._network()
        parameters = self._fill(network, row)
        normaliser = Normaliser(self._moments(row), None, None)

        @jax.jit
        def act(rows: Any) -> Any:
            return network.q_values(parameters, normalise_observation(normaliser, rows)).argmax(-1)

        def policy(observation: Any) -> Any:
            rows, single = self._as_rows(observation)
            actions = np.asarray(act(rows))
            return int(actions[0]) if single else actions

        return policy

    def evaluate(
        self,
        *,
        episodes: int = 100,
        seed: int | None = None,
        rounds: Sequence[int] | None = None,
        environment: FuncEnv | None = None,
    ) -> pl.DataFrame:
        """Plays episodes greedily with the policies of some rounds (by default of all), on the raw reward.

        The protocol is that of the evaluations during training, and so are the columns; `step` is the steps that a
        round was trained for. The starts depend on `seed` (by default the run's) and the episode's number alone.
        `environment` is the user's own, where the run was trained in one.
        """
        if episodes < 1:
            raise InputError(f"episodes is {episodes}, but must be 1 or more. Give 100 for a steady mean.")
        chosen = self.rounds["round"].to_list() if rounds is None else list(rounds)
        rows = self._rows_of(chosen)

        import jax

        from srgdqn import tasks
        from srgdqn.normalisation import Normaliser
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
        keys = evaluation_keys(self.configuration.training.seed if seed is None else seed, episodes)

        def play(parameters: Any, moments: Any) -> Any:
            return evaluate_greedily(task, network, parameters, Normaliser(moments, None, None), keys)

        played = jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(self._fill(network, rows), self._moments(rows)))
        success = ~played.terminated if task.success == "truncation" else played.terminated
        return frame(
            "evaluations",
            {
                "round": np.repeat(np.array(chosen, np.int32), episodes),
                "step": np.repeat(self.rounds["steps"].to_numpy()[rows], episodes),
                "episode": np.tile(np.arange(episodes, dtype=np.int32), len(chosen)),
                "return": played.total_reward.ravel().astype(np.float64),
                "length": played.length.ravel().astype(np.int32),
                "success": [None] * success.size if task.success == "none" else success.ravel(),
            },
        )

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes the run to a new folder, whole or not at all."""
        return save(self.run, folder, overwrite=overwrite)

    def _rows_of(self, numbers: Sequence[int]) -> np.ndarray:
        """Where the rounds of these numbers stand in the stored arrays."""
        known = self.rounds["round"].to_list()
        for number in numbers:
            if number not in known:
                raise InputError(f"there is no round {number!r} in this run. Give one of {_span(known)}.")
        return np.array([known.index(number) for number in numbers], dtype=int)

    def _moments(self, rows: Any) -> Moments | None:
        """The statistics that observations were normalised with, where they were."""
        from srgdqn.normalisation import Moments

        stored = self.run.parameters
        if "normaliser.mean" not in stored:
            return None
        return Moments(*(stored[f"normaliser.{name}"][rows] for name in Moments._fields))

    def _network(self) -> Network:
        from srgdqn.networks import make_network

        settings = self.configuration.network
        if settings.network != "mlp" and self.user_network is None:
            raise InputError(
                f"the network of this run is the module {settings.network!r}, which is not stored with it. Give it "
                "again: srgdqn.load(folder, network=…)."
            )
        size, actions = self.run.provenance["observation_size"], self.run.provenance["actions"]
        return make_network(settings, size, actions, self.user_network)

    def _fill(self, network: Network, row: int | np.ndarray) -> Any:
        """The stored parameters of one round, or of several stacked, in the network's own form."""
        import equinox as eqx
        import jax

        shapes = eqx.filter_eval_shape(network.init, jax.random.key(0))
        stored = self.run.parameters

        def leaf(path: Any, shape: Any) -> np.ndarray:
            name = "network." + jax.tree_util.keystr(path, simple=True, separator=".")
            found = stored.get(name)
            if found is None or found.shape[1:] != shape.shape:
                got = "nothing" if found is None else f"an array of shape {found.shape[1:]}"
                raise InputError(
                    f"the run holds {got} for the network's {name.removeprefix('network.')}, which has shape "
                    f"{shape.shape}. Give the module that the run was trained with."
                )
            return found[row]

        return jax.tree_util.tree_map_with_path(leaf, shapes)

    def _as_rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Observations as flat rows, and whether there was but one."""
        size = self.run.provenance["observation_size"]
        dtype = next(iter(self.run.parameters.values())).dtype
        try:
            given = np.asarray(observation)
            if given.ndim == 0 and np.issubdtype(given.dtype, np.integer) and 0 <= given < size:
                return np.eye(size, dtype=dtype)[[int(given)]], True
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
