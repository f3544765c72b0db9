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


@dataclass(frozen=True)
class Diagnosis:
    """What happened in a stretch."""

    usual: float
    """The median of ‖Δ_m‖ in its first half."""
    growth: Event | None
    """The first Δ_m from which on none came back to the usual size; None where they stayed at it."""
    culprit: dict[str, Any] | None
    """The row of the inner iteration in which that happened."""
    excursion: dict[str, Any] | None
    """In an outer iteration before, the row of the largest Δ_m that was beyond the usual size, but came back."""
    steepest: dict[str, Any] | None
    """From then on, the row of the inner iteration in which Δ grew by the largest factor, and stayed finite."""
    nonfinite: Event | None
    """The first quantity that was not finite."""
    overflow: Event | None
    """The norm that the run watches, where it overflowed though every number was finite."""
    discarded: int | None
    """The outer iteration that the run discarded, if it did one."""
    words: tuple[str, ...]
    """All of it in sentences."""


def diagnose(iterations: pl.DataFrame, inner: pl.DataFrame) -> Diagnosis:
    """The diagnosis of traced outer iterations."""
    usual = _usual(iterations, inner)
    growth, culprit = _growth(inner, usual)
    steepest = None if growth is None else _steepest(inner, growth)
    excursion = _excursion(inner, usual, growth)
    nonfinite = _first_nonfinite(iterations, inner)
    gone = iterations.filter(pl.col("discarded"))
    discarded = gone["outer_iteration"][0] if gone.height else None
    overflow = None
    if gone.height and nonfinite is None:
        last = gone.row(0, named=True)
        overflow = Event(
            last["outer_iteration"], last["step"], None, "the squares of Δ or of θ", None, last["largest_delta_norm"]
        )
    words = tuple(_words(usual, growth, culprit, excursion, steepest, nonfinite, overflow, gone))
    return Diagnosis(usual, growth, culprit, excursion, steepest, nonfinite, overflow, discarded, words)


