"""`srgdqn evaluate`: the greedy policies of a saved run on the raw reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from srgdqn.cli.options import SavedRun, UserModules
from srgdqn.cli.parsing import Arg, parse

if TYPE_CHECKING:
    import polars as pl

    from srgdqn.results.result import Result


@dataclass(frozen=True)
class Evaluate:
    """Plays episodes with the greedy policies of a saved run, and shows what they earn of the raw reward.

    The protocol is that of the evaluations during training: no exploration, the task's own time limit, and starts that
    depend on the seed and the episode's number alone, the same for all rounds and algorithms.
    """

    run: SavedRun
    """Folder that a run was saved in."""
    episodes: Annotated[int, Arg(least=1)] = 100
    """Episodes that each round plays."""
    seed: Annotated[int | None, Arg(default="the run's")] = None
    """Seed of the starts."""
    round: Annotated[int | None, Arg(default="all")] = None
    """The only round to evaluate."""
    which: Literal["last", "best"] = "last"
    """The policy of each round: the last, or the best of the evaluations on the way (of runs with --keep-best)."""
    json: bool = False
    """Print the statistics as JSON on standard output."""
    import_: UserModules = ()


def run(words: Sequence[str]) -> int:
    """Evaluates a run."""
    asked = parse(Evaluate, words)

    from srgdqn.cli.presentation import count, number, percentage, print_json, print_rows, print_table, with_interval
    from srgdqn.results.comparison import spread_of
    from srgdqn.results.result import load_result

    result = load_result(asked.run)
    played = result.evaluate(
        episodes=asked.episodes,
        seed=asked.seed,
        rounds=None if asked.round is None else [asked.round],
        which=asked.which,
    )
    rows = _per_round(result, played)
    overall = {name: spread_of([row[name] for row in rows]) for name in ("return", "length", "success")}
    if asked.json:
        print_json(
            {
                "run": str(asked.run),
                "which": asked.which,
                "episodes": asked.episodes,
                "rounds": rows,
                "overall": {name: vars(spread) for name, spread in overall.items()},
            }
        )
        return 0
    configuration = result.configuration
    print_table(
        f"{configuration.task.task} · {configuration.algorithm} · {asked.episodes} greedy episodes per round"
        + (" by its best policy" if asked.which == "best" else ""),
        ("round", "return", "sd", "length", "success", "diverged at"),
        [
            (
                str(row["round"]),
                number(row["return"]),
                number(row["return_sd"]),
                number(row["length"]),
                percentage(row["success"]),
                count(row["diverged_at"]),
            )
            for row in rows
        ],
    )
    print_rows(
        f"over {len(rows)} round{'' if len(rows) == 1 else 's'}",
        [
            ("return", with_interval(overall["return"])),
            ("  interquartile mean", number(overall["return"].iqm)),
            ("  sd over rounds", number(overall["return"].sd)),
            ("length", with_interval(overall["length"])),
            ("success", with_interval(overall["success"], percentage)),
        ],
        caption="[ , ]: 95 % bootstrap interval of the mean over rounds",
    )
    return 0


def _per_round(result: Result, played: pl.DataFrame) -> list[dict[str, Any]]:
    """The means of each round's episodes; a round that diverged played with its last finite parameters."""
    import polars as pl

    means = played.group_by("round").agg(
        pl.col("return").mean(),
        pl.col("return").std().alias("return_sd"),
        pl.col("length").mean(),
        pl.col("success").cast(pl.Float64).mean(),
    )
    return means.join(result.rounds.select("round", "diverged_at"), on="round").sort("round").to_dicts()
