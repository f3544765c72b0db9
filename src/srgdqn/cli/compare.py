"""`srgdqn compare`: learning curves of several runs in a figure, and what they came to in a table."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from srgdqn.cli.parsing import Arg, parse
from srgdqn.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from srgdqn.results.comparison import Spread, Summary
    from srgdqn.results.result import Result


@dataclass(frozen=True)
class Compare:
    """Compares saved runs of one task: a figure of their learning curves, and a table of what they came to.

    Curves are means over rounds with 95 % bootstrap intervals. Rounds that diverged are counted, and missing from
    there on.

      srgdqn compare runs/srg runs/adam --paired
      srgdqn compare grid:alpha=0.001 grid:alpha=0.01 --paired --threshold 475

    Of a sweep, DIR stands for all cells, and DIR:OPTION=VALUE[,OPTION=VALUE ...] for those with these values.
    """

    runs: Annotated[tuple[Path, ...], Arg("RUN [RUN ...]", positional=True)]
    """Folders that runs or sweeps were saved in."""
    paired: bool = False
    """Show the differences between every two runs in the same rounds, too, with 95 % bootstrap intervals; a round that
    diverged scores the worst that finished in any of the runs."""
    threshold: Annotated[float | None, Arg("RETURN", "Gymnasium's for the task, if any", least=-math.inf)] = None
    """Greedy return from which on a round counts as solved."""
    out: Annotated[Path | None, Arg("FILE", "comparison.png, or the next number if that is there")] = None
    """File of the figure; its ending (.png, .pdf or .svg) decides the format."""
    overwrite: bool = False
    """Replace the file, if there is one."""
    x: Annotated[
        Literal["steps", "queries", "seconds", "episodes"] | None,
        Arg(default="episodes if every budget is in episodes, steps otherwise"),
    ] = None
    """What curves are drawn against; seconds are a round's share of the wall clock in training."""
    json: bool = False
    """Print the table as JSON, and nothing else, on standard output."""


def run(words: Sequence[str]) -> int:
    """Compares runs."""
    asked = parse(Compare, words)
    if not asked.runs:
        raise InputError("no run was given. Give the folders of one or more, such as: srgdqn compare runs/a runs/b.")

    from srgdqn.figures import check_figure

    out = _unused() if asked.out is None else asked.out
    check_figure(out, overwrite=asked.overwrite)

    from srgdqn.cli.presentation import print_json
    from srgdqn.results.comparison import distinct_labels, require_one_task, summarise
    from srgdqn.results.result import load_result
    from srgdqn.sweeps.folder import run_folders

    folders = [folder for place in asked.runs for folder in run_folders(place)]
    results = [load_result(folder) for folder in folders]
    require_one_task(results)
    labels = distinct_labels(results, [str(folder) for folder in folders])

    from srgdqn.adapters.registry import reward_threshold

    threshold = reward_threshold(results[0].configuration.task.task, asked.threshold)
    pairs = None
    if asked.paired:
        from srgdqn.results.paired import paired

        pairs = paired(results, labels, threshold=threshold)

    # Only now: matplotlib is not needed to find that runs cannot be compared.
    from srgdqn.figures.images import comparison_figure, save_figure

    figure = comparison_figure(results, x=asked.x, labels=labels)
    summaries = [summarise(result, label, threshold) for result, label in zip(results, labels, strict=True)]
    saved = save_figure(figure, out, overwrite=asked.overwrite)
    if asked.json:
        runs = [{"run": str(folder), **summary.as_dict()} for folder, summary in zip(folders, summaries, strict=True)]
        paired_rows = {} if pairs is None else {"paired": pairs.to_dicts()}
        print_json({"task": summaries[0].task, "figure": str(saved), "runs": runs, **paired_rows})
        return 0
    _print(summaries, results)
    if pairs is not None:
        _print_pairs(summaries, pairs)
    print(f"The figure is in {saved}.")
    return 0


def _unused() -> Path:
    """The first of comparison.png, comparison-2.png, … that is not there."""
    names = (f"comparison{'' if number == 1 else f'-{number}'}.png" for number in itertools.count(1))
    return next(path for path in map(Path, names) if not os.path.lexists(path))


