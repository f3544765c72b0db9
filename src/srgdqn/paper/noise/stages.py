"""What is computed for one task, stage by stage: plain Adam's ceiling, errors of directions, and learners.

Everything is a cell of its own, so that whatever was interrupted resumes, and the same decisions are taken again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from srgdqn.learner.outer_iteration import queries_per_iteration
from srgdqn.paper.cells import Console, run_cells
from srgdqn.paper.noise.analysis import error_ratios
from srgdqn.paper.noise.arms import (
    FIRST,
    RANDOM,
    YARDSTICK,
    Arm,
    Candidate,
    ceiling_arms,
    configuration_of,
    grid_of,
    learner_arm,
    side_by_side,
)
from srgdqn.paper.noise.cells import ERROR_COLUMNS, DirectionsCell, OutcomesCell, RandomCell
from srgdqn.paper.noise.rules import (
    ERRORS_SHIFT,
    EVALUATIONS,
    LEAST_MEASURED,
    MOST_WIDENINGS,
    PACES,
    Contender,
    Plan,
    Stage,
)
from srgdqn.paper.noise.selection import Choice, Wanted, next_step, stage_rows, trials_of
from srgdqn.paper.tuning_search import StageCell
from srgdqn.runs.measurement import Measured

ROUNDS_SCHEMA: dict[str, Any] = {
    "task": pl.String,
    "part": pl.String,
    "arm": pl.String,
    "batch": pl.Int64,
    "variant": pl.Int64,
    "alpha_step": pl.Int64,
    "alpha": pl.Float64,
    "rows": pl.Int64,
    "queries": pl.Float64,
    "stage": pl.String,
    "seed": pl.Int64,
    "round": pl.Int64,
    "area": pl.Float64,
    "final": pl.Float64,
    "diverged": pl.Boolean,
    "edges": pl.String,
}
"""`rows` are the transitions in a batch D; `edges` are the sides of its grid of α at which a chosen candidate lies."""
ERRORS_SCHEMA: dict[str, Any] = {
    "task": pl.String,
    "arm": pl.String,
    "axis": pl.String,
    "variant": pl.Int64,
    "value": pl.Float64,
    "rows": pl.Int64,
    "queries": pl.Float64,
    "seed": pl.Int64,
    **ERROR_COLUMNS,
}
"""`axis`: `own` of a contender's variants; `queries`, `coefficient` or `horizon`, along `value`, of those swept."""


class Found(NamedTuple):
    """Everything that was computed for a task: a row per round, and a row per round and measurement of directions."""

    rounds: pl.DataFrame
    errors: pl.DataFrame
    seconds: float


def compute_task(plan: Plan, task: str, folder: Path, console: Console) -> Found:
    """All stages of a task; what has run is found in the folder."""
    study = _Study(plan, task, folder, console)
    study.yardstick()
    ceiling = study.choose("ceiling", [arm for pace in PACES for arm in ceiling_arms(plan, task, pace)], MOST_WIDENINGS)
    study.confirm("ceiling", ceiling)
    errors = study.errors()
    learners = chosen_contenders(plan, errors)
    study.confirm("learners", study.choose("learners", [learner_arm(task, each) for each in learners], 0))
    return Found(study.rounds(), errors, study.seconds)


def chosen_contenders(plan: Plan, errors: pl.DataFrame) -> list[Contender]:
    """The contenders with the smallest error at equal queries, each with its best variant, and both controls. A variant
    that diverged too often is none of a contender's.
    """
    own = errors.filter(pl.col("axis") == "own")
    variant = ("arm", "variant", "value")
    finite = own.filter(pl.col("squared_error").is_finite(), pl.col("plain_squared_error").is_finite())
    measured = finite.group_by(variant).len()
    steady = measured.filter(pl.col("len") >= LEAST_MEASURED * pl.col("len").max())
    best = error_ratios(own.join(steady, on=variant, how="semi")).group_by("arm").agg(pl.col("ratio").min())
    names = best.drop_nulls().filter(pl.col("ratio").is_finite()).sort("ratio", "arm")["arm"].to_list()
    listed = {each.name: each for each in plan.contenders}
    return [listed[name] for name in names[: plan.most_contenders]] + list(plan.controls)


