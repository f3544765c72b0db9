"""Step sizes tuned by successive halving (`paper.halving`): one procedure for all arms, on pilot seeds.

Candidates run at the budget that they are used with. Stages have different seeds, so that no candidate is judged by the
luck that it was selected by. What a diverged round scores is computed once per task and set of readings, as
`paper.scores` does, from the arms with the paper's own settings.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.presets import PRESETS
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper.cells import Console, run_cells
from srgdqn.paper.experiment import RANDOM, configured
from srgdqn.paper.halving import AXES, PAPERS_OWN, Candidate, Choice, Grid, Trial, Trials, Wanted, next_step
from srgdqn.paper.measurements.recorded import Report
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.scores import REFERENCE, floor_of, values_of
from srgdqn.results.result import Result
from srgdqn.runs import measurement
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.measurement import Measured
from srgdqn.runs.provenance import hashed, stale, what_bits_depend_on
from srgdqn.session.prepare import prepare, result_of
from srgdqn.session.run_session import stamp_of
from srgdqn.tasks import task_of
from srgdqn.training import train_side_by_side


class Arm(NamedTuple):
    """What is tuned."""

    task: str
    algorithm: str
    readings: str


class Stage(NamedTuple):
    """Rounds of every candidate, and the seed they share."""

    rounds: int
    seed: int


@dataclass(frozen=True)
class Procedure:
    """How large a search is."""

    stages: tuple[Stage, ...] = (Stage(32, 10_101), Stage(96, 10_102), Stage(288, 10_103))
    values_per_decade: int = 2
    """How fine the grid is."""
    shorter: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Budgets that replace the paper's, by task."""

    def grid(self, algorithm: str) -> Grid:
        """The first grid of an arm: a decade to either side of the step sizes that it uses."""
        both = (-self.values_per_decade, self.values_per_decade)
        uses_eta, uses_alpha = step_sizes(algorithm)
        return Grid(both if uses_eta else (0, 0), both if uses_alpha else (0, 0))

    @property
    def widening(self) -> int:
        """Values by which a side of the grid is widened: half a decade."""
        return max(1, self.values_per_decade // 2)

    def settings(self, arm: Arm, candidate: Candidate) -> dict[str, float]:
        """The candidate's η and α."""
        paper, factor = PRESETS[arm.task], 10 ** (1 / self.values_per_decade)
        return {axis: paper[axis] * factor ** getattr(candidate, axis) for axis in AXES}

    def configuration(self, arm: Arm, stage: int) -> Configuration:
        """An arm with the paper's own settings in a stage."""
        rounds, seed = self.stages[stage]
        options = {"rounds": rounds, "seed": seed, "evaluation_interval": None, **self.shorter.get(arm.task, {})}
        return configured(PAPER_SCALE, arm.task, arm.algorithm, arm.readings, **options)


PROCEDURE = Procedure()


def step_sizes(algorithm: str) -> tuple[bool, bool]:
    """Whether an algorithm uses η, and whether it uses α.

    >>> step_sizes("srg-dqn"), step_sizes("dqn-sgd"), step_sizes("dqn-adam")
    ((True, True), (True, False), (False, True))
    """
    options = ALGORITHMS[algorithm].options
    adam_steps = options.get("step", "gradient") == "adam"
    return not adam_steps, adam_steps or bool(options["adam_process"])


@dataclass(frozen=True)
class StageCell:
    """Candidates that train side by side, as lanes of one program. Only what `rows` makes of each is stored."""

    name: str
    configuration: Configuration
    settings: tuple[Mapping[str, float], ...]
    """The options in which each candidate differs."""
    alone: bool = False

    def compute(
        self, report: Report, stop: threading.Event, manager: CheckpointManager | None, ran_by: str
    ) -> Measured:
        """Trains on the calling thread, from checkpoints if there are any."""
        start = time.perf_counter()
        run = prepare(self.configuration)
        members = [run.configuration.with_options(each) for each in self.settings]
        task = task_of(run.configuration)
        checkpoints = None if manager is None else manager.stamped(stamp_of(run.identity), self.name)
        tables: dict[int, pl.DataFrame] = {}
        for place, trained in train_side_by_side(
            members,
            task,
            listener=lambda progress: report(progress.share),
            workers=1,
            stop=stop,
            manager=checkpoints,
        ):
            if trained.interrupted:
                raise StopRequestedError
            rows = self.rows(result_of(members[place], task, trained, ran_by=ran_by))
            tables[place] = rows.insert_column(0, pl.Series("candidate", [place] * rows.height))
        about = {"plan": self._question(run.configuration), "seconds": time.perf_counter() - start, **run.identity}
        inputs = {"digest": hashed(about["plan"])["digest"], "user_code": {}}
        scores_table = pl.concat([tables[place] for place in range(len(members))])
        return Measured({"scores": scores_table}, {**about, "engine": ran_by, "inputs": inputs})

    def rows(self, result: Result) -> pl.DataFrame:
        """What is stored of a candidate's rounds."""
        means = values_of(result, "final").means
        return pl.DataFrame({"round": np.arange(len(means)), "score": pl.Series(means).fill_nan(None)})

    def save(self, outcome: Measured, folder: Path) -> None:
        """Saves the scores."""
        measurement.save(outcome, folder, overwrite=True)

    def load(self, folder: Path) -> tuple[Measured, str | None]:
        """The scores in the folder, and why they are not what training would give now."""
        measured, run = measurement.load(folder), prepare(self.configuration)
        if measured.about["plan"] != self._question(run.configuration):
            return measured, "its candidates or their configuration have changed"
        return measured, stale(what_bits_depend_on(measured.about), run.identity)

    def _question(self, configuration: Configuration) -> Any:
        asked = {"configuration": dataclasses.asdict(configuration), "settings": [*map(dict, self.settings)]}
        return json.loads(json.dumps(asked))


def scores_of(outcome: Measured) -> list[np.ndarray]:
    """A value per round of each candidate of a cell, NaN where it diverged."""
    groups = outcome.tables["scores"].sort("candidate", "round").partition_by("candidate", maintain_order=True)
    return [group["score"].fill_null(np.nan).to_numpy() for group in groups]


class Tuned(NamedTuple):
    """The choices, and the seconds of one core that they took."""

    choices: dict[Arm, Choice]
    seconds: float


def tune(
    arms: Sequence[Arm],
    folder: Path,
    console: Console,
    procedure: Procedure = PROCEDURE,
    reference: Sequence[str] = REFERENCE,
) -> Tuned:
    """The choice for every arm; what has run is found in the folder.

    `reference` are the algorithms among whose rounds the worst one is what a diverged round scores.
    """
    search = _Search(procedure, arms, folder, console)
    last = len(procedure.stages) - 1
    search.run("the paper's own settings", {arm: Wanted(last, (PAPERS_OWN,)) for arm in arms})
    floors = search.floors(reference)
    for step in itertools.count(1):
        found = {
            arm: next_step(procedure.grid(arm.algorithm), search.trials(arm, floors), procedure.widening)
            for arm in arms
        }
        wanted = {arm: each for arm, each in found.items() if isinstance(each, Wanted)}
        if not wanted:
            break
        search.run(f"tuning, step {step}", wanted)
    return Tuned({arm: each for arm, each in found.items() if isinstance(each, Choice)}, search.seconds)


class _Search:
    """What has run so far: the scores of every candidate's rounds, by arm and stage."""

    def __init__(self, procedure: Procedure, arms: Sequence[Arm], folder: Path, console: Console) -> None:
        self._procedure, self._folder, self._console = procedure, folder, console
        self._random = dict.fromkeys(Arm(arm.task, RANDOM, arm.readings) for arm in arms)
        everybody = (*arms, *self._random)
        self._scores: dict[Arm, list[dict[Candidate, np.ndarray]]] = {
            arm: [{} for _ in procedure.stages] for arm in everybody
        }
        self._calls = dict.fromkeys(itertools.product(everybody, range(len(procedure.stages))), 0)
        self.seconds = 0.0

    def run(self, title: str, wanted: Mapping[Arm, Wanted]) -> None:
        """Trains the candidates that are wanted, those of one arm together, and with the first ones the yardstick."""
        last = len(self._procedure.stages) - 1
        untried = [arm for arm in self._random if not self._scores[arm][last]]
        every = {**{arm: Wanted(last, (PAPERS_OWN,)) for arm in untried}, **wanted}
        cells = {arm: self._cell(arm, each) for arm, each in every.items()}
        outcomes = run_cells(title, list(cells.values()), self._folder, self._console)
        for arm, each in every.items():
            outcome = outcomes[cells[arm].name]
            self._scores[arm][each.stage] |= zip(each.candidates, scores_of(outcome), strict=True)
            self._calls[arm, each.stage] += 1
            self.seconds += outcome.about["seconds"]

    def _cell(self, arm: Arm, wanted: Wanted) -> StageCell:
        configuration = self._procedure.configuration(arm, wanted.stage)
        call = self._calls[arm, wanted.stage] + 1
        name = f"{arm.task}-{arm.algorithm}-{arm.readings}-stage-{wanted.stage + 1}-{call}"
        # The random policy's step sizes are 0.
        settings = [
            {} if arm.algorithm == RANDOM else self._procedure.settings(arm, each) for each in wanted.candidates
        ]
        return StageCell(name, configuration, tuple(settings))

    def floors(self, reference: Sequence[str]) -> dict[tuple[str, str], float]:
        """What a diverged round scores, by task and readings."""
        found = {}
        for task, _, readings in self._random:
            means = {
                arm.algorithm: stages[-1][PAPERS_OWN]
                for arm, stages in self._scores.items()
                if (arm.task, arm.readings) == (task, readings)
            }
            found[task, readings] = floor_of(means, among=reference)
        return found

    def trials(self, arm: Arm, floors: Mapping[tuple[str, str], float]) -> list[Trials]:
        """What an arm's candidates have come to in every stage."""
        floor = floors[arm.task, arm.readings]
        return [{each: trial_of(values, floor) for each, values in stage.items()} for stage in self._scores[arm]]


def trial_of(values: np.ndarray, floor: float) -> Trial:
    """The mean score of rounds, of which those that diverged are NaN and score the floor.

    >>> trial_of(np.array([1.0, 3.0, np.nan, 4.0]), 0.0)
    Trial(score=2.0, diverged=0.25)
    """
    lost = np.isnan(values)
    return Trial(float(np.where(lost, floor, values).mean()), float(lost.mean()))