def _usual(iterations: pl.DataFrame, inner: pl.DataFrame) -> float:
    numbers = iterations["outer_iteration"].to_list()
    early = numbers[: max(1, len(numbers) // 2)]
    norms = inner.filter(pl.col("outer_iteration").is_in(early))["delta_norm"].to_numpy()
    if len(numbers) == 1:  # then only the anchor was made before anything could go wrong
        norms = norms[:1]
    norms = norms[np.isfinite(norms)]
    return float(np.median(norms)) if len(norms) else math.nan


def _growth(inner: pl.DataFrame, usual: float) -> tuple[Event | None, dict[str, Any] | None]:
    once = inner.filter(pl.col("sample") == 0)
    norms = once["delta_norm"].to_numpy()
    near = np.flatnonzero(np.nan_to_num(norms, nan=np.inf) <= GROWN * usual)
    place = 0 if not len(near) else int(near[-1]) + 1
    if math.isnan(usual) or place >= len(norms):
        return None, None
    row = once.row(place, named=True)
    before = float(norms[place - 1]) if place else None
    return Event(row["outer_iteration"], row["step"], row["m"], "Δ", before, row["delta_norm"]), row


def _excursion(inner: pl.DataFrame, usual: float, growth: Event | None) -> dict[str, Any] | None:
    earlier = inner.filter((pl.col("sample") == 0) & pl.col("delta_norm").is_finite())
    if growth is not None:
        earlier = earlier.filter(pl.col("outer_iteration") < growth.outer_iteration)
    beyond = earlier.filter(pl.col("delta_norm") > GROWN * usual)
    if not beyond.height:
        return None
    return beyond.sort("delta_norm", descending=True, maintain_order=True).row(0, named=True)


def _steepest(inner: pl.DataFrame, growth: Event) -> dict[str, Any] | None:
    """Each Δ_m is compared with the Δ_{m-1} of its own outer iteration."""
    later = inner.filter((pl.col("sample") == 0) & (pl.col("outer_iteration") >= growth.outer_iteration))
    before = pl.col("delta_norm").shift(1).over("outer_iteration")
    factors = later.with_columns(factor=pl.col("delta_norm") / before, delta_before=before)
    finite = factors.filter(pl.col("factor").is_finite() & (pl.col("factor") > 1))
    if not finite.height:
        return None
    return finite.sort("factor", descending=True, maintain_order=True).row(0, named=True)


_ORDER = (
    ("td_error", "the TD error of the pick"),
    ("gradient_norm", "g(θ_m; x_m)"),
    ("reference_norm", "g(θ_ref; x_m)"),
    ("delta_norm", "Δ_m"),
    ("step_norm", "the step to θ_{m+1}"),
)
_FIRST = (("largest_td_error", "a TD error on D"), ("loss", "the loss on D"))
_LAST = (
    ("adam_input_norm", "Adam's input"),
    ("adam_first_norm", "Adam's m"),
    ("adam_second_norm", "Adam's v"),
    ("adam_step_norm", "Adam's step"),
    ("after_norm", "θ after the outer iteration"),
)


def _first_nonfinite(iterations: pl.DataFrame, inner: pl.DataFrame) -> Event | None:
    before: dict[str, float] = {}
    for row, m, name, value in _in_order(iterations, inner):
        if not math.isfinite(value):
            return Event(row["outer_iteration"], row["step"], m, name, before.get(name), value)
        before[name] = value
    return None


def _in_order(iterations: pl.DataFrame, inner: pl.DataFrame) -> Iterator[tuple[dict[str, Any], int | None, str, float]]:
    """Every quantity in the order in which it was computed."""
    for row in iterations.iter_rows(named=True):
        for column, name in _FIRST:
            yield row, 0, name, row[column]
        for each in inner.filter(pl.col("outer_iteration") == row["outer_iteration"]).iter_rows(named=True):
            for column, name in _ORDER:
                if each[column] is not None:
                    yield each, each["m"], name, each[column]
        for column, name in _LAST:
            if row[column] is not None:
                yield row, None, name, row[column]


def _words(
    usual: float,
    growth: Event | None,
    culprit: dict[str, Any] | None,
    excursion: dict[str, Any] | None,
    steepest: dict[str, Any] | None,
    nonfinite: Event | None,
    overflow: Event | None,
    gone: pl.DataFrame,
) -> Iterator[str]:
    if growth is None:
        yield f"‖Δ_m‖ stayed at its usual size of this stretch, {usual:.4g}: at most {GROWN:g} times that in the end."
    else:
        was = "" if growth.before is None else f"from {growth.before:.4g} "
        yield (
            f"{_where(growth)}: ‖Δ‖ left its usual size of this stretch, {usual:.4g}, for good: it went {was}to "
            f"{growth.now:.4g}."
        )
        assert culprit is not None
        yield from _culprit_words(culprit)
    if excursion is not None:
        before = "" if growth is None else "Before that "
        yield (
            f"{before}‖Δ‖ had been at {excursion['delta_norm']:.4g} in outer iteration "
            f"{excursion['outer_iteration']:,}, m = {excursion['m']}, and had come back."
        )
    if steepest is not None and not _same_place(steepest, culprit):
        yield (
            f"It rose most steeply in outer iteration {steepest['outer_iteration']:,}, m = {steepest['m']}: from "
            f"{steepest['delta_before']:.4g} to {steepest['delta_norm']:.4g}, on the transition of step "
            f"{steepest['made_at']:,} (row {steepest['row']} of D), whose TD error was {steepest['td_error']:.4g}."
        )
    if nonfinite is not None:
        was = "" if nonfinite.before is None else f" (the time before it had been {nonfinite.before:.4g})"
        yield f"{_where(nonfinite)}: {nonfinite.quantity} was the first that was no finite number{was}."
    if overflow is not None:
        yield (
            f"{_where(overflow)}: every number was still finite, but {overflow.quantity} overflowed in the norms that "
            "the run watches."
        )
    if gone.height:
        number, step = gone["outer_iteration"][0], gone["step"][0]
        yield (
            f"The round was frozen at step {step:,} with the parameters that it had before outer iteration {number:,}."
        )


def _same_place(one: dict[str, Any], other: dict[str, Any] | None) -> bool:
    return other is not None and all(one[name] == other[name] for name in ("outer_iteration", "m"))


def _culprit_words(row: dict[str, Any]) -> Iterator[str]:
    m = row["m"]
    if m == 0:
        yield "It was the anchor, the gradient on all of D: what moved θ there had come before."
        return
    seen, then = _shown(row["observation"]), _shown(row["next_observation"])
    shown = "" if not seen else f": S = {seen}, A = {row['action']}, R = {row['reward']:.4g}, S' = {then}"
    ended = ", where its episode terminated" if row["terminated"] else ""
    yield (
        f"Its pick, row {row['row']} of D, is the transition of step {row['made_at']:,}{shown}{ended}. There "
        f"Q(S, A; θ_{m}) = {row['q']:.4g} and y = {row['target']:.4g}, so that the TD error was {row['td_error']:.4g}."
    )
    terms = {f"‖g(θ_{m}; x_{m})‖": row["gradient_norm"], f"‖g(θ_ref; x_{m})‖": row["reference_norm"]}
    norms = ", ".join(f"{name} = {value:.4g}" for name, value in terms.items() if value is not None)
    yield f"{norms}; the step that followed had length {row['step_norm']:.4g}, at ‖θ_{m}‖ = {row['theta_norm']:.4g}."


def _where(event: Event) -> str:
    inner = "after the inner iterations" if event.m is None else f"m = {event.m}"
    return f"Outer iteration {event.outer_iteration:,} (step {event.step:,}), {inner}"


def _shown(numbers: Sequence[float] | None) -> str:
    if numbers is None or len(numbers) > 12:
        return ""
    return f"({', '.join(f'{number:.4g}' for number in numbers)})"
