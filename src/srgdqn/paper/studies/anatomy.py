"""The anatomy of the anchors' error: are anchors inaccurate for the two reasons that the paper gives?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.figures.charts import BLACK, BLUE, ORANGE, PURPLE, Chart, Panel, Style
from srgdqn.paper.experiment import Experiment, Outcomes, diverged_note, mean_line, mean_text, rounds_used
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.studies import figure_3_right
from srgdqn.paper.studies.figure_3_right import TRAJECTORIES, of_both_runs

PARTS = {
    "sampling": ("D against the replay", Style(BLUE)),
    "unseen": ("replay against all recorded (first reason)", Style(PURPLE)),
    "drift": ("replay against fresh on-policy data (second reason)", Style(ORANGE)),
}
_TOTAL = ("D against all recorded", Style(BLACK, ":"))


def shares(outcomes: Outcomes, readings: str, part: str) -> np.ndarray:
    """Per round: the share of a part in the sum of the three, each summed over both runs and their moments.

    A round counts if it diverged in neither run.
    """
    runs = pl.col("trajectory").n_unique()
    sums = of_both_runs(outcomes, readings, "anatomy").group_by("round").agg(pl.col(*PARTS).sum(), runs.alias("runs"))
    both = sums.filter(pl.col("runs") == len(TRAJECTORIES)).sort("round")
    return (both[part] / both.select(pl.sum_horizontal(*PARTS)).to_series()).to_numpy()


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """The parts over training, and their shares."""
    both = {each: [figure_3_right.cell_name(each, name) for name in TRAJECTORIES] for each in readings}
    panels, rows = [], []
    for trajectory in TRAJECTORIES:
        series = []
        for each in readings:
            mine = of_both_runs(outcomes, each, "anatomy").filter(pl.col("trajectory") == trajectory)
            sizes = {part: float(np.mean(mine[part].to_numpy())) for part in PARTS}
            for part, (label, style) in {**PARTS, "total": _TOTAL}.items():
                series.append(mean_line(label, style, mine, "step", pl.col(part), "steps", group=each))
            rows += [
                {
                    "readings": each,
                    "run of": trajectory,
                    "part": label,
                    "mean squared error": f"{sizes[part]:.4g}",
                    "share of the three": f"{100 * sizes[part] / sum(sizes.values()):.0f} %",
                    "rounds": rounds_used(outcomes, both[each], mine["round"].n_unique()),
                }
                for part, (label, _) in PARTS.items()
            ]
        panels.append(
            Panel(
                f"run of {trajectory}",
                "squared error of the gradient",
                {"steps": "environment steps"},
                tuple(series),
                log_y=True,
            )
        )
    found = {part: shares(outcomes, readings[0], part) for part in PARTS}
    texts = {part: _percent_text(values) for part, values in found.items()}
    used = rounds_used(outcomes, both[readings[0]], len(found["drift"]))
    return EXPERIMENT.section(
        found=(
            f"Of the three squared distances together, unseen transitions are {texts['unseen']}, the policy's drift is "
            f"{texts['drift']}, and drawing only N transitions from the replay the rest, {texts['sampling']} (readings "
            f"{readings[0]}; means over {used} rounds, those that diverged in neither run, with 95 % intervals). The "
            "three overlap, and do not add up to the whole error."
        ),
        charts=(
            Chart(
                "anatomy",
                "What an anchor's error consists of",
                "Squared distances between gradients at the same θ, mean over rounds. Fresh on-policy data are two "
                "samples of as many transitions as the replay holds, each from a fresh episode under the same ε; "
                "sampling error does not count as drift, which may come out below 0 and is then not drawn. "
                f"{diverged_note(outcomes, readings, both)}",
                tuple(panels),
                columns=2,
            ),
        ),
        tables=(Table("anatomy-shares", "Shares of the squared error", pl.DataFrame(rows)),),
    )


def _percent_text(values: np.ndarray) -> str:
    return f"{mean_text(100 * values, '.0f')} %" if len(values) else mean_text(values)


EXPERIMENT = Experiment(
    name="anatomy",
    place=90,
    title="The anatomy of the anchors' error",
    paper_says=(
        "Anchors are inaccurate for two reasons: only a part of all transitions is accessible, as future ones are not "
        "there yet; and past transitions come from policies of other parameters."
    ),
    cells=figure_3_right.cells,
    show=show,
    budget_seconds=10,
)