def _print(summaries: Sequence[Summary], results: Sequence[Result]) -> None:
    from srgdqn.cli.presentation import CAPTION, count, number, percentage, print_table, with_interval

    def mean(summary: Summary, spread: Spread) -> str:
        share = spread is summary.success or spread is summary.solved
        text = (percentage if share else number)(spread.mean)
        return text if spread.rounds in (0, summary.rounds) else f"{text} ({spread.rounds})"

    on_host = all(result.on_host for result in results)
    headlines = [summary.greedy_return if on_host else summary.reward for summary in summaries]
    print_table(
        f"{summaries[0].task}: {'greedy return' if on_host else 'final reward per action'}",
        ("run", "mean", "IQM", "sd", "rounds", "diverged"),
        [
            (
                summary.label,
                with_interval(spread),
                number(spread.iqm),
                number(spread.sd),
                f"{spread.rounds}/{summary.rounds}",
                str(len(summary.diverged)),
            )
            for summary, spread in zip(summaries, headlines, strict=True)
        ],
        caption="rounds: how many reached the final stretch and so entered, of how many",
    )
    print_table(
        f"{summaries[0].task}: episodes and costs",
        ("run", "return", "length", "queries", "seconds"),
        [
            (
                summary.label,
                mean(summary, summary.episode_return),
                mean(summary, summary.episode_length),
                count(summary.queries),
                number(summary.seconds),
            )
            for summary in summaries
        ],
        caption="return and length are the final training episodes', queries and seconds are per round; (k): only k "
        "rounds have such episodes",
    )
    threshold = summaries[0].threshold
    print_table(
        f"{summaries[0].task}: greedy evaluations",
        ("run", "return", "area", "success", "solved"),
        [
            (
                summary.label,
                mean(summary, summary.greedy_return),
                mean(summary, summary.area),
                mean(summary, summary.success),
                mean(summary, summary.solved),
            )
            for summary in summaries
        ],
        caption=f"{CAPTION}; area: under the evaluations' curve, per step; success: of episodes; solved: of rounds, "
        + ("not known without --threshold" if threshold is None else f"by a last return of {threshold:g} or more")
        + "; (k): only k rounds have such evaluations",
    )
    _print_policies(summaries)
    _print_directions(summaries)
    for note in _notes(summaries, results):
        print(note)


def _print_pairs(summaries: Sequence[Summary], pairs: pl.DataFrame) -> None:
    from srgdqn.cli.presentation import number, print_table

    rows, before = [], None
    for row in pairs.iter_rows(named=True):
        pair = f"{row['run']} − {row['other']}"
        bounds = "" if row["low"] is None else f" [{number(row['low'])}, {number(row['high'])}]"
        shown = f"{number(row['difference'])}{bounds}"
        lost = f"{row['diverged']}, {row['other_diverged']}"
        rows.append((pair if pair != before else "", row["score"], shown, str(row["rounds"]), lost))
        before = pair
    print_table(
        f"{summaries[0].task}: differences in the same rounds",
        ("runs", "score", "difference", "rounds", "diverged"),
        rows,
        caption="[ , ]: 95 % bootstrap interval, in which rounds are resampled, the same in both runs; not corrected "
        "for the number of pairs. diverged: rounds of the one and of the other, which score the worst that finished in "
        "any run and have not solved the task; –: most of both diverged, or no round has the score",
    )


def _print_policies(summaries: Sequence[Summary]) -> None:
    """The last, the best and the averaged policies on fresh starts, where some run has kept its best."""
    from srgdqn.cli.presentation import CAPTION, NOTHING, print_table, with_interval

    if not any(summary.fresh_best.rounds for summary in summaries):
        return
    rows = []
    for summary in summaries:
        averaged = summary.fresh_acting.rounds > 0
        last = summary.fresh_acting if averaged else summary.fresh_last
        average = with_interval(summary.fresh_last) if averaged else NOTHING
        rounds = f"{summary.fresh_best.rounds}/{summary.rounds}"
        rows.append((summary.label, with_interval(last), with_interval(summary.fresh_best), average, rounds))
    print_table(
        f"{summaries[0].task}: returns on fresh starts",
        ("run", "last", "best", "averaged", "rounds"),
        rows,
        caption=f"{CAPTION}; best: by the evaluations on the way, which had other starts; averaged: the last, where "
        "the estimator has an average evaluated",
    )


def _print_directions(summaries: Sequence[Summary]) -> None:
    """How far directions were from the gradient, where some run has measured it."""
    from srgdqn.cli.presentation import CAPTION, print_table, with_interval

    if not any(summary.direction_error.rounds for summary in summaries):
        return
    print_table(
        f"{summaries[0].task}: errors of directions",
        ("run", "relative error", "over plain batch's", "bias", "cosine", "rounds"),
        [
            (
                summary.label,
                with_interval(summary.direction_error),
                with_interval(summary.direction_ratio),
                with_interval(summary.direction_bias),
                with_interval(summary.direction_cosine),
                f"{summary.direction_error.rounds}/{summary.rounds}",
            )
            for summary in summaries
        ],
        caption=f"{CAPTION}; relative error is ‖Δ - G‖²/‖G‖² in the last fifth of training, and over plain batch's "
        "below 1 where Δ is nearer to G than the gradient on D, whatever Δ costs: one of 2N queries is compared with a "
        "plain batch of N; bias is its share of ‖Δ - G‖²: near 1 all draws err alike, near 0 the error is noise",
    )


def _notes(summaries: Sequence[Summary], results: Sequence[Result]) -> list[str]:
    """What a reader of the tables should know beside the labels."""
    from srgdqn.config.algorithms import ALGORITHMS
    from srgdqn.results.comparison import differing_options, option_text

    notes = [f"{summary.label} was interrupted." for summary in summaries if summary.interrupted]
    if len({summary.algorithm for summary in summaries}) == 1:
        return notes
    composed = {name for algorithm in ALGORITHMS.values() for name in algorithm.options}
    described = [{"readings": c.readings, **c.options()} for c in (result.configuration for result in results)]
    for name in differing_options([result.configuration for result in results]):
        if name not in composed:
            values = (
                f"{option_text(options[name])} ({summary.label})"
                for options, summary in zip(described, summaries, strict=True)
                if name in options
            )
            notes.append(f"The runs also differ in {name}: {', '.join(values)}.")
    return notes
