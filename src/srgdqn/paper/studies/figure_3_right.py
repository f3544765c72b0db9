"""Figure 3, right: how far the anchors of SRG-DQN and SVR-DQN are from exact ones.

Its cells, which measure the anchors of both algorithms' runs, also serve the anatomy and Theorem 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.figures.charts import BLACK, GREEN, ORANGE, Chart, Panel, Style
from srgdqn.paper.cells import MeasurementCell, StudyCell
from srgdqn.paper.experiment import (
    Experiment,
    Outcomes,
    diverged_note,
    mean_line,
    mean_text,
    measured_arm,
    rounds_used,
)
from srgdqn.paper.measurements import anchors
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale

DEFINITIONS = {
    "own": "anchors at their own θ",
    "present": "anchors at θ_m",
    "estimate": "estimates Δ_m at θ_m",
}
_STYLES = {"srg": Style(ORANGE), "svrg": Style(GREEN)}
_NAMES = {"srg": "SRG-DQN's", "svrg": "SVR-DQN's"}
TRAJECTORIES = ("svr-dqn", "srg-dqn")
FIRST_APART = 2
"""The first inner iteration that counts: at m = 1 both anchors coincide."""
_FIRST = 0.04  # of the budget: 4,000 of 100,000 steps, when the replay is full


def cell_name(readings: str, trajectory: str) -> str:
    """The name of the cell of an algorithm's run."""
    return f"anchors-{trajectory}-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """A cell per algorithm whose run is measured."""
    moments = np.linspace(_FIRST * scale.anchor_steps, scale.anchor_steps, scale.anchor_moments).round(-2)
    listed = []
    for trajectory in TRAJECTORIES:
        configuration = measured_arm(scale, trajectory, readings, scale.anchor_rounds, scale.anchor_steps)
        plan = anchors.Plan(configuration, tuple(int(max(step, 1_100)) for step in moments))
        listed.append(MeasurementCell(cell_name(readings, trajectory), anchors.measure, plan))
    return listed


def of_both_runs(outcomes: Outcomes, readings: str, table: str) -> pl.DataFrame:
    """A table of the measurement, of both algorithms' runs: `trajectory` says whose."""
    runs = {name: outcomes[cell_name(readings, name)].tables[table] for name in TRAJECTORIES}
    return pl.concat([rows.with_columns(pl.lit(name).alias("trajectory")) for name, rows in runs.items()])


def log_ratios(outcomes: Outcomes, readings: str, definition: str, first: int = FIRST_APART) -> np.ndarray:
    """Per round: the mean over both runs, moments and inner iterations, from the `first` on, of log(SRG's distance /
    SVRG's).

    A round counts if it diverged in neither run.
    """
    rows = of_both_runs(outcomes, readings, "distances").filter(pl.col("m") >= first)
    keys = ["trajectory", "round", "step", "m"]
    srg, svrg = (rows.filter(pl.col("estimator") == name).select(*keys, definition) for name in ("srg", "svrg"))
    joined = srg.join(svrg, on=keys, suffix="_svrg").with_columns(
        (pl.col(definition) / pl.col(f"{definition}_svrg")).log().alias("ratio")
    )
    means = joined.group_by("round", "trajectory").agg(pl.col("ratio").mean())
    both = means.group_by("round").agg(pl.col("ratio").mean(), pl.len()).filter(pl.col("len") == len(TRAJECTORIES))
    return both.sort("round")["ratio"].to_numpy()


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """Distances over training and by inner iteration, absolute and relative."""
    both = {each: [cell_name(each, name) for name in TRAJECTORIES] for each in readings}
    charts = []
    for name, title, key, label in (
        ("over-training", "Distance from the exact gradient over training", "step", "environment steps"),
        ("by-m", "Distance from the exact gradient by inner iteration", "m", "inner iteration m"),
    ):
        for relative in (False, True):
            panels = tuple(_panel(outcomes, readings, definition, key, label, relative) for definition in DEFINITIONS)
            suffix = "-relative" if relative else ""
            caption = (
                "Mean over rounds and moments, from shared θ_0, D and picks of both algorithms' runs; the dotted "
                f"line is the floor, the error of D itself. {diverged_note(outcomes, readings, both)}"
            )
            how = "Divided by the exact gradient's norm. " if relative else ""
            title_whole = f"{title}, relative to its norm" if relative else title
            charts.append(Chart(f"figure-3-right-{name}{suffix}", title_whole, how + caption, panels))
    rows = []
    for each in readings:
        for definition, meaning in DEFINITIONS.items():
            ratios = log_ratios(outcomes, each, definition)
            rows.append(
                {
                    "readings": each,
                    "definition": meaning,
                    "mean log(d_SRG / d_SVR) [95 %]": mean_text(ratios),
                    "ratio": f"{np.exp(ratios.mean()):.3f}" if len(ratios) else "no round left",
                    "rounds": rounds_used(outcomes, both[each], len(ratios)),
                }
            )
    note = f"From m = {FIRST_APART} on, as at m = 1 both coincide; over the rounds that diverged in neither run."
    own = [row for row in rows if row["readings"] == readings[0]]
    return EXPERIMENT.section(
        found="SRG's distance from the exact gradient is this many times SVRG's (geometric means from "
        f"m = {FIRST_APART} on, readings {readings[0]}): "
        + "; ".join(f"{row['definition']} {row['ratio']}" for row in own)
        + ". The error of D itself, a floor for SVRG in mean square, is "
        f"{100 * _floor_share(outcomes, readings[0]):.0f} % of the distance of SRG's estimates. "
        f"{scale.anchor_rounds} rounds of {scale.anchor_steps:,} steps.",
        charts=tuple(charts),
        tables=(Table("figure-3-right-ratios", "Whose anchors are closer", pl.DataFrame(rows), note),),
    )


def _floor_share(outcomes: Outcomes, readings: str) -> float:
    mine = of_both_runs(outcomes, readings, "distances").filter(pl.col("estimator") == "srg")
    return float(mine["floor"].to_numpy().sum() / mine["estimate"].to_numpy().sum())


def _panel(outcomes: Outcomes, readings: Sequence[str], definition: str, key: str, label: str, relative: bool) -> Panel:
    series = []
    norm, own_norm = (pl.col("norm"), pl.col("own_norm")) if relative else (pl.lit(1.0), pl.lit(1.0))
    distance = pl.col(definition) / (own_norm if definition == "own" else norm)
    for each in readings:
        rows = of_both_runs(outcomes, each, "distances")
        for estimator, style in _STYLES.items():
            mine = rows.filter(pl.col("estimator") == estimator)
            series.append(mean_line(_NAMES[estimator], style, mine, key, distance, group=each))
        floor = pl.col("floor") / norm
        series.append(mean_line("D's own error", Style(BLACK, ":"), rows, key, floor, group=each))
    y_label = "distance / norm" if relative else "distance"
    return Panel(DEFINITIONS[definition], y_label, {key: label}, tuple(series))


EXPERIMENT = Experiment(
    name="figure-3-right",
    place=50,
    title="Figure 3, right: distances of anchors",
    paper_says=(
        "The recursive anchors of SRG-DQN significantly reduce the distance from the exact anchors, which is another "
        "reason why SRG-DQN performs better."
    ),
    cells=cells,
    show=show,
    budget_seconds=110,
)
