"""`srgdqn replay`: reruns a stretch of a round, and traces every outer iteration in full."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from srgdqn.cli.options import SavedRun, UserModules
from srgdqn.cli.parsing import Arg, parse
from srgdqn.errors import InputError

if TYPE_CHECKING:
    from srgdqn.inspection.replay_round import Replay as Replayed

UNFAITHFUL = 1  # the exit code
_MOST_ROWS = 8  # of D that are shown
_SUFFIXES = (".parquet", ".png", ".pdf", ".svg")


@dataclass(frozen=True)
class Replay:
    """Reruns a stretch of a round of a saved run, traces every outer iteration in full, and names the gradient that
    made it diverge.

    By default that is the last sixteen outer iterations: where the round diverged, up to the one that was discarded.
    Of every inner iteration m it shows the norms of g(θ_m; x_m), g(θ_ref; x_m), Δ_m and the step, the transition that
    was picked, its target and its TD error; and what entered Adam and came out.

    It begins at the newest checkpoint of the run before the stretch (srgdqn train --keep-checkpoints), or else
    at the round's first step. The exit code is 1 if the rerun is not what the run did.
    """

    run: SavedRun
    """Folder that a run was saved in."""
    round: Annotated[int | None, Arg(default="the first to diverge")] = None
    """The round to replay."""
    from_step: Annotated[int | None, Arg(default="the last 16 outer iterations", least=1)] = None
    """Environment step from which on outer iterations are traced."""
    until_step: Annotated[int | None, Arg(default="the round's end", least=1)] = None
    """Environment step up to which they are."""
    out: Annotated[Path | None, Arg("FILE", "none")] = None
    """File for the whole trace (.parquet) or for a figure of the norms (.png, .pdf or .svg)."""
    overwrite: bool = False
    """Replace the file, if there is one."""
    json: bool = False
    """Print everything as JSON on standard output."""
    import_: UserModules = ()


def run(words: Sequence[str]) -> int:
    """Replays a round."""
    asked = parse(Replay, words)
    if asked.out is not None:
        from srgdqn.runs.destination import check_file

        check_file(asked.out, _SUFFIXES, what="trace or figure", overwrite=asked.overwrite)

    from srgdqn.results.result import load_result

    number = asked.round if asked.round is not None else _first_diverged(load_result(asked.run).rounds)

    from srgdqn.cli.presentation import print_json
    from srgdqn.inspection.replay_round import replay_round
    from srgdqn.kernel.program_cache import enable_program_cache

    enable_program_cache()
    done = replay_round(asked.run, number, from_step=asked.from_step, until_step=asked.until_step)
    saved = None if asked.out is None else done.save(asked.out, overwrite=asked.overwrite)
    if asked.json:
        print_json({**_content(done), "file": None if saved is None else str(saved)})
    else:
        _show(done, saved)
    return 0 if done.faithful else UNFAITHFUL


def _first_diverged(rounds: Any) -> int:
    gone = rounds.drop_nulls("diverged_at").sort("diverged_at", "round")
    if not gone.height:
        raise InputError("no round of this run diverged. Say which one to replay: --round 0.")
    return int(gone["round"][0])


def _show(done: Replayed, saved: Path | None) -> None:
    from srgdqn.cli.presentation import console, count, number, print_rows, print_table

    first, last = done.iterations["outer_iteration"][0], done.iterations["outer_iteration"][-1]
    began = "its first step" if done.started_at == 0 else f"the checkpoint of step {done.started_at:,}"
    anchor, largest = ((), "‖Δ‖") if done.per_batch else ((("‖Δ_0‖", "anchor_norm"),), "most ‖Δ_m‖")
    norms = (("loss", "loss"), ("‖θ‖", "theta_norm"), *anchor, (largest, "largest_delta_norm"))
    shown = (*norms, ("most TD", "largest_td_error"), ("Adam", "adam_step_norm"))
    print_table(
        f"{done.run} · round {done.number} · outer iterations {first:,} to {last:,}, rerun from {began}",
        ("outer", "step", *(head for head, _ in shown)),
        [
            (count(row["outer_iteration"]), count(row["step"]), *(number(row[name]) for _, name in shown))
            for row in done.iterations.iter_rows(named=True)
        ],
        caption="‖θ‖: before it; most TD: the largest error on D; Adam: the length of its step",
    )
    _show_inner(done)
    out = console()
    for sentence in (*done.diagnosis.words, *_beyond_the_stretch(done)):
        out.print(sentence)
    out.print()
    same = "the same bits" if done.difference == 0 else f"within {done.difference:.2g} of their norm"
    rows = [
        ("traced θ against the run's own", same),
        ("held against the run", ", ".join(done.checked)),
        ("found", "; ".join(done.problems) or "nothing that speaks against it"),
    ]
    if done.conditions:
        rows.append(("other conditions", "; ".join(each.words for each in done.conditions)))
    if saved is not None:
        rows.append(("saved in", str(saved)))
    print_rows("is this what the run did?", rows)


def _beyond_the_stretch(done: Replayed) -> Iterator[str]:
    """What became of the round, where the stretch does not show it."""
    if done.diverged_at is None:
        yield "The round did not diverge: none of its outer iterations was discarded."
    elif done.diagnosis.discarded is None:
        yield f"The round diverged later, at step {done.diverged_at:,}."


def _show_inner(done: Replayed) -> None:
    """The inner iterations of the outer one that did it, or of the last; where it has one direction for all of D, the
    rows of D with the largest errors.
    """
    import polars as pl

    from srgdqn.cli.presentation import count, number, print_table

    diagnosis = done.diagnosis
    last = done.iterations["outer_iteration"][-1]
    chosen = diagnosis.growth.outer_iteration if diagnosis.growth is not None else last
    rows = done.inner.filter(pl.col("outer_iteration") == chosen)
    if done.per_batch:
        worst = rows.sort(pl.col("td_error").abs().fill_nan(math.inf), descending=True).head(_MOST_ROWS)
        norms = ", ".join(
            f"{name} = {number(rows[column][0])}"
            for name, column in (("‖g(θ; D)‖", "gradient_norm"), ("‖Δ‖", "delta_norm"), ("step", "step_norm"))
        )
        print_table(
            f"D in outer iteration {chosen:,}: the largest of {len(rows)} errors",
            ("row", "made at", "Q", "y", "TD error"),
            [
                (str(row["row"]), count(row["made_at"]), *(number(row[name]) for name in ("q", "target", "td_error")))
                for row in worst.iter_rows(named=True)
            ],
            caption=f"{norms}; made at: the step in which the transition was made",
        )
        return
    print_table(
        f"inner iterations of outer iteration {chosen:,}",
        ("m", "‖g(θ_m)‖", "‖g(θ_ref)‖", "‖Δ_m‖", "step", "made at", "y", "TD error"),
        [
            (
                str(row["m"]),
                *(number(row[name]) for name in ("gradient_norm", "reference_norm", "delta_norm", "step_norm")),
                count(row["made_at"]),
                *(number(row[name]) for name in ("target", "td_error")),
            )
            for row in rows.iter_rows(named=True)
        ],
        caption="gradients on x_m, the pick; m = 0: on all of D; made at: the step in which the pick was made",
    )


def _content(done: Replayed) -> dict[str, Any]:
    return {
        "run": done.run,
        "round": done.number,
        "diverged_at": done.diverged_at,
        "started_at": done.started_at,
        "faithful": done.faithful,
        "problems": done.problems,
        "checked": done.checked,
        "difference": done.difference,
        "conditions": [each._asdict() for each in done.conditions],
        "diagnosis": dataclasses.asdict(done.diagnosis),
        "iterations": done.iterations.to_dicts(),
        "inner": done.inner.to_dicts(),
    }
