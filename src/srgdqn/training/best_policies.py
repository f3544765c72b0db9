"""The best policy of each round so far, by the mean return of its evaluations: the first of equals.

An evaluation that chose a policy flatters it. So at the end of training both the best and the last policies play
episodes from starts of their own, of which no evaluation on the way had any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from srgdqn.runs.snapshots import Rows, Stream, Tensors
from srgdqn.training.evaluation import Evaluation

if TYPE_CHECKING:
    from srgdqn.training.loop import Rounds

_POLICY, _PLAYED = "policy.", "played."
_KINDS = {"total_reward": "f", "length": "i", "terminated": "b"}


class Played(NamedTuple):
    """Policies of every round, and what they came to on fresh starts."""

    policy: str  # one of `runs.tables.POLICIES_KEPT`
    blocks: np.ndarray  # done when each was evaluated
    means: np.ndarray  # mean returns of the evaluations that chose them; NaN where none did
    evaluation: Evaluation | None  # with an axis of rounds first; None where nothing was played


class BestPolicies:
    """The best policy of each of some rounds, found by offering every evaluation."""

    def __init__(self, rounds: int, present: Callable[[], Tensors]) -> None:
        """Of so many rounds, whose policies of the moment `present` gives by path, with an axis of rounds first."""
        self._present = present
        self.made_at = np.full(rounds, -1, np.int64)
        """When each was evaluated, in whatever `offer` counts; -1 where none has been."""
        self.means = np.full(rounds, -np.inf)
        """The mean returns of these evaluations."""
        self.policies: Tensors = {}
        """Their arrays; nothing before the first evaluation."""
        self._played: dict[str, Evaluation] = {}

    def offer(self, made_at: int, returns: npt.ArrayLike) -> np.ndarray:
        """Takes in an evaluation of the present policies, whose returns have an axis of rounds first (which spare lanes
        may follow): which rounds it is the best of so far. A mean that is NaN is none.
        """
        means = np.asarray(returns, np.float64)[: len(self.means)].mean(axis=1)
        better = means > self.means
        if better.any():
            for path, array in self._present().items():
                kept = self.policies.setdefault(path, np.zeros_like(array))
                kept[better] = array[better]
            self.made_at[better], self.means[better] = made_at, means[better]
        return better

    def filled(self, last: Tensors) -> Tensors:
        """The best policies, with the last one of every round that was never evaluated."""
        missing = self.made_at < 0
        if missing.all():
            return last
        return {path: _chosen(missing, array, self.policies[path]) for path, array in last.items()}

    def play_afresh(self, rounds: Rounds) -> None:
        """Evaluates the last and the best policies of rounds that have ended on fresh starts."""
        last, acting = rounds.policies(), rounds.acting_policies()
        best = self.filled(last)
        played = {"last": rounds.play_afresh(last)}
        same = all(np.array_equal(array, best[path]) for path, array in last.items())
        played["best"] = played["last"] if same else rounds.play_afresh(best)
        if acting is not None:
            played["acting"] = rounds.play_afresh(acting)
        self._played = {name: evaluation for name, evaluation in played.items() if evaluation is not None}

    def forget_played(self) -> None:
        """Forgets what was played, as training goes on."""
        self._played = {}

    def played(self, blocks: int, lanes: slice, *, acting: bool) -> list[Played]:
        """What became of the policies of some rounds, after so many blocks in all."""
        ended, nothing = np.full(len(self.means), blocks), np.full(len(self.means), np.nan)
        found = self.made_at >= 0
        kept = {"last": (ended, nothing), "best": (np.where(found, self.made_at, ended), self.means)}
        kept |= {"acting": (ended, nothing)} if acting else {}
        return [
            Played(name, at[lanes], np.where(found, means, np.nan)[lanes], self._rows(name, lanes))
            for name, (at, means) in kept.items()
        ]

    def _rows(self, name: str, lanes: slice) -> Evaluation | None:
        played = self._played.get(name)
        return None if played is None else jax.tree.map(lambda column: np.asarray(column)[lanes], played)

    # For checkpoints

    def state(self) -> tuple[Tensors, dict[str, Stream]]:
        """Everything that `restore` needs."""
        tensors = {"made_at": self.made_at.copy(), "means": self.means.copy()}
        tensors |= {f"{_POLICY}{path}": array.copy() for path, array in self.policies.items()}
        for name, played in self._played.items():
            tensors |= {f"{_PLAYED}{name}.{field}": np.asarray(each) for field, each in played._asdict().items()}
        return tensors, {}

    def take(self, name: str, first: int, rows: Rows) -> None:
        """It has no rows."""
        raise ValueError(f"it has rows {first} and on of {name}, {sorted(rows)}, of best policies")

    def restore(self, tensors: Tensors) -> None:
        """Takes in what `state` gave, once the rounds are restored; a ValueError or KeyError where it does not fit."""
        made_at, means = tensors["made_at"], tensors["means"]
        for name, found, like in (("made_at", made_at, self.made_at), ("means", means, self.means)):
            _check(name, found, like)
        known = made_at >= 0
        if not (np.isfinite(means) == known).all() or not ((made_at >= -1) & (made_at < 2**31)).all():
            raise ValueError("its best policies are of impossible evaluations")
        policies = _below(_POLICY, tensors)
        if known.any():
            present = self._present()
            if policies.keys() != present.keys():
                raise ValueError("its best policies have other arrays")
            for path, like in present.items():
                _check(path, policies[path], like)
        elif policies:
            raise ValueError("it has best policies of no evaluation")
        self.made_at, self.means = made_at.copy(), means.copy()
        self.policies = {path: array.copy() for path, array in policies.items()}
        self._played = _played_in(tensors, len(means))


def _chosen(where: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(where.reshape(-1, *[1] * (one.ndim - 1)), one, other)


def _below(start: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(start): array for name, array in tensors.items() if name.startswith(start)}


def _check(name: str, found: np.ndarray, like: np.ndarray) -> None:
    if found.shape != like.shape or found.dtype != like.dtype:
        raise ValueError(f"it has {found.dtype} of shape {found.shape} for {name} of the best policies")


def _played_in(tensors: Tensors, rounds: int) -> dict[str, Evaluation]:
    columns = _below(_PLAYED, tensors)
    played = {}
    for name in dict.fromkeys(path.rpartition(".")[0] for path in columns):
        found = {field: columns[f"{name}.{field}"] for field in Evaluation._fields}
        shape = found["length"].shape
        for field, array in found.items():
            if array.shape != shape or array.ndim != 2 or len(array) != rounds or array.dtype.kind != _KINDS[field]:
                raise ValueError(f"it has {array.dtype} of shape {array.shape} for the {field} of its {name} policies")
        played[name] = Evaluation(**found)  # type: ignore[arg-type]  # NumPy's arrays serve as well
    return played
