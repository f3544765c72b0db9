"""Differences are found to the bit, and located."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

from srgdqn.inspection.differences import COMPARED, parameter_differences, table_differences
from srgdqn.runs.tables import SCHEMAS, frame


def columns(rows: int, **changed: Any) -> dict[str, Any]:
    """The episodes of round 1."""
    usual: dict[str, Any] = {
        "round": [1] * rows,
        "episode": list(range(rows)),
        "step": [10 * (row + 1) for row in range(rows)],
        "return": [0.5 * row for row in range(rows)],
        "length": [10] * rows,
        "ending": ["terminated"] * rows,
        "success": [None] * rows,
    }
    return usual | changed


def stored(rows: int = 4, **changed: Any) -> dict[str, pl.DataFrame]:
    tables = {name: frame(name, dict.fromkeys(SCHEMAS[name], ())) for name in COMPARED}
    return tables | {"episodes": frame("episodes", columns(rows, **changed))}


def test_rows_of_the_round_that_were_recomputed_are_compared() -> None:
    assert table_differences(stored(), {"episodes": columns(4)}, 1)[1]["episodes"] == 4
    assert table_differences(stored(), {"episodes": columns(4)}, 2)[1]["episodes"] == 0
    differences, rows = table_differences(stored(4), {"episodes": columns(2)}, 1, until=25)
    assert (differences, rows["episodes"], "rounds" in rows) == ([], 2, False)


@given(st.integers(0, 3), st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_the_first_value_that_differs_is_found(row: int, value: float) -> None:
    returns = [0.0, 0.5, 1.0, 1.5]
    other = list(returns)
    other[row] = value
    differences, _ = table_differences(stored(), {"episodes": columns(4, **{"return": other})}, 1)
    same = np.float64(value).tobytes() == np.float64(returns[row]).tobytes()
    assert bool(differences) != same
    if differences:
        [difference] = differences
        assert (difference.where, difference.column, difference.place) == ("episodes", "return", (row,))
        assert (difference.stored, difference.recomputed, difference.step) == (returns[row], value, 10 * (row + 1))


@pytest.mark.parametrize(
    ("column", "row", "value"), [("return", 0, -0.0), ("ending", 3, "truncated"), ("success", 1, True)]
)
def test_zeros_with_a_sign_texts_and_nulls_are_compared(column: str, row: int, value: Any) -> None:
    values = list(columns(4)[column])
    before, values[row] = values[row], value
    [difference], _ = table_differences(stored(), {"episodes": columns(4, **{column: values})}, 1)
    where = f"episodes.{column}, row {row} of the round (step {10 * (row + 1)})"
    assert difference.words == f"{where}, is {before!r}, and {value!r} was recomputed"


@pytest.mark.parametrize(("then", "now"), [(4, 3), (3, 4), (1, 0)])
def test_missing_rows_are_a_difference(then: int, now: int) -> None:
    fresh = columns(now) if now else {}
    [difference], _ = table_differences(stored(then), {"episodes": fresh}, 1)
    assert difference.words == f"episodes has {then} rows of the round, and {now} were recomputed"
    assert difference.step == 10 * (min(then, now) + 1)


@given(st.integers(0, 5), st.integers(0, 31))
def test_a_single_bit_of_a_parameter_is_found(place: int, bit: int) -> None:
    array = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    other = array.copy()
    other.view(np.uint32)[np.unravel_index(place, (2, 3))] ^= np.uint32(1 << bit)
    with np.errstate(all="ignore"):
        [difference], count = parameter_differences({"a": array, "b": array}, {"a": array, "b": other})
    assert count == 2
    assert difference.where == "b"
    assert difference.place == tuple(int(each) for each in np.unravel_index(place, (2, 3)))


def test_relative_to_the_whole_array() -> None:
    [difference], _ = parameter_differences({"a": np.array([3.0, 4.0])}, {"a": np.array([3.0, 4.5])})
    assert difference.relative == pytest.approx(0.1)
    assert difference.words == "a[1] is 4.0, and 4.5 was recomputed; the whole array differs by 0.1 of its norm"


def test_arrays_of_another_shape_differ() -> None:
    differences, _ = parameter_differences({"a": np.zeros(2), "b": np.zeros(2)}, {"a": np.zeros(3)})
    assert [each.where for each in differences] == ["a", "b"]
