"""The comparison behind golden results: whatever is not the same is found, and named."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import golden


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


def test_failures_and_differences_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"one": 1.0, "two": 2.0}

    def made(name: str) -> Any:
        frame = pl.DataFrame({"step": [values[name]], "seconds": [np.random.default_rng().random()]})
        return lambda folder: {"curves": golden.of_frame(frame)}

    monkeypatch.setattr(golden, "ProcessPoolExecutor", lambda jobs, mp_context: ThreadPoolExecutor(jobs))
    monkeypatch.setattr(golden, "run", lambda name: {"seconds": 0.0, "digests": made(name)(tmp_path)})
    assert golden.compare(tmp_path, ["one", "two"], record=True) == []
    assert golden.compare(tmp_path, ["one", "two"]) == []  # the wall clock is left out
    values["two"] = np.nextafter(2.0, 3.0)
    del values["one"]
    assert sorted(golden.compare(tmp_path, ["one", "two"])) == [
        "one: FAILED: KeyError: 'one'",
        "two: curves: step: different",
    ]
    (tmp_path / "two.json").unlink()
    assert golden.compare(tmp_path, ["two"]) == ["two: not in the record"]
    (tmp_path / "machine.json").write_text(json.dumps({**golden.machine(), "processor": "an abacus"}))
    assert "another kind of machine, whose bits may be others: processor" in golden.compare(tmp_path, ["two"])[0]
