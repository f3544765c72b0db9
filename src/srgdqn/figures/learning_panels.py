"""From training results to a panel of learning curves: a line for the mean over rounds, a band around it.

A mean over the rounds that are left flatters whoever loses the bad ones. Where it is known what a diverged round scores
(`fill`), a line is the mean over all rounds: dashed, and without a band, from where fewer than four fifths are left,
with their number at its end. The mean over those that are left is beside it, switched off at first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from srgdqn.errors import InputError, unknown
from srgdqn.figures.charts import BLACK, OLIVE, RED, SKY, STYLES, Panel, Series, Style
from srgdqn.results.comparison import distinct_labels, require_one_task
from srgdqn.results.curves import AXES, SMOOTHING, Axis, Curve, Points, curves_along, points_of
from srgdqn.results.result import Result

Band = Literal["interval", "sd", "none"]

Fill = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
"""What diverged rounds score: from the values of all runs by label, (rounds, points) with NaN where a round has no such
point, and from which of their rounds diverged, to the values where a round that has diverged by then has its score.
"""

# From where fewer are left a line is dashed: four of five.
_FEWEST_LEFT, _OF = 4, 5
_DASHED: dict[str, Literal["--", ":"]] = {"-": "--", "--": ":", ":": "--", "-.": ":"}

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
    fill: Fill | None = None,
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
      fill: what diverged rounds score, so that curves are means over all rounds; without it a curve is the mean over
        the rounds that are left. Along costs a curve ends where no round is left.

    """
    require_one_task(results)
    points = points_of(results)
    along = default_axes(results) if axes is None else tuple(_checked(axis, points) for axis in axes)
    named = distinct_labels(results) if labels is None else labels
    styles = _styles(results, named)
    bands: list[Band] = ["none" if each.configuration.algorithm in without_band else band for each in results]
    if fill is None:
        series = _series_of_rounds_left(results, named, styles, bands, points, along, group, count_diverged)
    else:
        series = _series_of_all_rounds(results, named, styles, bands, points, along, group, fill)
    return Panel(
        title=results[0].configuration.task.task,
        y_label=_y_label(results, points),
        x_labels={axis: X_LABELS[axis] for axis in along},
        series=tuple(series),
    )


def _series_of_rounds_left(
    results: Sequence[Result],
    labels: Sequence[str],
    styles: Sequence[Style],
    bands: Sequence[Band],
    points: Points,
    along: Sequence[Axis],
    group: str,
    count_diverged: bool,
) -> list[Series]:
    series = []
    for result, label, style, band in zip(results, labels, styles, bands, strict=True):
        curves = curves_along(result, along, points=points)
        drawn = curves[along[0]]
        low, high = _band(drawn, band)
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
    return series


class ScoredRounds(NamedTuple):
    """A run's rounds at every point of a curve."""

    values: np.ndarray
    """(rounds, points); NaN where a round has no such point."""
    diverged: np.ndarray
    """Of every round, whether it ever did."""
    filled: np.ndarray
    """The values, where a round that has diverged by then has what it scores."""

    @property
    def left(self) -> np.ndarray:
        """How many rounds have not diverged by each point."""
        return np.asarray((~self.diverged[:, None] | np.isfinite(self.values)).sum(0))


