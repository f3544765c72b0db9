import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.runs import manifest
from srgdqn.runs import run as runs
from srgdqn.runs.measurement import Measured, load, save
from srgdqn.runs.provenance import provenance

FILES = ["distances.parquet", "empty.parquet", "manifest.json", "vectors_2.parquet"]


def small() -> Measured:
    generator = np.random.default_rng(0)
    tables = {
        "distances": pl.DataFrame(
            {
                "estimator": ["srg", "svrg", "srg"],
                "m": [1, 2, 3],
                "own": [0.1, float("nan"), float("inf")],
                "diverged": [True, False, None],
            }
        ),
        "vectors_2": pl.DataFrame({"round": [0, 1], "vector": generator.normal(size=(2, 20))}),
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


def test_what_was_saved_is_loaded(folder: Path) -> None:
    assert sorted(os.listdir(folder)) == FILES
    assert_equal(load(folder), small())
    assert_equal(load(str(folder)), small())


def test_it_may_be_without_tables(tmp_path: Path) -> None:
    assert_equal(load(save(Measured({}, {}), tmp_path / "nothing")), Measured({}, {}))


def test_the_same_measurement_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = save(small(), tmp_path / "again")
    for name in FILES:
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def test_saving_again_needs_leave(folder: Path) -> None:
    other = Measured({}, {"plan": 2})
    with pytest.raises(InputError, match=r"exists already\. Give another folder"):
        save(other, folder)
    assert_equal(load(folder), small())
    save(other, folder, overwrite=True)
    assert_equal(load(folder), other)
    assert os.listdir(folder) == ["manifest.json"]


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"path": Path("x")}, "not made of JSON values"),
        ({"steps": (1, 2)}, "Use lists, not tuples"),
        ({"value": float("nan")}, "not made of JSON values"),
    ],
)
def test_a_question_that_could_not_be_read_back_is_not_saved(about: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        save(Measured({}, about), tmp_path / "measurement")
    assert os.listdir(tmp_path) == []


class TestDamage:
    @pytest.mark.parametrize("name", FILES)
    def test_a_missing_file_is_named(self, folder: Path, name: str) -> None:
        (folder / name).unlink()
        with pytest.raises(InputError, match=name):
            load(folder)

    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
    def test_a_truncated_file_is_named(self, folder: Path, name: str, share: float) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * share)])
        with pytest.raises(InputError, match=f"{name} cannot be used: .*Restore the folder from a copy"):
            load(folder)

    @pytest.mark.parametrize("name", FILES)
    def test_a_longer_file_is_named(self, folder: Path, name: str) -> None:
        (folder / name).write_bytes((folder / name).read_bytes() + b"{}")
        with pytest.raises(InputError, match=f"{name} cannot be used"):
            load(folder)

    @pytest.mark.parametrize("name", FILES)
    def test_a_flipped_bit_anywhere_is_noticed(self, folder: Path, name: str) -> None:
        """White space in the manifest excepted, which means nothing."""
        data = (folder / name).read_bytes()
        for position in np.linspace(0, len(data) - 1, 23).astype(int):
            if name == "manifest.json" and chr(data[position]).isspace():
                continue
            changed = bytearray(data)
            changed[position] ^= 1
            (folder / name).write_bytes(changed)
            with pytest.raises(InputError, match=name):
                load(folder)

    def test_a_link_is_not_followed(self, folder: Path) -> None:
        (folder / "distances.parquet").rename(folder.parent / "elsewhere")
        (folder / "distances.parquet").symlink_to(folder.parent / "elsewhere")
        with pytest.raises(InputError, match=r"distances\.parquet cannot be used"):
            load(folder)

    def test_tables_that_are_exchanged_are_noticed(self, folder: Path) -> None:
        (folder / "distances.parquet").rename(folder / "aside")
        (folder / "empty.parquet").rename(folder / "distances.parquet")
        (folder / "aside").rename(folder / "empty.parquet")
        with pytest.raises(InputError, match=r"is not the file that|bytes where"):
            load(folder)


def forge(folder: Path, files: dict[str, bytes]) -> None:
    """A manifest, valid in itself, that lists these files."""
    (folder / "manifest.json").write_bytes(manifest.render(files, {}, manifest.MEASUREMENT))


@pytest.mark.parametrize(
    "name",
    ["../outside.parquet", "/etc/passwd", "sub/table.parquet", "table.txt", "Table.parquet", ".parquet", "a.parquet\n"],
)
def test_foreign_names_are_refused_before_anything_is_read(folder: Path, name: str) -> None:
    (folder.parent / "outside.parquet").write_bytes((folder / "empty.parquet").read_bytes())
    forge(folder, {name: (folder / "empty.parquet").read_bytes()})
    with pytest.raises(
        InputError, match=r"manifest\.json cannot be used: it lists .*, which is no file of a measurement"
    ):
        load(folder)


def test_bytes_that_are_no_table_are_named(folder: Path) -> None:
    (folder / "empty.parquet").write_bytes(b"PAR1 and nothing else")
    forge(folder, {"empty.parquet": b"PAR1 and nothing else"})
    with pytest.raises(InputError, match=r"empty\.parquet cannot be used: not a Parquet file"):
        load(folder)


# Kinds of folder


def test_a_run_is_no_measurement_and_the_other_way_round(folder: Path, tmp_path: Path) -> None:
    run = runs.save(runs.Run(configure("CartPole"), {}, {}, {}), tmp_path / "run")
    with pytest.raises(InputError, match="not the manifest of a measurement"):
        load(run)
    with pytest.raises(InputError, match="not the manifest of a run"):
        runs.load(folder)


def test_the_kind_is_part_of_what_is_signed(folder: Path) -> None:
    """Calling a measurement a run does not make it one."""
    text = (folder / "manifest.json").read_text()
    assert json.loads(text)["kind"] == "srgdqn-measurement"
    (folder / "manifest.json").write_text(text.replace("srgdqn-measurement", "srgdqn-run"))
    with pytest.raises(InputError, match="digest is not that of its content"):
        runs.load(folder)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_another_folder_is_told_apart(make: Any, tmp_path: Path) -> None:
    make(tmp_path / "x")
    with pytest.raises(
        InputError, match=r"is not the folder of a measurement: it (has no|does not exist).*was saved in"
    ):
        load(tmp_path / "x")


def test_others_can_read_the_files(folder: Path) -> None:
    assert pl.read_parquet(folder / "distances.parquet")["m"].to_list() == [1, 2, 3]
    listed = json.loads((folder / "manifest.json").read_text())
    assert sorted([*listed["files"], "manifest.json"]) == FILES
    for name, entry in listed["files"].items():
        data = (folder / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
