"""`srgdqn.sweep`: every combination of some options' values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from srgdqn.engines.choice import ready
from srgdqn.integrations.progress import reporting
from srgdqn.results.cache import Say
from srgdqn.runs.checkpoint_manager import USUAL, Pace
from srgdqn.runs.provenance import LOCAL
from srgdqn.sweeps.cells import SweepCells
from srgdqn.sweeps.folder import About, Failure, begin, check_folder, occupied
from srgdqn.sweeps.grid import Base, Score, SweepCell, cells_of, check_score, checked_values, written
from srgdqn.sweeps.scores import RandomPolicy
from srgdqn.sweeps.sweep import Sweep
from srgdqn.training.rounds import Listener


def sweep(
    task: str,
    algorithm: str = "srg-dqn",
    values: Mapping[str, Iterable[Any]] | None = None,
    *,
    readings: str = "corrected",
    score: str = "greedy-return",
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    checkpoint_every: float | None = None,
    engine: str = LOCAL,
    address: str | None = None,
    **options: Any,
) -> Sweep:
    """Trains an algorithm on a task with every combination of some options' values.

    Cells that differ only in numbers (step sizes, discounts, …) run as lanes of one program, each with the bits that
    `srgdqn.train` gives; others compile their own.

    Args:
      task: the name of a task.
      algorithm: a name that `srgdqn list` shows.
      values: the values to try, by option, such as `{"eta": [1e-3, 1e-2], "hidden": [(20,), (20, 20)]}`.
      readings: as of `srgdqn.train`.
      score: what the best cell is chosen by: `greedy-return` or `final-reward`; `srgdqn.sweeps.scores` says how
        rounds that diverged count. Equal scores are ordered by final reward.
      folder: where every cell is saved as soon as it is finished. If some are there already, only the others are
        trained.
      progress: show a progress bar (by default where there is a terminal).
      checkpoint_every: seconds between two checkpoints of unfinished cells in the folder, from which the same call
        resumes; by default a minute, or longer where checkpoints are expensive.
      engine: where cells are trained: `"local"`, or `"ray"` for the cores of a Ray cluster, with the same bits.
      address: of that cluster, as of `srgdqn.train`.
      **options: what all cells share, as of `srgdqn.train`.

    Returns:
      The sweep; also if it was interrupted from the keyboard, with the cells that were finished by then. Cells whose
      environment misbehaved are listed in `failed`; if all are, an `EnvironmentFailedError` is raised.

    >>> swept = sweep("CartPole", "dqn-sgd", {"eta": [0.0, 0.01]}, steps=2_000, evaluation_episodes=1)
    >>> swept.table.select("cell", "eta", "diverged").rows()
    [(0, 0.0, 0), (1, 0.01, 0)]

    """
    base, tried = Base(task, algorithm, readings, options), checked_values(values or {})
    cells, chosen_by = cells_of(base, tried), check_score(score)
    path = None if folder is None else check_folder(folder, base, plan_of(tried))
    shown = reporting(cells[0].configuration, progress, title=title_of(base, cells))
    with ready(engine, address), shown as listener:
        return run_grid(base, tried, cells, path, chosen_by, listener, pace=Pace(checkpoint_every), engine=engine)


def run_grid(
    base: Base,
    tried: Mapping[str, Sequence[Any]],
    cells: Sequence[SweepCell],
    folder: Path | None,
    score: Score,
    listener: Listener,
    say: Say = lambda text: None,
    pace: Pace = USUAL,
    engine: str = LOCAL,
) -> Sweep:
    """Trains the cells of a checked grid that are not in the folder yet. The engine must be ready."""
    with occupied(folder):
        if folder is not None:
            begin(folder, About(base, plan_of(tried), score, planned=len(cells)))
        stored = SweepCells(folder, say, pace)
        complete = stored.fill(cells, listener, engine)
        if complete:
            stored.check_some_finished()
        random = RandomPolicy(score, cells[0].configuration, stored.beside)
        random.prepare(list(stored.results.values()))
        done = tuple(cell for cell in cells if cell.name in stored.results)
        swept = Sweep(
            base,
            plan_of(tried),
            done,
            tuple(stored.results[cell.name] for cell in done),
            score,
            random.chance,
            len(cells),
            interrupted=not complete,
            failed=tuple(
                Failure(cell.values, stored.failures[cell.name]) for cell in cells if cell.name in stored.failures
            ),
        )
        if folder is not None:
            swept.save_table(folder)
        return swept


def plan_of(tried: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The grid as JSON values."""
    return {"values": {name: [written(value) for value in values] for name, values in tried.items()}}


def title_of(base: Base, cells: Sequence[SweepCell]) -> str:
    """The progress bar's title."""
    rounds = cells[0].configuration.training.rounds
    return f"{base.task} · {base.algorithm} · {len(cells)} cells of {rounds} round{'s' if rounds > 1 else ''}"
