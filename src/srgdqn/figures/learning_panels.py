"""From training results to a panel of learning curves: a line for the mean over rounds, a band around it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np

from srgdqn.errors import InputError, unknown
from srgdqn.figures.charts import BLACK, OLIVE, RED, SKY, STYLES, Panel, Series, Style
from srgdqn.results.comparison import distinct_labels, require_one_task
from srgdqn.results.curves import AXES, SMOOTHING, Axis, Points, curves_along, points_of
from srgdqn.results.result import Result

Band = Literal["interval", "sd", "none"]

X_LABELS: dict[Axis, str] = {
    "episodes": "episodes",
    "steps": "environment steps",
    "queries": "gradient queries",
    "seconds": "training seconds per round",
}

# For algorithms without a style, and for further runs of one that is drawn already.
_SPARE = (
    Style(BLACK),
    Style(SKY),
    Style(RED),
    Style(OLIVE),
    Style(BLACK, "--"),
    Style(SKY, ":"),
    Style(RED, "--"),
    Style(OLIVE, "-."),
)


def learning_panel(
    results: Sequence[Result],
    *,
    axes: Sequence[Axis] | None = None,
    band: Band = "interval",
    labels: Sequence[str] | None = None,
    without_band: Collection[str] = (),
    group: str = "",
    count_diverged: bool = False,
) -> Panel:
    """The learning curves of runs of one task.

    Args:
      results: the runs; where every budget is in episodes, or all were trained in Gymnasium's environments, curves show
        returns per episode, and rewards per action otherwise.
      axes: what the curves can be shown against, the default first: `episodes` (only where budgets are in episodes),
        `steps`, `queries` or `seconds` (a round's share of the wall clock, as `results.curves` defines it); by default
        all that there are, the budget's unit first.
      band: the mean's 95 % bootstrap `interval`, one `sd` over rounds to either side, or `none`.
      labels: one per run, which has the style of that name, if there is one, and of its algorithm otherwise; by
        default the algorithm and what else differs between the runs.
      without_band: algorithms that are drawn without their band.
      group: curves that are switched on and off together.
      count_diverged: whether labels say how many rounds diverged. Panels that share a legend need equal labels.

    """
    require_one_task(results)
    points = points_of(results)
    along = default_axes(results) if axes is None else tuple(_checked(axis, points) for axis in axes)
    named = distinct_labels(results) if labels is None else labels
    series = []
    for result, label, style in zip(results, named, _styles(results, named), strict=True):
        curves = curves_along(result, along, points=points)
        drawn = curves[along[0]]
        low = high = None
        if band != "none" and result.configuration.algorithm not in without_band:
            low, high = drawn.interval_band() if band == "interval" else drawn.sd_band()
            if np.isnan(low).all():  # a single round has no spread
                low = high = None
        series.append(
            Series(
                label=_counted(result, label) if count_diverged else label,
                style=style,
                x={axis: found.x for axis, found in curves.items()},
                y=drawn.mean(),
                low=low,
                high=high,
                group=group,
            )
        )
    return Panel(
        title=results[0].configuration.task.task,
        y_label=_y_label(results, points),
        x_labels={axis: X_LABELS[axis] for axis in along},
        series=tuple(series),
    )


def default_axes(results: Sequence[Result]) -> tuple[Axis, ...]:
    """All that the curves of runs can be shown against, the unit of their budgets first."""
    return AXES if points_of(results) == "episodes" else tuple(axis for axis in AXES if axis != "episodes")


def _checked(axis: Axis, points: Points) -> Axis:
    if axis not in AXES:
        raise unknown("axis", axis, AXES)
    if axis == "episodes" and points != "episodes":
        raise InputError(
            "x is 'episodes', but not every run has its budget in episodes. Give x = 'steps', 'queries' or 'seconds'."
        )
    return axis


def _styles(results: Sequence[Result], labels: Sequence[str]) -> list[Style]:
    """A style for each run; the first of a name gets the name's."""
    names = [
        label if label in STYLES else result.configuration.algorithm
        for result, label in zip(results, labels, strict=True)
    ]
    taken = {STYLES[name] for name in names if name in STYLES}
    spare = [style for style in _SPARE if style not in taken]
    styles: list[Style] = []
    seen: set[str] = set()
    for name in names:
        if name in STYLES and name not in seen:
            styles.append(STYLES[name])
        else:
            spare.append(spare[0])
            styles.append(spare.pop(0))
        seen.add(name)
    return styles


def _counted(result: Result, label: str) -> str:
    """The label, and how many rounds diverged: their curves are missing from there on."""
    diverged = int(result.rounds["diverged_at"].is_not_null().sum())
    return f"{label} ({diverged} of {result.rounds.height} diverged)"


def _y_label(results: Sequence[Result], points: Points) -> str:
    if points != "windows":
        return f"return per episode\n(mean of the last {SMOOTHING})"
    windows = sorted({result.configuration.training.window for result in results})
    return f"reward per action\n(windows of {windows[0]:,} steps)" if len(windows) == 1 else "reward per action"
