"""`srgdqn.replay_round`: a part of a round rerun, with every outer iteration traced in full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import numpy as np
import polars as pl
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Environment
from srgdqn.errors import InputError
from srgdqn.figures.charts import BLACK, BLUE, GREEN, RED, Chart, Panel, Series, Style
from srgdqn.inspection.diagnosis import Diagnosis, diagnose
from srgdqn.inspection.differences import Condition, differing_conditions, parameter_differences
from srgdqn.inspection.rerun import Rerun, rerun
from srgdqn.inspection.saved_run import SavedRun, checkpoints_of, open_run
from srgdqn.inspection.segments import parted_at
from srgdqn.inspection.trace import Traced, Tracer, is_per_batch, joined, tables_of
from srgdqn.kernel.structures import whole_teams
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.destination import check_file, write_file
from srgdqn.runs.tables import encode_any

_AXIS = {"outer_iterations": "outer iteration, with its inner ones"}
DEFAULT_STRETCH = 16
"""Outer iterations that are traced where nobody says which."""


@dataclass(frozen=True, eq=False)
class Replay:
    """A traced stretch of a round."""

    run: str
    number: int
    diverged_at: int | None
    """The environment step at which the round diverged; None if it did not."""
    started_at: int
    """Environment steps of the checkpoint that the rerun began at; 0 for the round's beginning."""
    iterations: pl.DataFrame
    """A row per outer iteration; columns: `srgdqn.inspection.trace.ITERATIONS`."""
    inner: pl.DataFrame
    """A row per inner iteration and transition of its pick, or, where there is one direction per batch, per transition
    of D; columns: `srgdqn.inspection.trace.INNER`."""
    per_batch: bool
    """Whether there is one direction for all of D, and neither an anchor nor inner iterations."""
    diagnosis: Diagnosis
    """What grew first, and what first was not finite."""
    problems: tuple[str, ...]
    """How the rerun differs from the run; empty where no difference was found."""
    checked: tuple[str, ...]
    """What was compared with the run."""
    conditions: tuple[Condition, ...]
    """What differs here from when the run was made."""

    def __repr__(self) -> str:
        """One line, without the tables."""
        first, last = self.iterations["outer_iteration"][0], self.iterations["outer_iteration"][-1]
        end = "did not diverge" if self.diverged_at is None else f"diverged at step {self.diverged_at:,}"
        faithful = "faithful" if self.faithful else "not what the run did"
        return f"<Replay of {self.run}, round {self.number}: outer iterations {first:,} to {last:,}, {faithful}; {end}>"

    @property
    def faithful(self) -> bool:
        """Whether the rerun did what the run did, as far as could be compared."""
        return not self.problems

    @property
    def difference(self) -> float:
        """The largest relative difference of traced parameters from the run's own: 0 if they are the same bits."""
        return max(self.iterations["difference"].drop_nulls().to_list(), default=0.0)

    @property
    def table(self) -> pl.DataFrame:
        """Everything in one table: the inner iterations, each with the columns of its outer iteration."""
        return joined(self.iterations, self.inner)

    def save(self, file: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes `table` to a Parquet file, or a figure of the norms (.png, .pdf or .svg)."""
        place = Path(file)
        if place.suffix.lower() == ".parquet":
            check_file(place, (".parquet",), what="trace", overwrite=overwrite)
            return write_file(place, encode_any(self.table))
        from srgdqn.figures.images import draw_chart, save_figure

        return save_figure(draw_chart(chart_of(self)), place, overwrite=overwrite)


def replay_round(
    folder: str | os.PathLike[str],
    round: int,  # noqa: A002, as the paper's word is a builtin's name
    *,
    from_step: int | None = None,
    until_step: int | None = None,
    network: eqx.Module | NetworkFactory | None = None,
    environment: FuncEnv | Environment | None = None,
) -> Replay:
    """Reruns a round of a saved run, and traces a stretch of it in full.

    The rerun begins at the newest undamaged checkpoint before the stretch, or at the round's beginning.

    Args:
      folder: where the run was saved.
      round: the number of the round.
      from_step: environment step from which on outer iterations are traced; by default the last sixteen are.
      until_step: environment step up to which; by default the round's end, or where it diverged.
      network: the user's own, where the run was trained with one.
      environment: likewise.

    Returns:
      The tables of the stretch, and what happened in it.

    """
    saved = open_run(folder, network=network, environment=environment)
    first, stop = _stretch(saved, round, from_step, until_step)
    starts = [each for each in checkpoints_of(saved, round) if each.blocks <= first and not each.at_the_end]
    with rerun(saved, round, *starts) as round_:
        began = round_.steps
        per_batch = is_per_batch(saved.configuration)
        iterations, inner = tables_of(list(_traced(saved, round_, first, stop)), per_batch=per_batch)
        problems, checked = _compare_with_run(saved, round, round_, began, stop)
    return Replay(
        str(folder),
        round,
        saved.row_of(round)["diverged_at"],
        began,
        iterations,
        inner,
        per_batch,
        diagnose(iterations, inner, per_batch=per_batch),
        tuple(problems),
        tuple(checked),
        tuple(differing_conditions(saved)),
    )


def _traced(saved: SavedRun, round_: Rerun, first: int, stop: int) -> Iterator[Traced]:
    round_.advance(first)
    lanes = whole_teams(saved.configuration.training.lanes) if saved.compiled else None
    tracer = Tracer(saved.configuration, saved.q_network(), lanes)
    while round_.blocks < stop and round_.active:
        before = None
        for inputs in round_.next_iterations():
            # Of several after one block, each begins where the trace of the one before it ended.
            begun = inputs if before is None else inputs._replace(before=before)
            trace = tracer.trace(begun)
            yield begun, trace
            before = trace.after


def _stretch(saved: SavedRun, number: int, from_step: int | None, until_step: int | None) -> tuple[int, int]:
    """The first block whose outer iteration is traced, and the one after the last."""
    row, block, learning = saved.row_of(number), saved.block, saved.configuration.training.first_learning_block
    each = saved.configuration.training.gradient_steps
    steps, made = row["steps"], row["outer_iterations"]
    if made == 0:
        raise InputError(f"round {number} made no outer iteration in its {steps:,} steps. There is nothing to replay.")
    ends = learning + -(-made // each)  # blocks
    for name, step in (("from-step", from_step), ("until-step", until_step)):
        if step is not None and not 1 <= step <= ends * block:
            raise InputError(
                f"--{name} is {step:,}, but round {number} made its outer iterations from step "
                f"{(learning + 1) * block:,} to step {min(ends * block, steps):,}. Give one of these."
            )
    stop = ends if until_step is None else until_step // block
    first = stop - -(-DEFAULT_STRETCH // each) if from_step is None else -(-from_step // block) - 1
    first = max(first, learning)
    if first >= stop:
        raise InputError(
            f"round {number} made no outer iteration from step {from_step or 1:,} to step {stop * block:,}: there "
            f"{'is one' if each == 1 else f'are {each}'} every {block} steps, from step {(learning + 1) * block:,} on. "
            "Give a longer stretch."
        )
    return first, stop


def _compare_with_run(
    saved: SavedRun, number: int, round_: Rerun, began: int, stop: int
) -> tuple[list[str], list[str]]:
    """How the rerun differs from the run, and what was compared."""
    problems, checked = [], []
    row = saved.row_of(number)
    until = min(round_.steps, row["steps"])
    parted = parted_at(saved, number, began, until, round_.ends)
    checked.append(f"{sum(end <= until for end in round_.ends):,} ends of episodes")
    if parted is not None:
        problems.append(f"from step {parted:,} on, episodes ended otherwise than in the run")
    training = saved.configuration.training
    learned = training.first_learning_block + -(-row["outer_iterations"] // training.gradient_steps)
    if stop >= learned and stop * saved.block > row["steps"] - saved.block:
        differences, arrays = parameter_differences(saved.result.parameters_of(number), round_.policies()[0])
        checked.append(f"{arrays} arrays of final parameters, to the bit")
        problems += [each.words for each in differences[:1]]
    return problems, checked


def chart_of(replay: Replay) -> Chart:
    """Gradients and Δ, errors, and parameters and steps, inner iteration by inner iteration."""
    inner = replay.inner.filter(pl.col("sample") == 0)
    count = max(inner["m"].to_list(), default=0) + 2
    x = {"outer_iterations": inner["outer_iteration"].to_numpy() + inner["m"].to_numpy() / count}
    outer = {"outer_iterations": replay.iterations["outer_iteration"].to_numpy().astype(float)}

    def line(label: str, style: Style, column: str, along: dict, table: pl.DataFrame) -> Series:
        values = np.abs(table[column].cast(pl.Float64).fill_null(np.nan).to_numpy())
        return Series(label, style, along, np.where(np.isfinite(values) & (values > 0), values, np.nan))

    gradients = [
        line("‖g(θ_m; x_m)‖", Style(BLUE), "gradient_norm", x, inner),
        line("‖g(θ_ref; x_m)‖", Style(BLUE, "--"), "reference_norm", x, inner),
        line("‖Δ_m‖", Style(RED), "delta_norm", x, inner),
    ]
    errors = [
        line("|TD error| of the pick", Style(GREEN), "td_error", x, inner),
        line("largest on D", Style(GREEN, "--"), "largest_td_error", outer, replay.iterations),
        line("loss on D", Style(BLACK, ":"), "loss", outer, replay.iterations),
    ]
    moves = [
        line("‖θ_m‖", Style(BLACK), "theta_norm", x, inner),
        line("step", Style(RED, "--"), "step_norm", x, inner),
        line("Adam's step", Style(BLUE, ":"), "adam_step_norm", outer, replay.iterations),
    ]
    panels = tuple(
        Panel(title, label, _AXIS, tuple(each for each in series if np.isfinite(each.y).any()), log_y=True)
        for title, label, series in (
            ("gradients", "norm", gradients),
            ("errors", "size", errors),
            ("parameters and steps", "norm", moves),
        )
    )
    caption = "A gap is where a value was no finite number."
    return Chart("replay", f"round {replay.number}", caption, panels)
