"""`srgdqn.sweep` and `srgdqn.search`: one run, whose cells are a grid's or those that Optuna asks for."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Environment
from srgdqn.engines.choice import ready
from srgdqn.errors import InputError
from srgdqn.integrations.progress import reporting
from srgdqn.learner.networks import NetworkFactory, named
from srgdqn.results.scores import worst_finished
from srgdqn.runs.checkpoint_manager import DEFAULT_PACE, Pace
from srgdqn.runs.provenance import LOCAL, unidentified
from srgdqn.session.cache import Say
from srgdqn.session.prepare import prepare, what_is_given
from srgdqn.sweeps.cells import SweepCells
from srgdqn.sweeps.folder import ABOUT, STUDY, About, Failure, begin, check_folder, occupied
from srgdqn.sweeps.grid import Base, GridPlan, Score, SweepCell, Values, check_score, check_threshold, name_of
from srgdqn.sweeps.scores import NEED_WORST, score_of
from srgdqn.sweeps.space import SearchPlan, space_of
from srgdqn.sweeps.study import open_study
from srgdqn.sweeps.sweep import Sweep
from srgdqn.training import Progress
from srgdqn.training.rounds import Listener


def sweep(
    task: FuncEnv | Environment,
    algorithm: str = "srg-dqn",
    values: Mapping[str, Iterable[Any]] | None = None,
    *,
    readings: str = "corrected",
    network: str | eqx.Module | NetworkFactory | None = None,
    score: str = "greedy-return",
    threshold: float | None = None,
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
      task: as of `srgdqn.train`: a name, or an environment of your own.
      algorithm: a name that `srgdqn list` shows.
      values: the values to try, by option, such as `{"eta": [1e-3, 1e-2], "hidden": [(20,), (20, 20)]}`.
      readings: as of `srgdqn.train`.
      network: as of `srgdqn.train`.
      score: what the best cell is chosen by: `greedy-return`, `final-reward`, `area` (under the curve of greedy
        evaluations) or `solved` (the share of rounds); `srgdqn.sweeps.scores` says how rounds that diverged count.
      threshold: the last greedy return from which on a round counts as `solved`; by default Gymnasium's for the task.
      folder: where every cell is saved as soon as it is finished. If some are there already, only the others are
        trained; with code of your own, only if it can be known to be the same.
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
    plan = GridPlan(_base(task, algorithm, readings, network, options), values or {})
    return _run(plan, score, threshold, folder, progress, checkpoint_every, engine, address)


def search(
    task: FuncEnv | Environment,
    algorithm: str = "srg-dqn",
    space: Mapping[str, Any] | None = None,
    *,
    trials: int = 40,
    at_once: int | None = None,
    sampler_seed: int = 0,
    readings: str = "corrected",
    network: str | eqx.Module | NetworkFactory | None = None,
    score: str = "greedy-return",
    threshold: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    checkpoint_every: float | None = None,
    engine: str = LOCAL,
    address: str | None = None,
    **options: Any,
) -> Sweep:
    """Searches for the options with the highest score, by Optuna's tree-structured Parzen estimator.

    Args:
      task: as of `srgdqn.train`: a name, or an environment of your own.
      algorithm: a name that `srgdqn list` shows.
      space: what is searched, by option: a pair is a range (log-uniform if it spans a decade or more), a list a choice,
        and a word such as `"lin:0.9..0.99"` is read as `srgdqn.sweeps.space` says.
      trials: how many cells, with those that are in the folder already.
      at_once: trials asked for before the score of any of them is known; by default 8 where they differ only in
        numbers, and so run side by side, and 1 otherwise.
      sampler_seed: seed of the sampler.
      readings: as of `srgdqn.train`.
      network: as of `srgdqn.train`.
      score: as of `srgdqn.sweep`. A trial without one, because its options cannot be combined or its environment
        misbehaved, has failed.
      threshold: as of `srgdqn.sweep`.
      folder: where every cell is saved, and Optuna's own storage (`optuna.sqlite3`). Searching there again continues to
        the number of trials asked for; one process at a time.
      progress: as of `srgdqn.sweep`.
      checkpoint_every: as of `srgdqn.sweep`.
      engine: as of `srgdqn.sweep`.
      address: as of `srgdqn.train`.
      **options: what all cells share, as of `srgdqn.train`.

    Returns:
      The sweep, one cell per trial that has a score (fewer where trials are equal). Those whose environment misbehaved
      are listed in `failed`; if there are no others, an `EnvironmentFailedError` is raised.

    """
    base = _base(task, algorithm, readings, network, options)
    how = {"trials": trials, "at_once": at_once, "sampler_seed": sampler_seed}
    plan = SearchPlan(base, space_of(space or {}), **how)  # type: ignore[arg-type]
    return _run(plan, score, threshold, folder, progress, checkpoint_every, engine, address)


def _base(task: Any, algorithm: str, readings: str, network: Any, options: dict[str, Any]) -> Base:
    if isinstance(task, str):  # whose environment every cell makes by itself
        its_name, module = named(network)
        return Base(task, algorithm, readings, {**options, **its_name}, {} if module is None else {"network": module})
    given = what_is_given(task, network)
    return Base(given.task, algorithm, readings, {**given.options, **options}, given.own, given.defaults)


def _run(
    plan: GridPlan | SearchPlan,
    score: str,
    threshold: float | None,
    folder: str | os.PathLike[str] | None,
    progress: bool | None,
    checkpoint_every: float | None,
    engine: str,
    address: str | None,
) -> Sweep:
    chosen_by = check_score(score)
    limit = check_threshold(chosen_by, threshold, plan.base.task)
    path = None if folder is None else check_folder(folder, plan.base, plan.as_words())
    title = f"{plan.base.task} · {plan.base.algorithm} · {plan.amount}"
    with ready(engine, address), reporting(plan.first.configuration, progress, title=title) as listener:
        return run_sweep(plan, path, chosen_by, listener, pace=Pace(checkpoint_every), engine=engine, threshold=limit)


def run_sweep(
    plan: GridPlan | SearchPlan,
    folder: Path | None,
    score: Score,
    listener: Listener,
    say: Say = lambda text: None,
    pace: Pace = DEFAULT_PACE,
    engine: str = LOCAL,
    threshold: float | None = None,
) -> Sweep:
    """Trains the cells of a checked grid or search that are not in the folder yet. The engine must be ready."""
    say = functools.cache(say)  # every message once
    with occupied(folder):
        if folder is not None:
            _check_known(plan, folder)
            begin(folder, About(plan.base, plan.as_words(), score, threshold, planned=plan.planned))
        stored = SweepCells(folder, say, pace, engine, plan.base.own)
        failed: dict[str, Failure] = {}
        if isinstance(plan, GridPlan):
            cells = plan.cells
            complete = stored.fill(list(cells.values()), listener)
        else:
            cells, failed, complete = _searched(plan, folder, stored, (score, threshold), listener, say)
        if complete:
            stored.check_some_finished()
        results, failures = stored.results, stored.failures
        failed |= {name: Failure(cell.values, failures[name]) for name, cell in cells.items() if name in failures}
        finished = {name: cell.values for name, cell in cells.items() if name in results}
        swept = Sweep(
            plan.base,
            plan.as_words(),
            score,
            threshold,
            plan.planned,
            tuple(finished.values()),
            interrupted=not complete,
            failed=tuple(failed.values()),
            results=tuple(results[name] for name in finished),
        )
        if folder is not None:
            swept.save_table(folder)
        return swept


def _check_known(plan: GridPlan | SearchPlan, folder: Path) -> None:
    """Refuses to resume where it cannot be known whether the user's code is what the cells were trained with."""
    if (folder / ABOUT).exists():
        reason = unidentified(prepare(plan.first.configuration, **plan.base.own).identity)
        if reason is not None:
            raise InputError(
                f"the sweep in {folder} cannot be resumed, as it is unknown whether it was begun with the same code: "
                f"{reason}. Nothing was changed there. Give another folder."
            )


