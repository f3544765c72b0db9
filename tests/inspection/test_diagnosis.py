"""What grew first and what first was no number, in traces of which that is known."""

from typing import Any

import polars as pl
import pytest

from srgdqn.inspection.diagnosis import Diagnosis, diagnose
from srgdqn.inspection.trace import INNER, ITERATIONS, joined

M = 3
NAN, INF = float("nan"), float("inf")


def tables(deltas: list[list[float]], discarded: bool = False, **changed: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Outer iterations 5, 6, … with these ‖Δ_m‖; `changed` gives other columns of the last inner table's rows by
    (m, column).
    """
    iterations, inner = [], []
    for index, norms in enumerate(deltas):
        number, last = 5 + index, index == len(deltas) - 1
        shared = {"outer_iteration": number, "step": 16 * number}
        usual = {name: 1.0 for name in ITERATIONS if name not in ("outer_iteration", "step", "discarded")}
        row = usual | shared | {"largest_td_row": 0, "largest_td_made_at": 3, "largest_delta_norm": max(norms)}
        row |= {"discarded": discarded and last, "difference": None if discarded and last else 0.0}
        iterations.append(row | (changed.get("outer", {}) if last else {}))
        for m, norm in enumerate(norms):
            place = {"m": m, "sample": 0, "delta_norm": norm, "gradient_norm": norm, "step_norm": norm / 10}
            pick = {"td_error": 0.5, "q": 1.0, "target": 1.5, "row": m, "made_at": 10 + m, "action": 1, "reward": 0.25}
            pick |= {"observation": [0.1, 0.2], "next_observation": [0.3, 0.4], "terminated": False}
            row = dict.fromkeys(INNER) | shared | place | {"theta_norm": 1.0} | (pick if m else {})
            inner.append(row | (changed.get("inner", {}).get(m, {}) if last else {}))
    return pl.DataFrame(iterations, schema=ITERATIONS), pl.DataFrame(inner, schema=INNER)


def diagnosis(deltas: list[list[float]], **given: Any) -> Diagnosis:
    return diagnose(*tables(deltas, **given))


CALM = [[1.0, 1.1, 0.9, 1.0]] * 4


def test_a_calm_stretch_has_no_events() -> None:
    found = diagnosis(CALM)
    assert (found.growth, found.nonfinite, found.overflow, found.discarded, found.excursion) == (None,) * 5
    assert found.usual == pytest.approx(1.0)
    assert found.words == ("‖Δ_m‖ stayed at its usual size of this stretch, 1: at most 10 times that in the end.",)


def test_the_one_from_which_on_none_came_back_is_found() -> None:
    """One that came back, in the iteration before, is not it."""
    found = diagnosis([*CALM, [1.0, 50.0, 1.0, 1.0], [1.0, 2.0, 11.0, 900.0]])
    assert found.growth is not None
    assert (found.growth.outer_iteration, found.growth.m, found.growth.before, found.growth.now) == (10, 2, 2.0, 11.0)
    assert found.culprit is not None
    assert found.culprit["made_at"] == 12
    assert found.excursion is not None
    assert (found.excursion["outer_iteration"], found.excursion["m"]) == (9, 1)
    assert "Before that ‖Δ‖ had been at 50 in outer iteration 9, m = 1, and had come back." in found.words
    assert found.steepest is not None
    assert (found.steepest["m"], found.steepest["delta_before"]) == (3, 11.0)
    assert found.words[0].startswith("Outer iteration 10 (step 160), m = 2: ‖Δ‖ left its usual size of this stretch, 1")
    assert "the transition of step 12: S = (0.1, 0.2), A = 1, R = 0.25, S' = (0.3, 0.4)" in found.words[1]
    assert "the TD error was 0.5" in found.words[1]


def test_an_anchor_may_be_it() -> None:
    found = diagnosis([*CALM, [20.0, 30.0, 40.0, 50.0]])
    assert found.growth is not None
    assert (found.growth.m, "the anchor" in found.words[1]) == (0, True)


@pytest.mark.parametrize(
    ("column", "m", "name"),
    [
        ("td_error", 2, "the TD error of the pick"),
        ("gradient_norm", 1, "g(θ_m; x_m)"),
        ("reference_norm", 3, "g(θ_ref; x_m)"),
        ("step_norm", 2, "the step to θ_{m+1}"),
    ],
)
def test_the_first_that_is_no_number(column: str, m: int, name: str) -> None:
    changed = {later: {"delta_norm": NAN} for later in range(m + 1, 4)} | {m: {column: INF}}
    found = diagnosis([*CALM, [1.0] * 4], discarded=True, inner=changed)
    assert found.nonfinite is not None
    assert (found.nonfinite.outer_iteration, found.nonfinite.m, found.nonfinite.quantity) == (9, m, name)
    assert found.discarded == 9
    assert (
        found.words[-1] == "The round was frozen at step 144 with the parameters that it had before outer iteration 9."
    )


def test_adam_comes_last() -> None:
    found = diagnosis([*CALM, [1.0] * 4], discarded=True, outer={"adam_second_norm": INF, "after_norm": NAN})
    assert found.nonfinite is not None
    assert (found.nonfinite.quantity, found.nonfinite.m, found.nonfinite.before) == ("Adam's v", None, 1.0)


def test_squares_that_overflow() -> None:
    found = diagnosis([*CALM, [1.0, 1e5, 1e20, 1e21]], discarded=True)
    assert found.nonfinite is None
    assert found.overflow is not None
    assert any("every number was still finite" in sentence for sentence in found.words)


def test_a_single_iteration_is_measured_by_its_anchor() -> None:
    found = diagnosis([[1.0, 5.0, 100.0, NAN]])
    assert found.usual == 1.0
    assert found.growth is not None
    assert found.growth.m == 2


def test_both_tables_in_one() -> None:
    iterations, inner = tables(CALM)
    both = joined(iterations, inner)
    assert both.height == inner.height
    assert both.columns[: len(inner.columns)] == inner.columns
    assert {"loss", "adam_step_norm", "outer_theta_norm"} <= set(both.columns)


def test_of_a_direction_per_batch_the_row_with_the_largest_error_is_named() -> None:
    """Three outer iterations of three rows of D each: the direction of the last has grown, its row 1 is the worst."""
    rows, outer = [], []
    for number, delta in ((1, 1.0), (2, 1.0), (3, 50.0)):
        shared = {"outer_iteration": number, "step": 16 * number}
        outer.append(dict.fromkeys(ITERATIONS) | shared | {"discarded": False, "largest_delta_norm": delta})
        norms = {"m": 1, "delta_norm": delta, "gradient_norm": 2.0, "step_norm": 0.1, "theta_norm": 1.0}
        for row, error in enumerate((0.5, -7.0, 1.0)):
            picked = {
                "sample": row,
                "row": row,
                "made_at": 10 + row,
                "td_error": error,
                "q": 1.0,
                "target": 1.0 + error,
            }
            rows.append(dict.fromkeys(INNER) | shared | norms | picked | {"action": 1, "reward": 0.0})
    frames = pl.DataFrame(outer, schema=ITERATIONS), pl.DataFrame(rows, schema=INNER)
    found = diagnose(*frames, per_batch=True)
    assert found.growth is not None
    assert (found.growth.outer_iteration, found.growth.now) == (3, 50.0)
    assert "What has the largest TD error, row 1 of D, is the transition of step 11." in found.words[1]
    assert "‖g(θ_1; D)‖ = 2" in found.words[2]
