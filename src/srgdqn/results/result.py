"""`Result`, what training returns: tables, a policy per round made of its stored parameters, saving and loading."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.config.discovery import NETWORKS
from srgdqn.config.identifiers import is_identifier
from srgdqn.config.presets import PRESETS
from srgdqn.errors import InputError, unknown
from srgdqn.runs.provenance import required
from srgdqn.runs.run import Run, load, save
from srgdqn.runs.tables import DIRECTIONS, POLICIES, frame
from srgdqn.runs.tensors import Tensors

if TYPE_CHECKING:
    import equinox as eqx
    from gymnasium.experimental.functional import FuncEnv

    from srgdqn.adapters.environments import Environment, Source
    from srgdqn.learner.networks import Network, NetworkFactory
    from srgdqn.learner.normalisation import Normaliser

Act = Callable[..., Any]
"""From an observation to an action."""

Which: TypeAlias = Literal["last", "best"]
"""A round's last policy, or the best of its evaluations on the way."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A finished or interrupted run: `srgdqn.train` and `srgdqn.load` return one.

    Tables (`curves`, `episodes`, `evaluations`, `rounds`, `timings`, `directions`, `policies`) are polars data frames;
    `srgdqn.runs.tables` describes their columns. A round that diverged is in `rounds` with the step at which it did
    (`diverged_at`).
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

    @property
    def directions(self) -> pl.DataFrame:
        """How far the estimator's direction was from the gradient at each evaluation of each round, where that was
        measured (`direction_errors`); no rows elsewhere.
        """
        found = self.run.tables.get("directions")
        return frame("directions", dict.fromkeys(DIRECTIONS, ())) if found is None else found

    @property
    def policies(self) -> pl.DataFrame:
        """What each round's last and best policy come to on fresh starts, where the best are kept (`keep_best`); no
        rows elsewhere.
        """
        found = self.run.tables.get("policies")
        return frame("policies", dict.fromkeys(POLICIES, ())) if found is None else found

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

    def policy(self, number: int, which: Which = "last") -> Act:
        """The greedy policy of a round: a function from an observation to an action, or from rows of them to actions.

        It is the round's last one or, where they are kept, the best of its evaluations on the way.

        It takes observations as the environment gives them (several dimensions are flattened, a number of a Discrete
        space is made one-hot, as in training) and returns actions as a Gymnasium environment takes them; for compiled
        tasks, their indices. With `action_masks`, what `info["action_mask"]` has or rows of it, only such actions.
        """
        import jax

        from srgdqn.adapters.action_masks import given_masks
        from srgdqn.learner.exploration import best_actions
        from srgdqn.learner.normalisation import normalise_observation

        (row,) = self._rows_of([number])
        network = self._network()
        arrays = self._arrays(which)
        parameters = _filled(arrays, network, row)
        normaliser = self._normaliser(arrays, row)

        @jax.jit
        def act(rows: Any, masks: Any = None) -> Any:
            return best_actions(network.q_values(parameters, normalise_observation(normaliser, rows)), masks)

        table = _action_table(self.run)

        def policy(observation: Any, action_masks: Any = None) -> Any:
            rows, single = _as_rows(self.run, observation)
            count = required(self.run.provenance, "actions")
            masks = () if action_masks is None else (given_masks(action_masks, len(rows), single, count),)
            actions = np.asarray(act(rows, *masks))
            if table is not None:
                chosen = [table[action] for action in actions]
                return chosen[0] if single else np.array(chosen)
            return int(actions[0]) if single else actions

        return policy

    def parameters_of(self, number: int, which: Which = "last") -> dict[str, np.ndarray]:
        """The stored arrays of a round by path, such as `network.layers.0.weight`."""
        (row,) = self._rows_of([number])
        return {name: array[row] for name, array in self._arrays(which).items()}

    def evaluate(
        self,
        *,
        episodes: int = 100,
        seed: int | None = None,
        rounds: Sequence[int] | None = None,
        environment: FuncEnv | Environment | None = None,
        which: Which = "last",
    ) -> pl.DataFrame:
        """Plays greedy episodes with the policies of rounds, on the raw reward, as the evaluations during training do.

        Args:
          episodes: per round.
          seed: of the episodes' starts, which depend on nothing else; by default the run's.
          rounds: their numbers; by default all.
          environment: the user's own, where the run was trained in one; also a function that makes it.
          which: of each round, its last or its best policy.

        Returns:
          A row per episode, with the columns of `evaluations`; `step` is how many steps the policy was trained for.

        """
        if episodes < 1:
            raise InputError(f"episodes is {episodes}, but must be 1 or more. Give 100 for a steady mean.")
        chosen = self.rounds["round"].to_list() if rounds is None else list(rounds)
        if not chosen:
            raise InputError("there is no round to evaluate. Give a run that was not interrupted before any had begun.")
        rows, arrays = self._rows_of(chosen), self._arrays(which)
        given = self.user_environment if environment is None else environment
        seed = self.configuration.training.seed if seed is None else seed
        if self.on_host:
            played, success = self._play_on_host(arrays, rows, given, seed, episodes), "none"
        else:
            played, success = self._play_compiled(arrays, rows, given, seed, episodes)
        ended = ~played.terminated if success == "truncation" else played.terminated
        return frame(
            "evaluations",
            {
                "round": np.repeat(np.array(chosen, np.int32), episodes),
                "step": np.repeat(self._steps_of(chosen, which), episodes),
                "episode": np.tile(np.arange(episodes, dtype=np.int32), len(chosen)),
                "return": played.total_reward.ravel().astype(np.float64),
                "length": played.length.ravel().astype(np.int32),
                "success": [None] * ended.size if success == "none" else ended.ravel(),
            },
        )

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Saves the run in a new folder, atomically, and returns the folder."""
        return save(self.run, folder, overwrite=overwrite)

    def _arrays(self, which: Which) -> Tensors:
        """The stored arrays of all rounds' last or best policies."""
        if which not in ("last", "best"):
            raise unknown("policy", which, ("last", "best"))
        if which == "last":
            return self.run.parameters
        if not self.run.best:
            raise InputError(
                "this run has no best policies: it was trained without keep_best (--keep-best), and has the last one "
                "of each round alone. Give which='last' (--which last), or train it again with keep_best."
            )
        return self.run.best

    def _steps_of(self, numbers: Sequence[int], which: Which) -> np.ndarray:
        """The steps that these rounds' policies were trained for."""
        made = self.rounds.select("round", "steps")
        if which == "best":
            made = self.policies.filter(pl.col("policy") == "best").select("round", "step")
        steps = dict(made.iter_rows())
        missing = [number for number in numbers if number not in steps]
        if missing:
            raise InputError(f"this run's table of policies has no best one of round {missing[0]}: it is damaged.")
        return np.array([steps[number] for number in numbers], np.int64)

    def _rows_of(self, numbers: Sequence[int]) -> np.ndarray:
        """The rows of these rounds in the stored arrays."""
        known = self.rounds["round"].to_list()
        for number in numbers:
            if number not in known:
                raise InputError(f"there is no round {number!r} in this run. Give one of {_span(known)}.")
        rows = np.array([known.index(number) for number in numbers], dtype=int)
        stored = min((len(array) for array in self.run.parameters.values()), default=0)
        if rows.size and rows.max() >= stored:
            raise InputError(f"this run has {len(known)} rounds, and the parameters of {stored}: it is damaged.")
        return rows

    def _play_compiled(
        self, arrays: Tensors, rows: np.ndarray, environment: Any, seed: int, episodes: int
    ) -> tuple[Any, str]:
        """Episodes of some rounds' policies in a compiled task, and what counts as success there."""
        import jax

        from srgdqn.tasks import task_of
        from srgdqn.training.evaluation import evaluate_greedily, evaluation_keys

        configuration, network = self.configuration, self._network()
        if environment is None and configuration.task.task not in PRESETS:
            raise _environment_missing(configuration.task.task)
        task = task_of(configuration, environment)
        keys = evaluation_keys(seed, episodes)

        def play(parameters: Any, normaliser: Any) -> Any:
            return evaluate_greedily(task, network, parameters, normaliser, keys)

        played = jax.jit(jax.vmap(play))(_filled(arrays, network, rows), self._normaliser(arrays, rows))
        return jax.tree.map(np.asarray, played), task.success

    def _play_on_host(self, arrays: Tensors, rows: np.ndarray, environment: Any, seed: int, episodes: int) -> Any:
        """Episodes of some rounds' policies in a Gymnasium environment."""
        import jax

        from srgdqn.adapters.environments import Source, source_of
        from srgdqn.training.host.evaluation import evaluate_policies, policy_of, same_task

        name = self.configuration.task.task
        if environment is None and not is_identifier(name):
            raise _environment_missing(name)
        source = (
            environment if isinstance(environment, Source) else source_of(name if environment is None else environment)
        )
        task = same_task(self.configuration, source, self.run.provenance)
        network = self._network()
        policies = (policy_of(network, _filled(arrays, network, row), self._normaliser(arrays, row)) for row in rows)
        played = list(evaluate_policies(task, policies, seed=seed, episodes=episodes))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *played)

    def _normaliser(self, stored: Tensors, rows: Any) -> Normaliser:
        """What observations are normalised with, if they are: statistics or constants."""
        from srgdqn.learner.normalisation import Moments, Normaliser, Scale

        if "normaliser.mean" not in stored:
            return Normaliser(None, None, None)
        kind = Scale if "normaliser.deviation" in stored else Moments
        size = required(self.run.provenance, "observation_size")
        for name in kind._fields:
            found = stored.get(f"normaliser.{name}")
            if found is None or found.shape[1:] != (() if name == "weight" else (size,)) or found.dtype.kind != "f":
                raise InputError(f"the run's observations are normalised, but its {name} is none: it is damaged.")
        return Normaliser(kind(*(stored[f"normaliser.{name}"][rows] for name in kind._fields)), None, None)

    def _network(self) -> Network:
        from srgdqn.learner.networks import make_network

        settings = self.configuration.network
        if settings.network not in NETWORKS and self.user_network is None:
            raise InputError(
                f"the network of this run is the module {settings.network!r}, which is not stored with it. Give it "
                "again: srgdqn.load(folder, network=…)."
            )
        about = self.run.provenance
        images = about.get("observation_kind") == "image"
        shape = tuple(required(about, "observation_shape")) if images else required(about, "observation_size")
        atoms = self.configuration.gradients.outputs_per_action
        return make_network(settings, shape, required(about, "actions"), self.user_network, atoms=atoms)


