"""`srgdqn verify`: is a saved run what its configuration gives?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from srgdqn.cli.options import SavedRun, UserModules
from srgdqn.cli.parsing import Arg, parse

if TYPE_CHECKING:
    from srgdqn.inspection.verify import Verification

NOT_VERIFIED = 1  # the exit code


@dataclass(frozen=True)
class Verify:
    """Recomputes a round of a saved run with its stored configuration, and says whether it is the same.

    Where versions, compiler and instruction set are those that the run was made with, every row of every table
    (timings apart) and every parameter must be the same to the bit. Elsewhere that is not to be expected, as rounds are
    chaotic: then segments are recomputed, each from a checkpoint of the run (srgdqn train --keep-checkpoints) to the
    next, and their error is compared with what a change of the last bit grows to.

    The exit code is 0 if the run was verified, and 1 if it differs or nothing can be said.
    """

    run: SavedRun
    """Folder that a run was saved in."""
    round: Annotated[int | Literal["all"] | None, Arg(default="one at random")] = None
    """The round to recompute, or all of them."""
    steps: Annotated[int | None, Arg(default="the whole round", least=1)] = None
    """Recompute only the first so many environment steps."""
    seed: Annotated[int | None, Arg(default="a new one")] = None
    """Seed by which a round is chosen at random."""
    how: Literal["auto", "whole", "segments"] = "auto"
    """Whole rounds to the bit, or segments between checkpoints within a bound."""
    json: bool = False
    """Print everything as JSON on standard output."""
    import_: UserModules = ()


def run(words: Sequence[str]) -> int:
    """Verifies a run."""
    asked = parse(Verify, words)

    from srgdqn.results.result import load_result

    load_result(asked.run)  # a folder that is none is refused before anything is compiled

    from srgdqn.cli.presentation import print_json
    from srgdqn.inspection.verify import verify
    from srgdqn.kernel.program_cache import enable_program_cache

    enable_program_cache()
    done = verify(asked.run, asked.round, steps=asked.steps, how=asked.how, seed=asked.seed)
    if asked.json:
        print_json(_content(done))
    else:
        _show(done)
    return 0 if done.holds else NOT_VERIFIED


def _show(done: Verification) -> None:
    from srgdqn.cli.presentation import console, print_rows, print_table

    said = [each.words for each in done.conditions] or ["as when the run was made, so that every bit is to be the same"]
    rows = [("conditions", said[0]), *(("", each) for each in said[1:])]
    if done.seed is not None:
        number = done.rounds[0].number if done.rounds else done.segments[0].number
        rows.append(("round", f"{number}, chosen with seed {done.seed}"))
    print_rows(done.run, rows)
    for check in done.rounds:
        compared = ", ".join(f"{count:,} rows of {name}" for name, count in check.rows.items())
        print_rows(
            f"round {check.number} · {check.steps:,} steps recomputed",
            [
                ("compared", f"{compared}" + (f", {check.arrays} arrays of parameters" if check.whole else "")),
                ("found", "the same to the bit" if check.identical else check.differences[0].words),
                *(("", each.words) for each in check.differences[1:]),
            ],
        )
    if done.segments:
        print_table(
            "segments, each recomputed from a checkpoint",
            ("round: steps", "moved", "error", "largest", "relative", "share", "bound", "found"),
            [
                (
                    f"{each.number}: {each.from_step:,}–{each.until_step:,}",
                    *(f"{value:.2g}" for value in (each.moved, each.error, each.largest_error)),
                    *(f"{value:.2g}" for value in (each.largest_relative_error, each.share, each.bound)),
                    each.finding,
                )
                for each in done.segments
            ],
            caption="moved, error: norms of differences of parameters; largest, relative: of a single number; "
            "share: error of moved; bound: 100 times what a change of every last bit grows to",
        )
        for each in done.segments:
            if each.finding != "agrees":
                parted = "" if each.parted_at is None else f"; episodes ended otherwise from step {each.parted_at:,} on"
                where = f"round {each.number}, steps {each.from_step:,} to {each.until_step:,}"
                console().print(f"{where}: {each.words}{parted}.")
    console().print(_verdict(done))


def _verdict(done: Verification) -> str:
    agreeing = sum(each.finding == "agrees" for each in done.segments)
    return {
        "identical": "Verified: every bit that was compared is the same.",
        "agrees": "Verified within bounds: in every segment the error is no larger than rounding explains.",
        "differs": "NOT VERIFIED: the run is not what its configuration gives"
        + (" here, and its conditions are others." if done.conditions else "."),
        "undecided": f"NOT VERIFIED, and not refuted: {agreeing} of {len(done.segments)} segments agree, and of the "
        "others nothing can be said. Under other conditions equal bits are not to be expected; the shorter segments "
        "are, the less a last bit grows in them: srgdqn train … --checkpoint-every 0 --keep-checkpoints all.",
    }[done.verdict]


def _content(done: Verification) -> dict[str, Any]:
    return {
        "run": done.run,
        "verdict": done.verdict,
        "holds": done.holds,
        "seed": done.seed,
        "conditions": [each._asdict() for each in done.conditions],
        "rounds": [
            {
                "round": check.number,
                "steps": check.steps,
                "whole": check.whole,
                "identical": check.identical,
                "rows": check.rows,
                "arrays": check.arrays,
                "differences": [each._asdict() for each in check.differences],
            }
            for check in done.rounds
        ],
        "segments": [
            {
                **{name: value for name, value in vars(each).items() if name != "number"},
                "round": each.number,
                "share": each.share,
                "bound": each.bound,
                "finding": each.finding,
            }
            for each in done.segments
        ],
    }