def _searched(
    plan: SearchPlan,
    folder: Path | None,
    stored: SweepCells,
    by: tuple[Score, float | None],
    listener: Listener,
    say: Say,
) -> tuple[dict[str, SweepCell], dict[str, Failure], bool]:
    """Trains the trials that Optuna proposes: the cells of all that have a score and those that failed, by name, also
    of earlier processes; and whether all was done.
    """
    results, failures, complete = stored.results, stored.failures, True
    score, threshold = by

    def cell_of(values: Values) -> SweepCell | None:
        try:
            return plan.cell(values)
        except InputError as error:
            say(f"a trial failed: {error}")
            return None

    def score_now(name: str, worst: float | None) -> float:
        # What has no score comes after everything else.
        mean = score_of(results[name], score, worst, threshold).mean
        return -math.inf if mean is None else mean

    with open_study(None if folder is None else folder / STUDY, plan) as study:
        study.resume()
        # Trials of earlier processes, beside which the others are scored.
        earlier = [cell for values in study.values() if (cell := cell_of(values))]
        while (ended := study.ended) < plan.planned:
            asked = study.ask()
            cells = {number: cell for number, values in asked.items() if (cell := cell_of(values))}
            complete = stored.fill([*cells.values(), *earlier], _share_of(listener, ended, len(asked), plan.planned))
            if not complete:
                break
            worst = worst_finished(results.values(), score) if score in NEED_WORST else None
            for number in asked:
                name = cells[number].name if number in cells else None
                if name in failures:
                    study.fail(number, failures[name])
                else:
                    study.end(number, None if name is None else score_now(name, worst))
        scored = {cell.name: cell for values in study.values() if (cell := cell_of(values))}
        failed = {name_of(failure.values): failure for failure in study.failures()}
    # Trials of earlier processes are read, and whatever is stale among them is trained again.
    if complete:
        complete = stored.fill(list(scored.values()), lambda progress: None)
    else:
        stored.find(list(scored.values()))
    return scored, failed, complete


def _share_of(listener: Listener, ended: int, asked: int, planned: int) -> Listener:
    def listen(progress: Progress) -> None:
        listener(progress._replace(share=(ended + progress.share * asked) / planned))

    return listen
