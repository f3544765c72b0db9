"""The anatomy of the anchors' error: are anchors inaccurate for the two reasons that the paper gives?"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.charts import BLACK, BLUE, ORANGE, PURPLE, Chart, Panel, Series, Style
from srgdqn.report.contents import Section, Table
from srgdqn.statistics import resampled_interval
from srgdqn.studies import anchor_cells
from srgdqn.studies.anchor_cells import TRAJECTORIES
from srgdqn.studies.controls import interval_text
from srgdqn.studies.experiment import Experiment, Outcomes
from srgdqn.studies.scale import Scale

PARTS = {
    "sampling": ("D against the replay", Style(BLUE)),
    "unseen": ("replay against all recorded (first reason)", Style(PURPLE)),
    "drift": ("replay against fresh on-policy data (second reason)", Style(ORANGE)),
}


def errors(outcomes: Outcomes, readings: str) -> pl.DataFrame:
    """Every measured squared error, of both algorithms' runs."""
    frames = []
    for trajectory in TRAJECTORIES:
        table = outcomes[anchor_cells.cell_name(readings, trajectory)].tables["anatomy"]
        frames.append(table.with_columns(pl.lit(trajectory).alias("trajectory")))
    return pl.concat(frames)


def by_round(outcomes: Outcomes, readings: str) -> dict[str, np.ndarray]:
    """Per round, the mean of each part over both runs and their moments. A round counts if it diverged in neither."""
    means = errors(outcomes, readings).group_by("round", "trajectory").agg(pl.col(*PARTS).mean())
    both = means.group_by("round").agg(pl.col(*PARTS).mean(), pl.len()).filter(pl.col("len") == len(TRAJECTORIES))
    return {part: both.sort("round")[part].to_numpy() for part in PARTS}


def share(parts: dict[str, np.ndarray], reason: str, picks: np.ndarray | None = None) -> float:
    """The share of a reason in the three parts together, of the rounds at `picks` (with repetitions) or of all."""
    sums = {part: values[slice(None) if picks is None else picks].sum() for part, values in parts.items()}
    return float(sums[reason] / sum(sums.values()))


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """The parts over training, and their shares."""
    panels, rows = [], []
    for trajectory in TRAJECTORIES:
        series = []
        for each in readings:
            mine = errors(outcomes, each).filter(pl.col("trajectory") == trajectory)
            sizes = {part: float(np.mean(mine[part].to_numpy())) for part in PARTS}
            for part, (label, style) in PARTS.items():
                means = mine.group_by("step").agg(pl.col(part).mean()).sort("step")
                x = {"steps": means["step"].to_numpy()}
                series.append(Series(label, style, x, means[part].to_numpy(), group=each))
                rows.append(
                    {
                        "readings": each,
                        "run of": trajectory,
                        "part": label,
                        "mean squared error": f"{sizes[part]:.4g}",
                        "share of the three": f"{sizes[part] / sum(sizes.values()):.0%}",
                    }
                )
            means = mine.group_by("step").agg(pl.col("total").mean()).sort("step")
            whole = Series(
                "D against all recorded",
                Style(BLACK, ":"),
                {"steps": means["step"].to_numpy()},
                means["total"].to_numpy(),
                group=each,
            )
            series.append(whole)
        panels.append(
            Panel(
                f"run of {trajectory}",
                "squared error of the gradient",
                {"steps": "environment steps"},
                tuple(series),
                log_y=True,
            )
        )
    parts = by_round(outcomes, readings[0])
    shares = {
        part: resampled_interval(len(parts[part]), functools.partial(share, parts, part), resamples=2_000)
        for part in PARTS
    }
    return Section(
        name=ANATOMY.name,
        title=ANATOMY.title,
        paper_says=ANATOMY.paper_says,
        found=(
            f"Shares of the squared error over both runs, readings {readings[0]} (95 %, over rounds): unseen "
            f"transitions {interval_text(shares['unseen'])}, drift of the policy {interval_text(shares['drift'])}; "
            f"the rest, {interval_text(shares['sampling'])}, is drawing only N transitions from the replay."
        ),
        charts=(
            Chart(
                "anatomy",
                "What an anchor's error consists of",
                "Squared distances between gradients at the same θ, mean over rounds. Fresh on-policy data are two "
                "samples of as many transitions as the replay holds, each from a fresh episode under the same ε; their "
                "own sampling error is not counted.",
                tuple(panels),
                columns=2,
            ),
        ),
        tables=(Table("anatomy-shares", "Shares of the squared error", pl.DataFrame(rows)),),
        seconds=0.0,
        budget_seconds=ANATOMY.budget_seconds,
    )


ANATOMY = Experiment(
    name="anatomy",
    title="The anatomy of the anchors' error",
    paper_says=(
        "Anchors are inaccurate for two reasons: only a part of all transitions is accessible, as future ones are not "
        "there yet; and past transitions come from policies of other parameters."
    ),
    cells=anchor_cells.cells,
    show=show,
    budget_seconds=240,
)
