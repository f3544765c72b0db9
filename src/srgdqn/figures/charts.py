"""Figures as data: what is drawn, free of any drawing library, so that an image and an interactive page show the same.

`figures.images` draws a chart with matplotlib, `paper.report` makes it interactive; `data_of` is the table behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import polars as pl


class Style(NamedTuple):
    """How a series is drawn. Lines of one colour differ in their dashes, so that no two need colour alone."""

    color: str
    dashes: Literal["-", "--", ":", "-."] = "-"


# The paper's four have its colours (blue, green, purple, orange), in shades that colour-blind readers can distinguish;
# controls have the colour of what they control for, or one of their own; what does not learn is grey.
BLUE, GREEN, PURPLE, ORANGE = "#0066b4", "#00916b", "#8c4ba0", "#e68a00"
SKY, RED, GREY, BLACK, OLIVE, BROWN = "#4fb3e8", "#c8321e", "#8a8a8a", "#202020", "#8a8a1e", "#8c5a3c"

STYLES: dict[str, Style] = {
    "dqn-sgd": Style(BLUE),
    "svr-dqn": Style(GREEN),
    "srg-dqn-no-adam": Style(PURPLE),
    "srg-dqn": Style(ORANGE),
    "svr-dqn-no-adam": Style(GREEN, "--"),
    "sgd-inner": Style(SKY, "--"),
    "sgd-inner-adam": Style(SKY),
    "dqn-sgd-17eta": Style(BLUE, "--"),
    "dqn-sgd-queries": Style(BLUE, ":"),
    "dqn-gd": Style(BROWN, "--"),
    "dqn-gd-adam": Style(BROWN),
    "dqn-adam": Style(RED),
    "dqn-adam-repeated": Style(RED, "--"),
    "srg-adam-steps": Style(ORANGE, "--"),
    "svr-adam-steps": Style(GREEN, "-."),
    "sgd-adam-steps": Style(SKY, ":"),
    "sgd-adam-steps-b2": Style(SKY, "-."),
    "dqn-storm": Style(PURPLE, "--"),
    "dqn-mars": Style(BROWN, ":"),
    "random": Style(GREY, ":"),
    "untrained": Style(GREY),
}


@dataclass(frozen=True, eq=False)
class Series:
    """One line or set of points."""

    label: str
    style: Style
    x: Mapping[str, np.ndarray]
    """Positions by the name of an axis (`steps`, `queries`, …); every series of a panel has the panel's axes."""
    y: np.ndarray
    low: np.ndarray | None = None
    """Lower edge of the band around a line, or of the error bars of points."""
    high: np.ndarray | None = None
    kind: Literal["line", "points"] = "line"
    group: str = ""
    """Series that are switched on and off together, such as a set of readings; beside the label in legends."""
    shown: bool = True
    """Whether an interactive figure starts with it on. An image shows only those that do."""
    note: str = ""
    """What stands at the end of a line, such as how many rounds are left."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes."""

    title: str
    y_label: str
    x_labels: Mapping[str, str]
    """The axes that x can be shown along, the first by default, each with its label."""
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    categories: tuple[str, ...] = ()
    """Names of the positions 0, 1, 2, … where x is not a number."""
    y_categories: tuple[str, ...] = ()
    """The same for y, from below."""
    horizontal: bool = False
    """Whether y runs to the right and the categories stand below each other, the first on top, as in a forest plot;
    only for points in categories.
    """


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure: panels side by side, `columns` in a row, and a sentence that says what is drawn."""

    name: str
    """The name of its files."""
    title: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 3


PointSize = Literal["large", "small", "ticks"]
_MANY_POINTS = 100


def point_size(panel: Panel) -> PointSize:
    """How the points of a panel are drawn: small if some series has many, as ticks if y has names instead of values."""
    if panel.y_categories:
        return "ticks"
    return "small" if any(len(each.y) > _MANY_POINTS for each in panel.series if each.kind == "points") else "large"


_FLAT = 10  # how much larger some values may be than others before these lie flat on a linear axis


def needs_log(series: Sequence[Series]) -> bool:
    """Whether what is shown of positive values spans so much that a linear axis would hide the small ones."""
    shown = [each.y[np.isfinite(each.y)] for each in series if each.shown]
    values = np.concatenate(shown) if shown else np.empty(0)
    return bool(len(values) and values.min() > 0 and values.max() >= _FLAT * values.min())


def data_of(chart: Chart) -> pl.DataFrame:
    """Every point of a chart: a row per panel, series and point."""
    frames = []
    for panel in chart.panels:
        for series in panel.series:
            nothing = np.full(len(series.y), np.nan)
            columns: dict[str, object] = {
                "panel": [panel.title] * len(series.y),
                "series": [series.label] * len(series.y),
                "group": [series.group] * len(series.y),
            }
            columns |= {name: np.asarray(values, float) for name, values in series.x.items()}
            columns |= {
                "y": np.asarray(series.y, float),
                "low": nothing if series.low is None else np.asarray(series.low, float),
                "high": nothing if series.high is None else np.asarray(series.high, float),
            }
            frames.append(pl.DataFrame(columns))
    return pl.concat(frames, how="diagonal")
