"""`srgdqn.search`: cells as Optuna asks for them, several at a time so that they run side by side.

The sampler of a batch is seeded by the search's seed and the number of trials before it, and trials that were under way
when their process ended are gone on with: a search that was ended in between is as if it had not been. One whose
environment misbehaved is made again, but only by another process: this one goes on without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srgdqn.engines.choice import ready
from srgdqn.errors import InputError
from srgdqn.integrations.progress import reporting
from srgdqn.runs.cache import Say
from srgdqn.runs.checkpoint_manager import USUAL, Pace
from srgdqn.runs.provenance import LOCAL
from srgdqn.runs.result import Result
from srgdqn.sweeps.folder import STUDY, About, Failure, begin, check_folder, occupied
from srgdqn.sweeps.grid import Base, Cell, Values, name_of
from srgdqn.sweeps.ranges import space_of
from srgdqn.sweeps.running import Judge, check_some_finished, fill, look_up, shelves
from srgdqn.sweeps.scores import Score
from srgdqn.sweeps.scoring import check_score, score_of
from srgdqn.sweeps.search_plan import SearchPlan, search_plan
from srgdqn.sweeps.study import open_study
from srgdqn.sweeps.sweep import Sweep
from srgdqn.training import Progress
from srgdqn.training.rounds import Listener


def search(
    task: str,
    algorithm: str = "srg-dqn",
    space: Mapping[str, Any] | None = None,
    *,
    trials: int = 40,
    at_once: int | None = None,
    sampler_seed: int = 0,
    readings: str = "corrected",
    score: str = "greedy-return",
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    checkpoint_every: float | None = None,
    engine: str = LOCAL,
    address: str | None = None,
    **options: Any,
) -> Sweep:
    """Searches for the options with the highest score, by Optuna's tree-structured Parzen estimator.

    Args:
      task: the name of a task.
      algorithm: a name that `srgdqn list` shows.
      space: what is searched, by option: a pair is a range (log-uniform if it spans a decade or more), a list a choice,
        and a word such as `"lin:0.9..0.99"` what `srgdqn.sweeps.ranges` says.
      trials: how many cells, with those that are in the folder already.
      at_once: trials asked for before any of them is told; by default 8 where they differ in mere numbers, and so run
        side by side, and 1 otherwise.
      sampler_seed: seed of the sampler.
      readings: as of `srgdqn.train`.
      score: as of `srgdqn.sweep`. A trial without one, because its options cannot be run together or its environment
        misbehaved, is told as failed.
      folder: where every cell is kept, and Optuna's own storage (`optuna.sqlite3`). Searching there again goes on to
        the number of trials asked for; one process at a time may.
      progress: show a progress bar (by default where there is a terminal).
      checkpoint_every: seconds between two checkpoints of what is under way in a folder, from which sweeping there
        again goes on; by default a minute, or as seldom as keeps them cheap.
      engine: where cells are trained: `"local"`, or `"ray"` for the cores of a Ray cluster, with the same bits.
      address: of that cluster, as of `srgdqn.train`.
      **options: what all cells share, as of `srgdqn.train`.

    Returns:
      The sweep, one cell per trial that has a score (fewer where trials are equal). Those whose environment misbehaved
      are told as `failed`; if there are no others, that is an `EnvironmentFailedError`.

    """
    base, judged_by = Base(task, algorithm, readings, options), check_score(score)
    plan = search_plan(base, space_of(space or {}), trials=trials, at_once=at_once, sampler_seed=sampler_seed)
    path = None if folder is None else check_folder(folder, base, plan.as_words())
    first = base.configured({name: part.ends()[0] for name, part in plan.space.items()})
    shown = reporting(first, progress, title=f"{task} · {algorithm} · {trials} trials")
    with ready(engine, address), shown as listener:
        return run_search(base, plan, path, judged_by, listener, pace=Pace(checkpoint_every), engine=engine)


def run_search(
    base: Base,
    plan: SearchPlan,
    folder: Path | None,
    score: Score,
    listener: Listener,
    say: Say = lambda text: None,
    pace: Pace = USUAL,
    engine: str = LOCAL,
) -> Sweep:
    """Makes the trials of a search that was checked, by an engine that is ready."""
    with occupied(folder):
        return _make_trials(base, plan, folder, score, listener, say, pace, engine)


def _make_trials(
    base: Base,
    plan: SearchPlan,
    folder: Path | None,
    score: Score,
    listener: Listener,
    say: Say,
    pace: Pace,
    engine: str,
) -> Sweep:
    if folder is not None:
        begin(folder, About(base, plan.as_words(), score, planned=plan.trials))
    shelf, beside = shelves(folder, say, pace)
    judge = Judge(score, base.configured({name: part.ends()[0] for name, part in plan.space.items()}), beside)
    results: dict[str, Result] = {}
    failures: dict[str, str] = {}
    whole = True
    with open_study(None if folder is None else folder / STUDY, plan) as study:
        study.go_on()
        while whole and (told := study.told) < plan.trials:
            asked = study.ask()
            cells = {number: cell for number, values in asked.items() if (cell := _cell(base, values, say))}
            part = _part_of(listener, told, len(asked), plan.trials)
            whole = fill(list(cells.values()), shelf, results, failures, part, engine)
            if not whole:
                break
            judge.prepare([results[cell.name] for cell in cells.values() if cell.name in results])
            for number in asked:
                name = cells[number].name if number in cells else None
                if name in failures:
                    study.fail(number, failures[name])
                else:
                    study.tell(number, None if name is None else score_of(results[name], score, judge.chance).mean)
        done = {cell.name: cell for values in study.values() if (cell := _cell(base, values, say))}
        failed = {name_of(values): Failure(values, reason) for values, reason in study.failures()}
    # Those told by an earlier process are read, and whatever is stale among them is trained again.
    if whole:
        whole = fill(list(done.values()), shelf, results, failures, lambda progress: None, engine)
    else:
        look_up(list(done.values()), shelf, results)
    failed |= {name: Failure(cell.values, failures[name]) for name, cell in done.items() if name in failures}
    if whole:
        check_some_finished(results, failures)
    kept = tuple(cell for cell in done.values() if cell.name in results)
    judge.prepare([results[cell.name] for cell in kept])
    swept = Sweep(
        base,
        plan.as_words(),
        kept,
        tuple(results[cell.name] for cell in kept),
        score,
        judge.chance,
        plan.trials,
        interrupted=not whole,
        failed=tuple(failed.values()),
    )
    if folder is not None:
        swept.save_table(folder)
    return swept


def _cell(base: Base, values: Values, say: Say) -> Cell | None:
    """The cell of a trial; None if its values, each of which may be had, cannot be run together."""
    try:
        return Cell(values, base.configured(values))
    except InputError as error:
        say(f"a trial failed: {error}")
        return None


def _part_of(listener: Listener, told: int, asked: int, trials: int) -> Listener:
    def listen(progress: Progress) -> None:
        listener(progress._replace(share=(told + progress.share * asked) / trials))

    return listen