def scored_series(
    label: str,
    style: Style,
    x: Mapping[str, np.ndarray],
    rounds: ScoredRounds,
    *,
    band: Band = "sd",
    group: str = "",
    shown: bool = True,
    clipped: bool = False,
) -> list[Series]:
    """The curve of all rounds, in two parts where it begins to be dashed, and that of the rounds left, switched off;
    nothing where there is no point.

    The last point before the dashes is in both parts. A `clipped` band goes no further than the rounds' own values.
    """
    drawn, left, total = Curve(np.arange(rounds.filled.shape[1]), rounds.filled), rounds.left, len(rounds.values)
    points = len(left)
    if not points:
        return []
    few = np.flatnonzero(_OF * left < _FEWEST_LEFT * total)
    start = int(few[0]) if len(few) else points
    mean, (low, high) = drawn.mean(), _band(drawn, band)
    if clipped and low is not None and high is not None:
        low = np.maximum(low, np.fmin.reduce(rounds.filled, 0))
        high = np.minimum(high, np.fmax.reduce(rounds.filled, 0))
    lost = bool(left[-1] < total)
    note = f"{left[-1] or 'none'} of {total} left" if lost else ""

    whole = Series(label, style, dict(x), mean, low, high, group=group, shown=shown, note=note)
    series = []
    if start > 1 or start == points:
        head = _cut(whole, slice(0, start))
        series.append(head if start == points else replace(head, note=""))
    if start < points:
        dashed = Style(style.color, _DASHED[style.dashes])
        tail = _cut(whole, slice(max(start - 1, 0), points))
        series.append(replace(tail, style=dashed, low=None, high=None))
    present = np.isfinite(rounds.values).any(0)
    if lost and present.any():
        positions = {axis: values[present] for axis, values in x.items()}
        survivors = Curve(np.arange(points), rounds.values).mean()[present]
        dotted = Style(style.color, "-.")
        series.append(Series(f"{label}, survivors only", dotted, positions, survivors, group=group, shown=False))
    return series


def _cut(series: Series, where: slice) -> Series:
    low, high = (None if edge is None else edge[where] for edge in (series.low, series.high))
    x = {axis: positions[where] for axis, positions in series.x.items()}
    return replace(series, x=x, y=series.y[where], low=low, high=high)


def _series_of_all_rounds(
    results: Sequence[Result],
    labels: Sequence[str],
    styles: Sequence[Style],
    bands: Sequence[Band],
    points: Points,
    along: Sequence[Axis],
    group: str,
    fill: Fill,
) -> list[Series]:
    place: Axis = "episodes" if points == "episodes" else "steps"
    axes = tuple(dict.fromkeys((*along, place)))
    found = [curves_along(result, axes, points=points) for result in results]
    grid = np.unique(np.concatenate([curves[place].x for curves in found]))  # of a run that was lost early, the others'
    values: dict[str, np.ndarray] = {}
    x: dict[str, dict[str, np.ndarray]] = {}
    for label, curves in zip(labels, found, strict=True):
        columns = np.searchsorted(grid, curves[place].x)
        values[label] = np.full((len(curves[place].values), len(grid)), np.nan)
        values[label][:, columns] = curves[place].values
        x[label] = {axis: np.full(len(grid), np.nan) for axis in along}
        for axis in along:
            x[label][axis][columns] = curves[axis].x
        if place in along:
            x[label][place] = grid
    diverged = {label: _diverged(result) for label, result in zip(labels, results, strict=True)}
    filled = fill(values, diverged)
    series = []
    for label, style, band in zip(labels, styles, bands, strict=True):
        rounds = ScoredRounds(values[label], diverged[label], filled[label])
        series += scored_series(label, style, x[label], rounds, band=band, group=group)
    return series


def _diverged(result: Result) -> np.ndarray:
    return result.rounds.sort("round")["diverged_at"].is_not_null().to_numpy()


def _band(curve: Curve, band: Band) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The edges around the mean; none where there is no spread, as of a single round."""
    if band == "none":
        return None, None
    low, high = curve.interval_band() if band == "interval" else curve.sd_band()
    return (None, None) if np.isnan(low).all() else (low, high)


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
    return f"{label} ({_diverged(result).sum()} of {result.rounds.height} diverged)"


def _y_label(results: Sequence[Result], points: Points) -> str:
    if points != "windows":
        return f"return per episode\n(mean of the last {SMOOTHING})"
    windows = sorted({result.configuration.training.window for result in results})
    return f"reward per action\n(windows of {windows[0]:,} steps)" if len(windows) == 1 else "reward per action"