class _Study:
    """What has run so far for a task."""

    def __init__(self, plan: Plan, task: str, folder: Path, console: Console) -> None:
        self._plan, self._task, self._folder, self._console = plan, task, folder, console
        self._tables: list[pl.DataFrame] = [pl.DataFrame(schema=ROUNDS_SCHEMA)]
        self.seconds = 0.0

    def rounds(self) -> pl.DataFrame:
        """The rounds that have run, as they came."""
        return pl.concat(self._tables)

    def yardstick(self) -> None:
        """The random policy on the seeds that decide."""
        arm = Arm(self._task, YARDSTICK, RANDOM, min(self._plan.batches))
        self._run(f"{self._task}: random policy", "confirmation", {arm: (FIRST,)})

    def choose(self, title: str, arms: Sequence[Arm], most_widenings: int) -> dict[Arm, Choice]:
        """The candidate of every arm, by screening and pilots."""
        for step in itertools.count(1):
            found = {arm: self._next(arm, most_widenings) for arm in arms}
            wanted = {arm: each for arm, each in found.items() if isinstance(each, Wanted)}
            if not wanted:
                return {arm: each for arm, each in found.items() if isinstance(each, Choice)}
            for stage in ("screening", "pilots"):
                mine = {arm: each.candidates for arm, each in wanted.items() if each.stage == stage}
                if mine:
                    self._run(f"{self._task}: {title}, {stage}, step {step}", stage, mine)
        raise AssertionError

    def _next(self, arm: Arm, most_widenings: int) -> Wanted | Choice:
        screening, pilots = (trials_of(stage_rows(self.rounds(), each), arm) for each in ("screening", "pilots"))
        return next_step(grid_of(self._plan, arm), screening, pilots, most_widenings)

    def confirm(self, title: str, choices: Mapping[Arm, Choice]) -> None:
        """The chosen candidates on fresh seeds."""
        wanted = {arm: (choice.candidate,) for arm, choice in choices.items()}
        edges = {arm: " and ".join(choice.edges) for arm, choice in choices.items()}
        self._run(f"{self._task}: {title}, confirmation", "confirmation", wanted, edges)

    def _run(
        self,
        title: str,
        stage: str,
        wanted: Mapping[Arm, Sequence[Candidate]],
        edges: Mapping[Arm, str] | None = None,
    ) -> None:
        planned = self._plan.stages(self._task)[stage]
        asked = [
            (arm, group, cell)
            for arm, candidates in wanted.items()
            for group, cell in self._cells(arm, stage, planned, candidates)
        ]
        # The longest first, so that no core is left with one at the end.
        asked.sort(key=lambda each: -work_of(each[2]))
        outcomes = run_cells(title, [cell for _, _, cell in asked], self._folder, self._console)
        for arm, group, cell in asked:
            outcome: Measured = outcomes[cell.name]
            self.seconds += float(outcome.about["seconds"])
            told = (edges or {}).get(arm, "")
            self._tables.append(self._labelled(outcome.tables["scores"], arm, group, stage, cell, told))

    def _cells(
        self, arm: Arm, stage: str, planned: Stage, candidates: Sequence[Candidate]
    ) -> list[tuple[list[Candidate], StageCell]]:
        kind = RandomCell if arm.name == RANDOM else OutcomesCell
        found: list[tuple[list[Candidate], StageCell]] = []
        for seed in planned.seeds:
            every = [configuration_of(self._plan, arm, each, planned.rounds, seed) for each in candidates]
            for places in side_by_side(every):
                group = [candidates[place] for place in places]
                name = f"{arm.task}-{arm.part}-{arm.name}-{arm.batch}-{stage}-{seed}"
                mine = [every[place] for place in places]
                found.append((group, kind(f"{name}-{_range(group)}", mine[0], tuple(map(differing(mine[0]), mine)))))
        return found

    def _labelled(
        self, scores: pl.DataFrame, arm: Arm, group: Sequence[Candidate], stage: str, cell: StageCell, edges: str
    ) -> pl.DataFrame:
        """The scores of a cell as rows of the study."""
        members = [cell.configuration.with_options(each) for each in cell.settings]
        about = pl.DataFrame(
            {
                "candidate": range(len(group)),
                "variant": [each.variant for each in group],
                "alpha_step": [each.alpha_step for each in group],
                "alpha": [each.optimiser.alpha for each in members],
                "rows": [each.replay.batch_size for each in members],
                "queries": [queries_per_iteration(each) for each in members],
            }
        )
        common = {"task": arm.task, "part": arm.part, "arm": arm.name, "batch": arm.batch, "stage": stage}
        common |= {"seed": cell.configuration.training.seed, "edges": edges}
        return (
            scores.with_columns(pl.col("candidate").cast(pl.Int64))
            .join(about, on="candidate")
            .with_columns(pl.lit(value).alias(name) for name, value in common.items())
            .select(pl.col(name).cast(kind) for name, kind in ROUNDS_SCHEMA.items())
        )

    def errors(self) -> pl.DataFrame:
        """How far directions are from what they estimate: of all contenders, and of some along two axes."""
        asked = list(self._error_cells())
        outcomes = run_cells(
            f"{self._task}: errors of directions", [cell for _, cell in asked], self._folder, self._console
        )
        tables = [pl.DataFrame(schema=ERRORS_SCHEMA)]
        for labels, cell in asked:
            outcome: Measured = outcomes[cell.name]
            self.seconds += float(outcome.about["seconds"])
            labelled = outcome.tables["scores"].with_columns(
                pl.lit(value).alias(name) for name, value in labels.items()
            )
            tables.append(labelled.select(pl.col(name).cast(kind) for name, kind in ERRORS_SCHEMA.items()))
        return pl.concat(tables)

    def _error_cells(self) -> list[tuple[dict[str, Any], DirectionsCell]]:
        found = []
        for contender in self._plan.contenders:
            every: list[tuple[str, int, float, dict[str, Any]]] = [
                ("own", variant, float(next(iter(options.values()))), {})
                for variant, options in enumerate(contender.variants)
            ]
            if contender.name in self._plan.swept:
                # Of STORM 1 - a is what the others call their coefficient.
                name = "a" if "a" in contender.variants[0] else "coefficient"
                told = [(c, {name: 1 - c if name == "a" else c}) for c in self._plan.coefficients]
                every += [("coefficient", 0, c, options) for c, options in told]
                every += [
                    ("queries", contender.usual, factor, {"batch_size": round(factor * contender.batch)})
                    for factor in self._plan.batch_factors
                ]
                every += [("horizon", contender.usual, h, {"horizon": h}) for h in self._plan.horizons]
            for (axis, variant, value, options), seed in itertools.product(every, self._plan.errors.seeds):
                found.append(self._error_cell(contender, axis, variant, value, options, seed))
        return found

    def _error_cell(
        self, contender: Contender, axis: str, variant: int, value: float, options: dict[str, Any], seed: int
    ) -> tuple[dict[str, Any], DirectionsCell]:
        arm, rounds = learner_arm(self._task, contender), self._plan.errors.rounds
        # At all ages of the target: directions that remember err by when it was copied.
        interval = self._plan.regimes[self._task].steps // EVALUATIONS + ERRORS_SHIFT
        more = {**options, "direction_errors": True, "evaluation_interval": interval}
        configuration = configuration_of(self._plan, arm, Candidate(variant, 0), rounds, seed, **more)
        name = f"{self._task}-errors-{contender.name}-{axis}-{variant}-{value:g}-{seed}"
        labels = {"task": self._task, "arm": contender.name, "axis": axis, "variant": variant, "value": value}
        labels |= {
            "seed": seed,
            "rows": configuration.replay.batch_size,
            "queries": queries_per_iteration(configuration),
        }
        return labels, DirectionsCell(name, configuration, ({},))


def differing(first: Any) -> Any:
    """A function from a configuration to the options in which it differs from the first."""
    base = first.options()
    return lambda other: {name: value for name, value in other.options().items() if value != base[name]}


def work_of(cell: StageCell) -> float:
    """How long a cell takes, in gradient queries: learning is most of it."""
    training = cell.configuration.training
    steps = training.steps or 0
    rounds = training.rounds * len(cell.settings)
    updates = steps / training.learning_frequency * training.gradient_steps
    return updates * rounds * queries_per_iteration(cell.configuration)


def _range(group: Sequence[Candidate]) -> str:
    steps, variants = [each.alpha_step for each in group], sorted({each.variant for each in group})
    return f"v{''.join(map(str, variants))}-{min(steps):+d}to{max(steps):+d}"
