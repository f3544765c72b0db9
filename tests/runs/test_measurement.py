"""Measurements on disk. Damage of files is noticed as with runs (test_run.py), by the same code."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.runs import manifest
from srgdqn.runs import run as runs
from srgdqn.runs.measurement import Measured, load, save
from srgdqn.runs.provenance import provenance


def small() -> Measured:
    tables = {
        "distances": pl.DataFrame(
            {
                "estimator": ["srg", "svrg", "srg"],
                "own": [0.1, float("nan"), float("inf")],
                "diverged": [True, False, None],
            }
        ),
        "vectors_2": pl.DataFrame({"round": [0, 1], "vector": np.random.default_rng(0).normal(size=(2, 20))}),
        "empty": pl.DataFrame(schema={"round": pl.Int64, "error": pl.Float64}),
    }
    return Measured(tables, {"plan": {"steps": [16, 32], "window": None}, "seconds": 0.5, **provenance()})


def assert_equal(first: Measured, second: Measured) -> None:
    assert first.about == second.about
    assert first.tables.keys() == second.tables.keys()
    for name, table in first.tables.items():
        assert table.schema == second.tables[name].schema
        assert table.equals(second.tables[name])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(small(), tmp_path / "measurement")


def test_what_was_saved_is_loaded_and_replaced_on_request_only(folder: Path) -> None:
    assert sorted(os.listdir(folder)) == ["distances.parquet", "empty.parquet", "manifest.json", "vectors_2.parquet"]
    assert_equal(load(str(folder)), small())
    other = Measured({}, {"plan": 2})
    with pytest.raises(InputError, match=r"exists already\. Give another folder"):
        save(other, folder)
    assert_equal(load(folder), small())
    save(other, folder, overwrite=True)
    assert_equal(load(folder), other)
    assert os.listdir(folder) == ["manifest.json"]


@pytest.mark.parametrize("name", ["../outside.parquet", "/etc/passwd", "sub/t.parquet", "table.txt", "a.parquet\n"])
def test_foreign_names_are_refused_before_anything_is_read(folder: Path, name: str) -> None:
    data = (folder / "empty.parquet").read_bytes()
    (folder.parent / "outside.parquet").write_bytes(data)
    (folder / "manifest.json").write_bytes(manifest.render({name: data}, {}, manifest.MEASUREMENT))
    with pytest.raises(InputError, match=r"manifest\.json cannot be used: it lists .*, which is no file of a meas"):
        load(folder)


def test_a_run_is_no_measurement_and_the_other_way_round(folder: Path, tmp_path: Path) -> None:
    run = runs.save(runs.Run(configure("CartPole"), {}, {}, {}), tmp_path / "run")
    with pytest.raises(InputError, match="not the manifest of a measurement"):
        load(run)
    with pytest.raises(InputError, match="not the manifest of a run"):
        runs.load(folder)
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("srgdqn-measurement", "srgdqn-run"))
    with pytest.raises(InputError, match="digest is not that of its content"):
        runs.load(folder)
    with pytest.raises(InputError, match=r"is not the folder of a measurement: it does not exist.*was saved in"):
        load(tmp_path / "nowhere")