def load_result(folder: str | os.PathLike[str], *, network: eqx.Module | NetworkFactory | None = None) -> Result:
    """Loads the run in a folder. `network` is the user's own module, where the run was trained with one."""
    return Result(load(folder), network)


def _filled(stored: Tensors, network: Network, row: int | np.ndarray) -> Any:
    """The stored parameters of one round, or of several stacked, as the network's own tree."""
    import equinox as eqx
    import jax

    shapes = eqx.filter_eval_shape(network.init, jax.random.key(0))

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


def _action_table(run: Run) -> tuple[Any, ...] | None:
    """The actions that indices stand for; None if they stand for themselves."""
    stored = run.provenance.get("action_table")
    if stored is None:
        return None
    from srgdqn.adapters.spaces import Actions

    table = Actions.from_metadata(stored, required(run.provenance, "action_type")).table
    if len(table) != required(run.provenance, "actions"):
        raise InputError(f"this run records {len(table)} actions and another number of them: it is damaged.")
    return table


def _as_rows(run: Run, observation: Any) -> tuple[np.ndarray, bool]:
    """Observations as the network reads them, in rows, and whether there was only one."""
    stored, size = run.provenance.get("observations"), required(run.provenance, "observation_size")
    if stored is not None:
        from srgdqn.adapters.spaces import Observations, as_rows

        reading = Observations.from_metadata(stored)
        if reading.size != size or list(reading.shape) != run.provenance.get("observation_shape"):
            raise InputError("this run records two kinds of observations: it is damaged.")
        return as_rows(reading, observation)
    dtype = next(iter(run.parameters.values())).dtype
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
