"""`Result`, what training returns: tables, a policy per round, saving and loading."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.results.policies import Act, RoundPolicies
from srgdqn.runs.run import Run, load, save
from srgdqn.runs.tables import frame

if TYPE_CHECKING:
    import equinox as eqx
    from gymnasium.experimental.functional import FuncEnv

    from srgdqn.adapters.environments import Environment, Source
    from srgdqn.learner.networks import NetworkFactory


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A finished or interrupted run: `srgdqn.train` and `srgdqn.load` return one.

    Tables (`curves`, `episodes`, `evaluations`, `rounds`, `timings`) are polars data frames; `srgdqn.runs.tables`
    describes their columns. A round that diverged is in `rounds` with the step at which it did (`diverged_at`).
    """

    run: Run
    """Configuration, tables, parameters and provenance, as they are stored."""
    user_network: eqx.Module | NetworkFactory | None = None
    """The user's own network, where the run was trained with one."""
    user_environment: FuncEnv | Source | None = None
    """The user's own environment, likewise."""

    def __repr__(self) -> str:
        task, algorithm = self.configuration.task.task, self.configuration.algorithm
        count, state = self.rounds.height, ", interrupted" if self.interrupted else ""
        return f"<Result of {algorithm} on {task}: {count} round{'' if count == 1 else 's'}{state}>"

    @property
    def configuration(self) -> Configuration:
        """The value of every option of the run."""
        return self.run.configuration

    @property
    def interrupted(self) -> bool:
        """Whether training was stopped before the budget was spent."""
        return bool(self.run.provenance.get("interrupted", False))

    @property
    def on_host(self) -> bool:
        """Whether it was trained in an ordinary Gymnasium environment."""
        return "observations" in self.run.provenance

    @property
    def curves(self) -> pl.DataFrame:
        """One row per round and window of environment steps."""
        return self._stored_table("curves")

    @property
    def episodes(self) -> pl.DataFrame:
        """One row per episode of training."""
        return self._stored_table("episodes")

    @property
    def evaluations(self) -> pl.DataFrame:
        """One row per episode of greedy evaluation on the raw reward."""
        return self._stored_table("evaluations")

    @property
    def rounds(self) -> pl.DataFrame:
        """One row per round: what it spent, and whether it diverged."""
        return self._stored_table("rounds")

    @property
    def timings(self) -> pl.DataFrame:
        """Wall-clock seconds; the only table that differs between two runs of the same configuration."""
        return self._stored_table("timings")

    def _stored_table(self, name: str) -> pl.DataFrame:
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
        best = int(means["round"][int(np.argmax(means["return"].to_numpy()))])
        if best not in self.rounds["round"]:
            raise InputError(f"this run has evaluations of round {best}, but no such round: it is damaged.")
        return best

    def policy(self, number: int) -> Act:
        """The greedy policy of a round: a function from an observation to an action, or from rows of them to actions.

        It takes observations as the environment gives them (several dimensions are flattened, a number of a Discrete
        space is made one-hot, as in training) and returns actions as a Gymnasium environment takes them; for compiled
        tasks, their indices.
        """
        return self._policies.policy(number)

    def parameters_of(self, number: int) -> dict[str, np.ndarray]:
        """The stored arrays of a round by path, such as `network.layers.0.weight`."""
        (row,) = self._policies.rows_of([number])
        return {name: array[row] for name, array in self.run.parameters.items()}

    def evaluate(
        self,
        *,
        episodes: int = 100,
        seed: int | None = None,
        rounds: Sequence[int] | None = None,
        environment: FuncEnv | Environment | None = None,
    ) -> pl.DataFrame:
        """Plays greedy episodes with the policies of rounds, on the raw reward, as the evaluations during training do.

        Args:
          episodes: per round.
          seed: of the episodes' starts, which depend on nothing else; by default the run's.
          rounds: their numbers; by default all.
          environment: the user's own, where the run was trained in one; also a function that makes it.

        Returns:
          A row per episode, with the columns of `evaluations`; `step` is how many steps the round was trained for.

        """
        if episodes < 1:
            raise InputError(f"episodes is {episodes}, but must be 1 or more. Give 100 for a steady mean.")
        chosen = self.rounds["round"].to_list() if rounds is None else list(rounds)
        if not chosen:
            raise InputError("there is no round to evaluate. Give a run that was not interrupted before any had begun.")
        policies = self._policies
        rows = policies.rows_of(chosen)
        given = self.user_environment if environment is None else environment
        seed = self.configuration.training.seed if seed is None else seed
        if self.on_host:
            played, success = policies.play_on_host(rows, given, seed, episodes), "none"
        else:
            played, success = policies.play_compiled(rows, given, seed, episodes)
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

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Saves the run in a new folder, atomically, and returns the folder."""
        return save(self.run, folder, overwrite=overwrite)

    @property
    def _policies(self) -> RoundPolicies:
        return RoundPolicies(self.run, self.rounds["round"].to_list(), self.user_network)


def load_result(folder: str | os.PathLike[str], *, network: eqx.Module | NetworkFactory | None = None) -> Result:
    """Loads the run in a folder. `network` is the user's own module, where the run was trained with one."""
    return Result(load(folder), network)
