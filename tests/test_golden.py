"""The comparison behind golden results: whatever is not the same is found, and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import golden

RECORD: dict[str, golden.Digests] = {
    "one": {"curves": {"step": "a", "loss": "b"}, "parameters": {"weight": "c"}},
    "two": {"curves": {"step": "d"}},
}


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of the record with another value at a path, or without it (None)."""
    copy = json.loads(json.dumps(RECORD))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


def test_the_same_digests_are_no_difference() -> None:
    assert golden.differences(RECORD, json.loads(json.dumps(RECORD))) == []


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("one", "curves", "loss"), "x", "one: curves: loss: different"),
        (("one", "curves", "loss"), None, "one: curves: loss: missing"),
        (("one", "curves", "new"), "x", "one: curves: new: not in the record"),
        (("one", "parameters"), None, "one: parameters: missing"),
        (("one", "new"), {"x": "y"}, "one: new: not in the record"),
        (("two",), None, "two: missing"),
        (("three",), {}, "three: not in the record"),
    ],
)
def test_a_difference_is_found_and_named(path: tuple[str, ...], value: Any, line: str) -> None:
    assert golden.differences(RECORD, changed(path, value)) == [line]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([0.0], [-0.0]),
        ([1.0, None], [1.0, 0.0]),
        ([1.0], [np.nextafter(1.0, 2.0)]),
        ([1, 2], [2, 1]),
        ([1], [1.0]),
        (["a", None], ["a", ""]),
        ([True, None], [True, False]),
        ([[1.0], [2.0, 3.0]], [[1.0, 2.0], [3.0]]),
        ([[1.0], None], [[1.0], []]),
    ],
)
def test_columns_that_are_not_the_same_to_the_bit_have_other_digests(one: list[Any], other: list[Any]) -> None:
    assert golden.digest_of_column(pl.Series(one)) == golden.digest_of_column(pl.Series(list(one)))
    assert golden.digest_of_column(pl.Series(one)) != golden.digest_of_column(pl.Series(other))


def test_arrays_of_another_type_or_shape_have_other_digests() -> None:
    given = [np.zeros(4, np.float32), np.zeros(4, np.int32), np.zeros((2, 2), np.float32), np.zeros(2, np.float64)]
    assert len({golden.digest_of_array(array) for array in given}) == len(given)


def test_the_wall_clock_is_left_out() -> None:
    frame = pl.DataFrame({"step": [1], "seconds": [0.5], "seconds_per_round": [0.5]})
    assert golden.digests_of_frame(frame).keys() == {"step"}


def test_results_of_another_machine_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / golden.MACHINE).write_text(json.dumps(golden.machine()))
    golden.check_machine(tmp_path)
    (tmp_path / golden.MACHINE).write_text(json.dumps({**golden.machine(), "processor": "an abacus"}))
    with pytest.raises(SystemExit, match=r"another kind of machine(.|\n)*processor: 'an abacus' there"):
        golden.check_machine(tmp_path)


def answered(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> None:
    """Has every configuration come to a given answer, without running it."""

    def run_all(names: list[str], jobs: int, done: Any) -> None:
        for name in names:
            done(name, {"seconds": 0.0, **answers[name]})

    monkeypatch.setattr(golden, "run_all", run_all)


def test_comparing_tells_failures_and_differences_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["one", "two"]
    good = {name: {"digests": digests} for name, digests in RECORD.items()}
    answered(monkeypatch, good)
    assert golden.record_or_compare("record", tmp_path, names, jobs=1, whole=True) == 0
    assert golden.record_or_compare("compare", tmp_path, names, jobs=1, whole=True) == 0
    assert "Everything is the same" in capsys.readouterr().out

    answered(monkeypatch, {"one": {"error": "it broke"}, "two": {"digests": {"curves": {"step": "other"}}}})
    assert golden.record_or_compare("compare", tmp_path, names, jobs=1, whole=True) == 1
    told = capsys.readouterr().out
    assert "one failed: it broke" in told
    assert "two: curves: step: different" in told
    assert "1 configurations differ, 1 failed." in told

    # A configuration that this revision no longer has is a difference, unless others were asked for.
    answered(monkeypatch, good)
    assert golden.record_or_compare("compare", tmp_path, ["two"], jobs=1, whole=True) == 1
    assert "one: missing" in capsys.readouterr().out
    assert golden.record_or_compare("compare", tmp_path, ["two"], jobs=1, whole=False) == 0
