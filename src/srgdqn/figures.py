"""Figures of learning curves: a line for the mean over rounds, a band around it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from srgdqn.charts import BLACK, OLIVE, RED, SKY, STYLES, Style
from srgdqn.comparison import distinct_labels, require_one_task
from srgdqn.curves import AXES, SMOOTHING, Axis, Points, curve, points_of
from srgdqn.errors import InputError, unknown
from srgdqn.result import Result

Band = Literal["interval", "sd", "none"]

FORMATS = ("png", "pdf", "svg")


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

_ABOVE_BANDS = 3

_X_LABELS: dict[Axis, str] = {
    "episodes": "episodes",
    "steps": "environment steps",
    "queries": "gradient queries",
    "seconds": "training seconds per round",
}


def curve_panel(
    axes: Axes,
    results: Sequence[Result],
    *,
    x: Axis | None = None,
    band: Band = "interval",
    labels: Sequence[str] | None = None,
    without_band: Collection[str] = (),
    title: str | None = None,
    legend: bool = True,
) -> None:
    """Draws the learning curves of runs of one task.

    Args:
      axes: where to draw.
      results: the runs; where every budget is in episodes, curves show returns per episode, and rewards per action
        otherwise.
      x: what the curves are drawn against: `episodes` (only where curves show returns), `steps`, `queries` or
        `seconds` (a round's share of the wall clock, as `srgdqn.curves` defines it); by default the budget's unit.
      band: the mean's 95 % bootstrap `interval`, one `sd` over rounds to either side, or `none`.
      labels: one per run; by default the algorithms and what else tells the runs apart.
      without_band: algorithms that are drawn without their band.
      title: by default the task.
      legend: whether to draw one.

    """
    require_one_task(results)
    points = points_of(results)
    along = _axis(x, points)
    named = distinct_labels(results) if labels is None else labels
    for result, label, style in zip(results, named, _styles(results), strict=True):
        drawn = curve(result, points=points, x=along)
        (line,) = axes.plot(drawn.x, drawn.mean(), color=style.color, linestyle=style.dashes, zorder=_ABOVE_BANDS)
        line.set(label=_counted(result, label), linewidth=1.6)
        if band != "none" and result.configuration.algorithm not in without_band:
            low, high = drawn.interval_band() if band == "interval" else drawn.sd_band()
            if not np.isnan(low).all():  # a single round has no spread
                axes.fill_between(drawn.x, low, high, color=style.color, alpha=0.18, linewidth=0)
    _dress(axes, results, points, along, title)
    if legend:
        axes.legend(frameon=False, fontsize="small")


def comparison_figure(
    results: Sequence[Result], *, x: Axis | None = None, band: Band = "interval", labels: Sequence[str] | None = None
) -> Figure:
    """A figure of one panel, with a line below it that says what is drawn."""
    figure = Figure(figsize=(6.8, 4.4), layout="constrained")
    curve_panel(figure.subplots(), results, x=x, band=band, labels=labels)
    shown = {
        "interval": "mean over rounds and its 95 % bootstrap interval",
        "sd": "mean over rounds and one standard deviation to either side",
        "none": "mean over rounds",
    }[band]
    rounds = sorted({result.rounds.height for result in results})
    count = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    figure.supxlabel(f"{shown}; {count} round{'' if rounds == [1] else 's'}", fontsize="x-small", color="0.35")
    return figure


def check_figure(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a figure can be written there."""
    target = Path(path)
    suffix = target.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise InputError(
            f"{target} ends in {target.suffix!r}, which no figure can be written as. End it in "
            f"{', '.join('.' + name for name in FORMATS[:-1])} or .{FORMATS[-1]}."
        )
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written, because {target.parent} is not a folder. Make it first.")
    if os.path.lexists(target) and not (overwrite and target.is_file()):
        raise InputError(
            f"{target} exists already. Give another file, or overwrite it (--overwrite, or overwrite=True in Python)."
        )
    return target


def save_figure(figure: Figure, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes a figure in the format of its suffix, whole or not at all; the same figure gives the same bytes."""
    target = check_figure(path, overwrite=overwrite)
    suffix = target.suffix.removeprefix(".").lower()
    dates: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
    scratch = target.with_name(f".{secrets.token_hex(8)}.{suffix}")
    try:
        with _reproducible():
            figure.savefig(scratch, format=suffix, dpi=200, metadata=dates[suffix])
        os.replace(scratch, target)
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror or error}). Give another place.") from error
    finally:
        scratch.unlink(missing_ok=True)
    return target


@contextmanager
def _reproducible() -> Iterator[None]:
    with matplotlib.rc_context({"svg.hashsalt": "srgdqn", "svg.fonttype": "none", "pdf.fonttype": 42}):
        yield


def _axis(x: Axis | None, points: Points) -> Axis:
    if x is None:
        return "episodes" if points == "episodes" else "steps"
    if x not in AXES:
        raise unknown("axis", x, AXES)
    if x == "episodes" and points != "episodes":
        raise InputError(
            "x is 'episodes', but not every run has its budget in episodes. Give x = 'steps', 'queries' or 'seconds'."
        )
    return x


def _styles(results: Sequence[Result]) -> list[Style]:
    """A style for each run; the first run of an algorithm gets the algorithm's."""
    taken = {STYLES[name] for name in (result.configuration.algorithm for result in results) if name in STYLES}
    spare = [style for style in _SPARE if style not in taken]
    styles: list[Style] = []
    met: set[str] = set()
    for result in results:
        name = result.configuration.algorithm
        if name in STYLES and name not in met:
            styles.append(STYLES[name])
        else:
            spare.append(spare[0])
            styles.append(spare.pop(0))
        met.add(name)
    return styles


def _counted(result: Result, label: str) -> str:
    """The label, and how many rounds diverged: their curves are missing from there on."""
    diverged = int(result.rounds["diverged_at"].is_not_null().sum())
    return f"{label} ({diverged} of {result.rounds.height} diverged)" if diverged else label


def _dress(axes: Axes, results: Sequence[Result], points: Points, x: Axis, title: str | None) -> None:
    windows = sorted({result.configuration.training.window for result in results})
    if points == "episodes":
        axes.set_ylabel(f"return per episode\n(mean of the last {SMOOTHING})")
    elif len(windows) == 1:
        axes.set_ylabel(f"reward per action\n(windows of {windows[0]:,} steps)")
    else:
        axes.set_ylabel("reward per action")
    axes.set_xlabel(_X_LABELS[x])
    axes.set_title(results[0].configuration.task.task if title is None else title)
    if x in ("steps", "queries"):
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0)
    axes.set_xlim(left=0)
