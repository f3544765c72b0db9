"""The anatomy of the anchors' error: are anchors inaccurate for the two reasons that the paper gives?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.charts import BLACK, BLUE, ORANGE, PURPLE, Chart, Panel, Series, Style
from srgdqn.report.contents import Section, Table
from srgdqn.statistics import bootstrap_interval
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


def log_ratios(outcomes: Outcomes, readings: str, reason: str) -> np.ndarray:
    """Per round: the mean over both runs and their moments of log(the reason's squared error / that of sampling D).

    A round counts if it diverged in neither run.
    """
    ratio = (pl.col(reason) / pl.col("sampling")).log().alias("ratio")
    means = errors(outcomes, readings).group_by("round", "trajectory").agg(ratio.mean())
    both = means.group_by("round").agg(pl.col("ratio").mean(), pl.len()).filter(pl.col("len") == len(TRAJECTORIES))
    return both.sort("round")["ratio"].to_numpy()


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
    ratios = {reason: bootstrap_interval(log_ratios(outcomes, readings[0], reason)) for reason in ("unseen", "drift")}
    return Section(
        name=ANATOMY.name,
        title=ANATOMY.title,
        paper_says=ANATOMY.paper_says,
        found=(
            "log of each reason's squared error over that of drawing only N transitions from the replay, readings "
            f"{readings[0]}: unseen transitions {interval_text(ratios['unseen'])}, drift of the policy "
            f"{interval_text(ratios['drift'])} (95 %, over rounds). Above 0, the reason weighs more than sampling does."
        ),
        charts=(
            Chart(
                "anatomy",
                "What an anchor's error consists of",
                "Squared distances between gradients at the same θ, mean over rounds. Fresh on-policy data are as many "
                "transitions as the replay holds, from a fresh episode under the same ε.",
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
