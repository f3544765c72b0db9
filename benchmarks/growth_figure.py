"""Curves of growth, and their image: small multiples on logarithmic axes, with the fitted powers as dashed lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from exponents import Exponent, fit_exponent, upper_half

_COLUMNS = 3
_COLOURS = ("tab:blue", "tab:orange", "tab:green")


class Measure(NamedTuple):
    """What is drawn, in which unit."""

    title: str
    unit: str
    per_unit: float  # units in one of what was measured


MEASURES = {
    "seconds_per_step": Measure("time of a round's step", "µs", 1e6),
    "peak_mib": Measure("peak memory", "MiB", 1.0),
}


class Curve(NamedTuple):
    """How a measure grows along an axis with a kernel."""

    measure: str
    axis: str
    kernel: str
    points: list[tuple[float, float]]

    @property
    def name(self) -> dict[str, str]:
        """What curve it is."""
        return {"measure": self.measure, "axis": self.axis, "kernel": self.kernel}

    @property
    def fitted(self) -> Exponent | None:
        """The power with which it grows, over the upper half of its range."""
        return fit_exponent(self.points)


def draw_growth(path: Path, curves: Sequence[Curve]) -> None:
    """Writes the image: for each measure a panel per axis, in which every kernel has a curve."""
    # Only now: a process that is started by one with much in memory counts that as its own peak.
    from matplotlib.figure import Figure

    axes_names = list(dict.fromkeys(curve.axis for curve in curves))
    kernels = list(dict.fromkeys(curve.kernel for curve in curves))
    rows = -(-len(axes_names) // _COLUMNS)
    figure = Figure(figsize=(3.6 * _COLUMNS, 2.8 * rows * len(MEASURES)), layout="constrained")
    parts = figure.subfigures(len(MEASURES), 1)
    for part, (measure, about) in zip(parts, MEASURES.items(), strict=True):
        part.suptitle(about.title, fontweight="bold")
        panels = iter(part.subplots(rows, _COLUMNS, sharey=True, squeeze=False).flat)
        for name, panel in zip(axes_names, panels, strict=False):
            for curve in curves:
                if (curve.measure, curve.axis) == (measure, name):
                    _draw_curve(panel, curve, about, _COLOURS[kernels.index(curve.kernel) % len(_COLOURS)])
            panel.set(xscale="log", yscale="log", xlabel=name)
            panel.grid(alpha=0.3)
            panel.legend(fontsize="small")
        for spare in panels:
            spare.set_visible(False)
        for first in part.axes[::_COLUMNS]:
            first.set_ylabel(about.unit)
    figure.savefig(path, dpi=150)


def _draw_curve(panel: Any, curve: Curve, about: Measure, colour: str) -> None:
    points = sorted(curve.points)
    fitted = curve.fitted
    label = curve.kernel if fitted is None else f"{curve.kernel}: $x^{{{fitted.exponent:.2f}}}$"
    panel.plot([x for x, _ in points], [y * about.per_unit for _, y in points], "o-", color=colour, ms=4, label=label)
    if fitted is None:
        return
    upper = upper_half(points)
    # A line by least squares passes through the means of the logarithms.
    middle_x, middle_y = (math.exp(sum(math.log(point[axis]) for point in upper) / len(upper)) for axis in (0, 1))
    ends = [upper[0][0], upper[-1][0]]
    line = [about.per_unit * middle_y * (x / middle_x) ** fitted.exponent for x in ends]
    panel.plot(ends, line, "--", color="0.2", lw=1)
