"""What happened in a stretch of outer iterations, in words: what grew first, and what first was not finite.

A gradient does harm long before anything overflows. To find the cause, the Δ of all inner iterations are put in the
order in which they were made, and the first is searched from which on none came back to the usual size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

GROWN = 10.0
"""How many times the usual size is no longer usual."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """Something that happened to a quantity."""

    outer_iteration: int
    step: int
    m: int | None
    """The inner iteration; None after the last, in the Adam process."""
    quantity: str
    before: float | None
    """What it was the time before, where there was one."""
    now: float

    @property
    def where(self) -> str:
        """Its place, at the beginning of a sentence."""
        inner = "after the inner iterations" if self.m is None else f"m = {self.m}"
        return f"Outer iteration {self.outer_iteration:,} (step {self.step:,}), {inner}"


@dataclass(frozen=True)
class Diagnosis:
    """What happened in a stretch."""

    usual: float
    """The median of ‖Δ_m‖ in its first half."""
    growth: Event | None
    """The first Δ_m from which on none came back to the usual size; None where they stayed at it."""
    culprit: Row | None
    """The row of the inner iteration in which that happened."""
    excursion: Row | None
    """In an outer iteration before, the row of the largest Δ_m that was beyond the usual size, but came back."""
    steepest: Row | None
    """From then on, the row of the inner iteration in which Δ grew by the largest factor, and stayed finite."""
    nonfinite: Event | None
    """The first quantity that was not finite."""
    overflow: Event | None
    """The norm that the run watches, where it overflowed though every number was finite."""
    discarded: int | None
    """The outer iteration that the run discarded, if it did one."""
    words: tuple[str, ...]
    """All of it in sentences."""


def diagnose(iterations: pl.DataFrame, inner: pl.DataFrame, *, per_batch: bool = False) -> Diagnosis:
    """The diagnosis of traced outer iterations; `per_batch`: with one direction for all of D."""
    each = _worst_of_d(inner) if per_batch else inner.filter(pl.col("sample") == 0)
    usual = _usual(iterations, inner)
    norms = each["delta_norm"].to_numpy()
    near = np.flatnonzero(np.nan_to_num(norms, nan=np.inf) <= GROWN * usual)
    place = int(near[-1]) + 1 if len(near) else 0
    growth = culprit = steepest = overflow = None
    before = each.filter(pl.col("delta_norm").is_finite())
    if not math.isnan(usual) and place < len(norms):
        culprit = each.row(place, named=True)
        last = float(norms[place - 1]) if place else None
        growth = Event(culprit["outer_iteration"], culprit["step"], culprit["m"], "Δ", last, culprit["delta_norm"])
        before = before.filter(pl.col("outer_iteration") < growth.outer_iteration)
        steepest = _steepest(each.filter(pl.col("outer_iteration") >= growth.outer_iteration))
    excursion = _largest(before.filter(pl.col("delta_norm") > GROWN * usual), "delta_norm")
    nonfinite = _first_nonfinite(iterations, inner)
    gone = _largest(iterations.filter(pl.col("discarded")), "step")
    if gone is not None and nonfinite is None:
        squares, largest = "the squares of Δ or of θ", gone["largest_delta_norm"]
        overflow = Event(gone["outer_iteration"], gone["step"], None, squares, None, largest)
    growth_words = _growth_words(usual, growth, culprit, excursion, steepest, per_batch=per_batch)
    words = [*growth_words, *_end_words(nonfinite, overflow, gone)]
    discarded = None if gone is None else gone["outer_iteration"]
    return Diagnosis(usual, growth, culprit, excursion, steepest, nonfinite, overflow, discarded, tuple(words))


def _worst_of_d(inner: pl.DataFrame) -> pl.DataFrame:
    """Of each outer iteration the row of D with the largest error; one that is no number is larger than any."""
    size = pl.col("td_error").abs().fill_nan(math.inf)
    return inner.filter(size == size.max().over("outer_iteration")).unique("outer_iteration", maintain_order=True)


def _usual(iterations: pl.DataFrame, inner: pl.DataFrame) -> float:
    numbers = iterations["outer_iteration"].to_list()
    early = numbers[: max(1, len(numbers) // 2)]
    norms = inner.filter(pl.col("outer_iteration").is_in(early))["delta_norm"].to_numpy()
    if len(numbers) == 1:  # then only the anchor was made before anything could go wrong
        norms = norms[:1]
    norms = norms[np.isfinite(norms)]
    return float(np.median(norms)) if len(norms) else math.nan


def _largest(rows: pl.DataFrame, column: str) -> Row | None:
    """The first of the rows with the largest value; None if there are no rows."""
    place = rows[column].arg_max()
    return None if place is None else rows.row(place, named=True)


def _steepest(later: pl.DataFrame) -> Row | None:
    """Each Δ_m is compared with the Δ_{m-1} of its own outer iteration."""
    before = pl.col("delta_norm").shift(1).over("outer_iteration")
    factors = later.with_columns(factor=pl.col("delta_norm") / before, delta_before=before)
    return _largest(factors.filter(pl.col("factor").is_finite() & (pl.col("factor") > 1)), "factor")


# Every quantity in the order in which it is computed: before, in and after the inner iterations.
_FIRST = {"largest_td_error": "a TD error on D", "loss": "the loss on D"}
_EACH = {
    "td_error": "the TD error of the pick",
    "gradient_norm": "g(θ_m; x_m)",
    "reference_norm": "g(θ_ref; x_m)",
    "delta_norm": "Δ_m",
    "step_norm": "the step to θ_{m+1}",
}
_LAST = {
    "adam_input_norm": "Adam's input",
    "adam_first_norm": "Adam's m",
    "adam_second_norm": "Adam's v",
    "adam_step_norm": "Adam's step",
    "after_norm": "θ after the outer iteration",
}


def _first_nonfinite(iterations: pl.DataFrame, inner: pl.DataFrame) -> Event | None:
    before: dict[str, float] = {}
    for outer in iterations.iter_rows(named=True):
        mine = inner.filter(pl.col("outer_iteration") == outer["outer_iteration"]).iter_rows(named=True)
        stages = [(outer, 0, _FIRST), *((row, row["m"], _EACH) for row in mine), (outer, None, _LAST)]
        for row, m, quantities in stages:
            for column, name in quantities.items():
                value = row[column]
                if value is None:
                    continue
                if not math.isfinite(value):
                    return Event(row["outer_iteration"], row["step"], m, name, before.get(name), value)
                before[name] = value
    return None


def _growth_words(
    usual: float,
    growth: Event | None,
    culprit: Row | None,
    excursion: Row | None,
    steepest: Row | None,
    *,
    per_batch: bool,
) -> Iterator[str]:
    if growth is None or culprit is None:
        yield f"‖Δ_m‖ stayed at its usual size of this stretch, {usual:.4g}: at most {GROWN:g} times that in the end."
    else:
        was = "" if growth.before is None else f"from {growth.before:.4g} "
        yield (
            f"{growth.where}: ‖Δ‖ left its usual size of this stretch, {usual:.4g}, for good: it went {was}to "
            f"{growth.now:.4g}."
        )
        yield from _culprit_words(culprit, per_batch=per_batch)
    if excursion is not None:
        before = "" if growth is None else "Before that "
        yield (
            f"{before}‖Δ‖ had been at {excursion['delta_norm']:.4g} in outer iteration "
            f"{excursion['outer_iteration']:,}, m = {excursion['m']}, and had come back."
        )
    if steepest is not None and culprit is not None and _place(steepest) != _place(culprit):
        yield (
            f"It rose most steeply in outer iteration {steepest['outer_iteration']:,}, m = {steepest['m']}: from "
            f"{steepest['delta_before']:.4g} to {steepest['delta_norm']:.4g}, on the transition of step "
            f"{steepest['made_at']:,} (row {steepest['row']} of D), whose TD error was {steepest['td_error']:.4g}."
        )


def _place(row: Row) -> tuple[int, int]:
    return row["outer_iteration"], row["m"]


def _end_words(nonfinite: Event | None, overflow: Event | None, gone: Row | None) -> Iterator[str]:
    if nonfinite is not None:
        was = "" if nonfinite.before is None else f" (the time before it had been {nonfinite.before:.4g})"
        yield f"{nonfinite.where}: {nonfinite.quantity} was the first that was no finite number{was}."
    if overflow is not None:
        yield (
            f"{overflow.where}: every number was still finite, but {overflow.quantity} overflowed in the norms that "
            "the run watches."
        )
    if gone is not None:
        yield (
            f"The round was frozen at step {gone['step']:,} with the parameters that it had before outer iteration "
            f"{gone['outer_iteration']:,}."
        )


def _culprit_words(row: Row, *, per_batch: bool) -> Iterator[str]:
    m = row["m"]
    if m == 0:
        yield "It was the anchor, the gradient on all of D: what moved θ there had come before."
        return
    whose = "What has the largest TD error" if per_batch else "Its pick"
    seen, then = _shown(row["observation"]), _shown(row["next_observation"])
    shown = "" if not seen else f": S = {seen}, A = {row['action']}, R = {row['reward']:.4g}, S' = {then}"
    ended = ", where its episode terminated" if row["terminated"] else ""
    yield (
        f"{whose}, row {row['row']} of D, is the transition of step {row['made_at']:,}{shown}{ended}. There "
        f"Q(S, A; θ_{m}) = {row['q']:.4g} and y = {row['target']:.4g}, so that the TD error was {row['td_error']:.4g}."
    )
    of = "D" if per_batch else f"x_{m}"
    terms = {f"‖g(θ_{m}; {of})‖": row["gradient_norm"], f"‖g(θ_ref; {of})‖": row["reference_norm"]}
    norms = ", ".join(f"{name} = {value:.4g}" for name, value in terms.items() if value is not None)
    yield f"{norms}; the step that followed had length {row['step_norm']:.4g}, at ‖θ_{m}‖ = {row['theta_norm']:.4g}."


def _shown(numbers: Sequence[float] | None) -> str:
    if numbers is None or len(numbers) > 12:
        return ""
    return f"({', '.join(f'{number:.4g}' for number in numbers)})"
