"""The norms over a replayed stretch, as a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from srgdqn.figures.charts import (
    BLACK,
    BLUE,
    GREEN,
    RED,
    Chart,
    Panel,
    Series,
    Style,
)

if TYPE_CHECKING:
    from srgdqn.inspection.replay import Replay

_AXIS = {"outer_iterations": "outer iteration, with its inner ones"}


def chart_of(replay: Replay) -> Chart:
    """Gradients and Δ, errors, and parameters and steps, inner iteration by inner iteration."""
    inner = replay.inner.filter(pl.col("sample") == 0)
    count = max(inner["m"].to_list(), default=0) + 2
    x = {"outer_iterations": inner["outer_iteration"].to_numpy() + inner["m"].to_numpy() / count}
    outer = {"outer_iterations": replay.iterations["outer_iteration"].to_numpy().astype(float)}

    def line(label: str, style: Style, column: str, along: dict, table: pl.DataFrame) -> Series:
        values = np.abs(table[column].cast(pl.Float64).fill_null(np.nan).to_numpy())
        return Series(label, style, along, np.where(np.isfinite(values) & (values > 0), values, np.nan))

    gradients = [
        line("‖g(θ_m; x_m)‖", Style(BLUE), "gradient_norm", x, inner),
        line("‖g(θ_ref; x_m)‖", Style(BLUE, "--"), "reference_norm", x, inner),
        line("‖Δ_m‖", Style(RED), "delta_norm", x, inner),
    ]
    errors = [
        line("|TD error| of the pick", Style(GREEN), "td_error", x, inner),
        line("largest on D", Style(GREEN, "--"), "largest_td_error", outer, replay.iterations),
        line("loss on D", Style(BLACK, ":"), "loss", outer, replay.iterations),
    ]
    moves = [
        line("‖θ_m‖", Style(BLACK), "theta_norm", x, inner),
        line("step", Style(RED, "--"), "step_norm", x, inner),
        line("Adam's step", Style(BLUE, ":"), "adam_step_norm", outer, replay.iterations),
    ]
    panels = tuple(
        Panel(title, label, _AXIS, tuple(each for each in series if np.isfinite(each.y).any()), log_y=True)
        for title, label, series in (
            ("gradients", "norm", gradients),
            ("errors", "size", errors),
            ("parameters and steps", "norm", moves),
        )
    )
    caption = "A gap is where a value was no finite number."
    return Chart("replay", f"round {replay.number}", caption, panels)
