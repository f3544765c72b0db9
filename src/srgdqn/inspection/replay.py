"""`srgdqn.replay_round`: a stretch of a round lived again, with every outer iteration traced in full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import polars as pl
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Environment
from srgdqn.errors import InputError
from srgdqn.inspection.conditions import Condition, differing
from srgdqn.inspection.differences import parameter_differences
from srgdqn.inspection.open_round import lived_again
from srgdqn.inspection.rerun_compiled import CompiledRound
from srgdqn.inspection.rerun_host import HostedRound
from srgdqn.inspection.saved_checkpoints import Kept, checkpoints_of
from srgdqn.inspection.saved_run import Subject, subject_of
from srgdqn.inspection.segments import parted_at
from srgdqn.inspection.trace import Tracer
from srgdqn.inspection.trace_story import Story, tell
from srgdqn.inspection.trace_tables import Traced, inner_table, iterations_table, joined
from srgdqn.kernel.structures import whole_teams
from srgdqn.learner.networks import NetworkFactory
from srgdqn.runs.destination import check_file, write_file
from srgdqn.runs.parquet import encode_any
from srgdqn.tasks import Task

DEFAULT_STRETCH = 16
"""Outer iterations that are traced where nobody says which."""


@dataclass(frozen=True, eq=False)
class Replay:
    """A stretch of a round."""

    run: str
    number: int
    diverged_at: int | None
    """The environment step at which the round diverged; None if it did not."""
    started_at: int
    """Environment steps of the checkpoint that it was lived again from; 0 for the round's beginning."""
    iterations: pl.DataFrame
    """A row per outer iteration; `srgdqn.inspection.trace_tables.ITERATIONS` tells its columns."""
    inner: pl.DataFrame
    """A row per inner iteration and transition of its pick; columns: `inspection.trace_tables.INNER`."""
    story: Story
    """What grew first, and what first was no number."""
    problems: tuple[str, ...]
    """How what was lived again is not what the run did; none where nothing speaks against it."""
    checked: tuple[str, ...]
    """What was held against the run."""
    conditions: tuple[Condition, ...]
    """What is other here than when the run was made."""

    def __repr__(self) -> str:
        """In a line, without the tables."""
        first, last = self.iterations["outer_iteration"][0], self.iterations["outer_iteration"][-1]
        end = "did not diverge" if self.diverged_at is None else f"diverged at step {self.diverged_at:,}"
        faithful = "faithful" if self.faithful else "not what the run did"
        return f"<Replay of {self.run}, round {self.number}: outer iterations {first:,} to {last:,}, {faithful}; {end}>"

    @property
    def faithful(self) -> bool:
        """Whether it is what the run did, as far as that can be told."""
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
        from srgdqn.inspection.trace_chart import chart_of

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
    """Lives a round of a saved run again, and traces a stretch of it in full.

    It begins at the newest good checkpoint before the stretch, or at the round's beginning where there is none.

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
    subject = subject_of(folder, network=network, environment=environment)
    first, stop = _stretch(subject, round, from_step, until_step)
    starts = [each for each in checkpoints_of(subject, round) if _serves(each, first)]
    with lived_again(subject, round, *starts) as lived:
        began = lived.steps
        traced = list(_traced(subject, lived, first, stop))
        problems, checked = _held_against(subject, round, lived, began, stop)
    iterations, inner = iterations_table(traced), inner_table(traced)
    return Replay(
        str(folder),
        round,
        subject.row_of(round)["diverged_at"],
        began,
        iterations,
        inner,
        tell(iterations, inner),
        tuple(problems),
        tuple(checked),
        tuple(differing(subject)),
    )


def _serves(kept: Kept, first: int) -> bool:
    return kept.blocks <= first and not kept.at_the_end


def _traced(subject: Subject, lived: CompiledRound | HostedRound, first: int, stop: int) -> Iterator[Traced]:
    lived.advance(first)
    lanes = whole_teams(subject.configuration.training.lanes) if isinstance(subject.task, Task) else None
    tracer = Tracer(subject.configuration, lived.network, lanes)
    while lived.blocks < stop and lived.active:
        moment = lived.live()
        if moment is not None:
            yield Traced(moment, tracer.trace(moment))


def _stretch(subject: Subject, number: int, from_step: int | None, until_step: int | None) -> tuple[int, int]:
    """The first block whose outer iteration is traced, and the one after the last."""
    row, block, learning = subject.row_of(number), subject.block, subject.configuration.training.first_learning_block
    lived, made = row["steps"], row["outer_iterations"]
    if made == 0:
        raise InputError(f"round {number} made no outer iteration in its {lived:,} steps. There is nothing to replay.")
    ends = learning + made  # blocks
    for name, step in (("from-step", from_step), ("until-step", until_step)):
        if step is not None and not 1 <= step <= ends * block:
            raise InputError(
                f"--{name} is {step:,}, but round {number} made its outer iterations from step "
                f"{(learning + 1) * block:,} to step {min(ends * block, lived):,}. Give one of these."
            )
    stop = ends if until_step is None else until_step // block
    first = stop - DEFAULT_STRETCH if from_step is None else -(-from_step // block) - 1
    first = max(first, learning)
    if first >= stop:
        raise InputError(
            f"round {number} made no outer iteration from step {from_step or 1:,} to step {stop * block:,}: there is "
            f"one every {block} steps, from step {(learning + 1) * block:,} on. Give a longer stretch."
        )
    return first, stop


def _held_against(
    subject: Subject, number: int, lived: CompiledRound | HostedRound, began: int, stop: int
) -> tuple[list[str], list[str]]:
    """What of the run contradicts what was lived again, and what was compared."""
    problems, checked = [], []
    row = subject.row_of(number)
    ends = np.concatenate(lived.ends) if lived.ends else np.zeros(0, int)
    until = min(lived.steps, row["steps"])
    parted = parted_at(subject, number, began, until, ends)
    checked.append(f"{int((ends <= until).sum()):,} ends of episodes")
    if parted is not None:
        problems.append(f"from step {parted:,} on, episodes ended otherwise than in the run")
    at_the_end = stop * subject.block >= row["steps"] - subject.block + 1 and not _goes_on(subject, row, stop)
    if at_the_end:
        differences, arrays = parameter_differences(subject.result.parameters_of(number), _policy(lived))
        checked.append(f"{arrays} arrays of final parameters, to the bit")
        problems += [each.words for each in differences[:1]]
    return problems, checked


def _goes_on(subject: Subject, row: dict[str, Any], stop: int) -> bool:
    """Whether the round made outer iterations after the stretch."""
    return stop < subject.configuration.training.first_learning_block + row["outer_iterations"]


def _policy(lived: CompiledRound | HostedRound) -> dict[str, np.ndarray]:
    return lived.policies()[0]
