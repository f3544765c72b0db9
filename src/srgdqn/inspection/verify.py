"""`srgdqn.verify`: a saved run compared with what its configuration gives here."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import numpy as np
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Environment
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.errors import InputError
from srgdqn.inspection.differences import (
    Condition,
    Difference,
    differing_conditions,
    only_sources,
    parameter_differences,
    table_differences,
)
from srgdqn.inspection.rerun import rerun
from srgdqn.inspection.saved_run import SavedRun, open_run
from srgdqn.inspection.segments import SegmentCheck, check_segments
from srgdqn.integrations.progress import reporting
from srgdqn.learner.networks import NetworkFactory
from srgdqn.tasks import Task
from srgdqn.training.host.rounds import train_on_host
from srgdqn.training.reports import Listener
from srgdqn.training.rounds import train_rounds
from srgdqn.training.tables import Tables

How = Literal["auto", "whole", "segments"]
Verdict = Literal["identical", "agrees", "differs", "undecided"]


@dataclass(frozen=True)
class Verification:
    """What was compared, and what was found."""

    run: str
    conditions: tuple[Condition, ...]
    """What differs here from when the run was made; equal bits are promised only where nothing does."""
    seed: int | None
    """The seed by which the round was chosen at random."""
    rounds: tuple[RoundCheck, ...]
    """Rounds that were compared to the bit."""
    segments: tuple[SegmentCheck, ...]
    """Segments that were compared within a bound."""

    @property
    def verdict(self) -> Verdict:
        """Identical to the bit; agrees within the bound of every segment; differs; or undecided, where some segment
        decides nothing. Under unchanged conditions, whatever is not identical differs.
        """
        if self.rounds:
            return "identical" if all(check.identical for check in self.rounds) else "differs"
        if all(check.identical for check in self.segments):
            return "identical"
        findings = {check.finding for check in self.segments}
        return "differs" if "differs" in findings else "undecided" if "undecided" in findings else "agrees"

    @property
    def holds(self) -> bool:
        """Whether the run was verified."""
        return self.verdict in ("identical", "agrees")


def verify(
    folder: str | os.PathLike[str],
    round: int | str | None = None,  # noqa: A002, as the paper's word is a builtin's name
    *,
    steps: int | None = None,
    how: How = "auto",
    seed: int | None = None,
    network: eqx.Module | NetworkFactory | None = None,
    environment: FuncEnv | Environment | None = None,
    progress: bool | None = None,
) -> Verification:
    """Recomputes a round of a saved run with its stored configuration, and compares the two.

    Args:
      folder: where the run was saved.
      round: the number of the round; `"all"` of them; by default one chosen at random.
      steps: recompute the first so many environment steps only.
      how: `whole` rounds to the bit; `segments` between checkpoints, within a bound (to the bit where conditions
        are as when the run was made); or `auto`: the latter only where versions, the compiler or the instruction set
        differ from those of the run.
      seed: chooses the round at random, in the same way every time.
      network: the user's own, where the run was trained with one.
      environment: likewise.
      progress: show a progress bar (by default where there is a terminal).

    Returns:
      What was compared, and the verdict.

    """
    saved = open_run(folder, network=network, environment=environment)
    numbers, seed = _chosen(saved, round, seed)
    if steps is not None and steps < saved.block:
        raise InputError(f"steps is {steps}, but the first outer iteration comes after {saved.block}. Give more.")
    conditions = differing_conditions(saved)
    in_segments = how == "segments" or (how == "auto" and not only_sources(conditions))
    if in_segments and steps is not None:
        raise InputError(
            "steps was given, but segments from checkpoint to checkpoint are recomputed, as the run was made under "
            "other conditions. Leave it out, or ask for whole rounds (--how whole, or how='whole' in Python)."
        )
    named = f"verifying {', '.join(map(str, numbers)) if len(numbers) < 4 else f'{len(numbers)} rounds'}"
    with reporting(saved.configuration, progress, title=named) as listener:
        exact = not conditions
        segments = [each for number in numbers if in_segments for each in check_segments(saved, number, exact=exact)]
        rounds = [] if in_segments else list(check_rounds(saved, numbers, steps, listener))
    return Verification(str(folder), tuple(conditions), seed, tuple(rounds), tuple(segments))


def _chosen(saved: SavedRun, asked: int | str | None, seed: int | None) -> tuple[Sequence[int], int | None]:
    known = saved.result.rounds["round"].to_list()
    if asked == "all":
        return known, None
    if isinstance(asked, str):
        raise InputError(f"round is {asked!r}. Give a number, or 'all'.")
    if asked is not None:
        saved.row_of(asked)
        return [asked], None
    if not known:
        raise InputError("this run has no rounds: it was interrupted before any had begun. There is nothing to verify.")
    seed = secrets.randbelow(2**31) if seed is None else seed
    return [known[int(np.random.default_rng(seed).integers(len(known)))]], seed


@dataclass(frozen=True)
class RoundCheck:
    """A round that was retrained."""

    number: int
    steps: int
    """Environment steps that were recomputed."""
    whole: bool
    """Whether that was all of it, so that its final parameters were compared, too."""
    rows: dict[str, int]
    """Of each table, the rows that were compared."""
    arrays: int
    """The arrays of parameters that were compared."""
    differences: tuple[Difference, ...]
    """The first of every table and array, the earliest before the others."""

    @property
    def identical(self) -> bool:
        """Whether every bit is the same."""
        return not self.differences


def check_rounds(
    saved: SavedRun, numbers: Sequence[int], steps: int | None, listener: Listener = lambda progress: None
) -> Iterator[RoundCheck]:
    """Retrains rounds, or their first `steps`, and compares. All rounds of a complete run use every core."""
    everyone = saved.result.rounds["round"].to_list()
    complete = not saved.result.interrupted and len(everyone) == saved.configuration.training.rounds
    if list(numbers) == everyone and complete and steps is None:
        yield from _check_all(saved, listener)
        return
    for number in numbers:
        yield _check_one(saved, number, steps, listener)


def _check_all(saved: SavedRun, listener: Listener) -> Iterator[RoundCheck]:
    if isinstance(saved.task, Task):
        trained = train_rounds(saved.configuration, saved.task, saved.network, listener=listener)
    else:
        trained = train_on_host(saved.configuration, saved.task, saved.network, listener=listener)
        for number, failure in trained.failures.items():
            raise _failed(number, failure)
    if trained.interrupted:
        raise KeyboardInterrupt
    for place, number in enumerate(saved.result.rounds["round"].to_list()):
        last, best = ({path: array[place] for path, array in each.items()} for each in (trained.policies, trained.best))
        arrays = _together(last, best)
        yield _compared(saved, number, trained.tables, arrays, None)


def _check_one(saved: SavedRun, number: int, steps: int | None, listener: Listener) -> RoundCheck:
    made = saved.row_of(number)["steps"]
    whole = steps is None or steps >= made
    until = made if steps is None else min(steps, made)
    blocks = -(-until // saved.block)
    with rerun(saved, number) as round_:
        tables, failure = round_.retrain(blocks, listener)
        # An environment that failed at the run's last step fails there once more, which is compared like any other end.
        if failure is not None and round_.steps < min(blocks * saved.block, made):
            raise _failed(number, failure)
        [last] = round_.policies()
        arrays = _together(last, round_.best_policy())
    return _compared(saved, number, tables, arrays if whole else {}, None if whole else until)


def _together(last: dict[str, np.ndarray], best: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a round's last policy, and of its best one where it is kept."""
    return last | {f"best.{path}": array for path, array in best.items()}


def _failed(number: int, failure: str) -> EnvironmentFailedError:
    return EnvironmentFailedError(f"round {number} could not be recomputed: {failure}")


def _compared(
    saved: SavedRun, number: int, tables: Tables, arrays: dict[str, np.ndarray], until: int | None
) -> RoundCheck:
    window = saved.configuration.training.window
    differences, rows = table_differences(saved.result.run.tables, tables, number, until, window)
    count = 0
    if until is None:
        best = saved.result.parameters_of(number, "best") if saved.result.run.best else {}
        stored = _together(saved.result.parameters_of(number), best)
        others, count = parameter_differences(stored, arrays)
        differences += others
    steps = saved.row_of(number)["steps"] if until is None else until
    return RoundCheck(number, steps, until is None, rows, count, tuple(differences))
