"""Differences are found to the bit, and told where they are."""

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


def test_equal_tables_differ_nowhere() -> None:
    differences, rows = table_differences(stored(), {"episodes": columns(4)}, 1)
    assert differences == []
    assert rows["episodes"] == 4


def test_other_rounds_do_not_count() -> None:
    differences, rows = table_differences(stored(), {"episodes": columns(4)}, 2)
    assert differences == []
    assert rows["episodes"] == 0


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


def test_minus_zero_is_another_bit() -> None:
    [difference], _ = table_differences(stored(), {"episodes": columns(4, **{"return": [-0.0, 0.5, 1.0, 1.5]})}, 1)
    assert difference.words == ("episodes.return, row 0 of the round (step 10), is 0.0, and -0.0 was recomputed")


def test_texts_and_nothing_are_compared_too() -> None:
    [difference], _ = table_differences(
        stored(), {"episodes": columns(4, ending=["terminated"] * 3 + ["truncated"])}, 1
    )
    assert (difference.column, difference.recomputed) == ("ending", "truncated")
    [difference], _ = table_differences(stored(), {"episodes": columns(4, success=[None, True, None, None])}, 1)
    assert (difference.column, difference.stored, difference.recomputed) == ("success", None, True)


@pytest.mark.parametrize(("then", "now"), [(4, 3), (3, 4), (1, 0)])
def test_rows_that_are_missing_are_told(then: int, now: int) -> None:
    fresh = columns(now) if now else {}
    [difference], _ = table_differences(stored(then), {"episodes": fresh}, 1)
    assert difference.words == f"episodes has {then} rows of the round, and {now} were recomputed"
    assert difference.step == 10 * (min(then, now) + 1)


def test_only_what_was_recomputed_is_compared() -> None:
    differences, rows = table_differences(stored(4), {"episodes": columns(2)}, 1, until=25)
    assert differences == []
    assert rows["episodes"] == 2
    assert "rounds" not in rows


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
