import dataclasses
import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.runs.manifest import render
from srgdqn.runs.provenance import provenance
from srgdqn.runs.run import Run, load, save
from srgdqn.runs.tables import frame

FILES = [
    "configuration.toml",
    "curves.parquet",
    "episodes.parquet",
    "evaluations.parquet",
    "manifest.json",
    "parameters.safetensors",
    "rounds.parquet",
    "timings.parquet",
]


def small_run() -> Run:
    tables = {
        "curves": dict(
            round=[0, 1],
            step=[1_000, 1_000],
            reward=[0.5, -0.25],
            reward_cumulative=[0.5, -0.25],
            episodes=[3, 4],
            loss=[None, 0.1],
            max_q=[None, 1.0],
            delta_norm=[None, float("nan")],
            theta_norm=[None, float("inf")],
            queries=[0, 96],
            gradient_evaluations=[0, 80],
        ),
        "episodes": {
            "round": [0, 1],
            "episode": [0, 0],
            "step": [500, 700],
            "return": [1.5, 2.5],
            "length": [500, 700],
            "ending": ["terminated", "censored"],
            "success": [True, None],
        },
        "evaluations": {
            "round": [0],
            "step": [1_000],
            "episode": [0],
            "return": [-110.0],
            "length": [110],
            "success": [True],
        },
        "rounds": dict(
            round=[0, 1],
            steps=[1_000, 1_000],
            episodes=[3, 4],
            outer_iterations=[1, 1],
            queries=[96, 96],
            gradient_evaluations=[80, 80],
            censored=[0, 1],
            diverged_at=[None, 640],
            completed=[True, False],
        ),
        "timings": dict(first_round=[0], rounds=[1], phase=["train"], step=[1_000], seconds=[0.1]),
    }
    generator = np.random.default_rng(0)
    parameters = {
        "layers/0/weight": generator.normal(size=(2, 5, 3)).astype(np.float32),
        "layers/0/bias": np.zeros((2, 5), np.float32),
    }
    frames = {name: frame(name, columns) for name, columns in tables.items()}
    return Run(configure("MountainCar", rounds=2), frames, parameters, provenance())


def assert_equal(first: Run, second: Run) -> None:
    assert first.configuration == second.configuration
    assert first.provenance == second.provenance
    assert first.tables.keys() == second.tables.keys()
    for name in first.tables:
        assert first.tables[name].schema == second.tables[name].schema
        assert first.tables[name].equals(second.tables[name])
    assert first.parameters.keys() == second.parameters.keys()
    for name, array in first.parameters.items():
        assert array.dtype == second.parameters[name].dtype
        assert array.shape == second.parameters[name].shape
        assert array.tobytes() == second.parameters[name].tobytes()


def loaded_or_refused(folder: Path) -> Run | str:
    try:
        return load(folder)
    except InputError as error:
        return str(error)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(small_run(), tmp_path / "run")


def test_what_was_saved_is_loaded(folder: Path) -> None:
    assert sorted(os.listdir(folder)) == FILES
    assert_equal(load(folder), small_run())
    assert_equal(load(str(folder)), small_run())


def with_best() -> Run:
    """The small run, and what its rounds were at their best."""
    rows = dict(
        round=[0, 0, 1],
        policy=["last", "best", "best"],
        step=[1_000, 640, 640],
        chosen_by=[None, -90.5, None],
        fresh_episodes=[20, 20, 0],
        fresh_return=[-110.0, -95.0, None],
        fresh_length=[110.0, 95.0, None],
        fresh_success=[0.5, 0.75, None],
    )
    run = small_run()
    best = {name: array + np.float32(1) for name, array in run.parameters.items()}
    return dataclasses.replace(run, tables={**run.tables, "policies": frame("policies", rows)}, best=best)


def test_the_best_policies_are_saved_beside_the_last(tmp_path: Path) -> None:
    folder = save(with_best(), tmp_path / "run")
    assert sorted(os.listdir(folder)) == sorted([*FILES, "best.safetensors", "policies.parquet"])
    loaded = load(folder)
    assert_equal(loaded, with_best())
    assert loaded.best.keys() == loaded.parameters.keys()
    for name, array in with_best().best.items():
        assert loaded.best[name].tobytes() == array.tobytes()
    assert load(save(small_run(), tmp_path / "without")).best == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda best: {name: array[:1] for name, array in best.items()},
        lambda best: {name: array.astype(np.float64) for name, array in best.items()},
        lambda best: {name: array for name, array in best.items() if "bias" in name},
        lambda best: {**best, "another": best["layers/0/bias"]},
        lambda best: {name: array[..., None] for name, array in best.items()},
    ],
    ids=["rounds", "type", "missing", "more", "shape"],
)
def test_best_policies_unlike_the_last_are_neither_saved_nor_loaded(change: Any, tmp_path: Path) -> None:
    run = with_best()
    with pytest.raises(InputError, match="the best parameters have not the names, shapes and types of the last ones"):
        save(dataclasses.replace(run, best=change(run.best)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    strange = save(dataclasses.replace(run, parameters=change(run.best), best={}), tmp_path / "strange")
    folder = save(run, tmp_path / "good")
    data = (strange / "parameters.safetensors").read_bytes()
    (folder / "best.safetensors").write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    files = {name: (folder / name).read_bytes() for name in manifest["files"]}
    (folder / "manifest.json").write_bytes(render(files, manifest["provenance"]))
    with pytest.raises(InputError, match=r"best\.safetensors cannot be used: its arrays have not the names"):
        load(folder)


def test_a_run_may_have_few_tables(tmp_path: Path) -> None:
    run = dataclasses.replace(small_run(), tables={}, parameters={}, provenance={})
    assert_equal(load(save(run, tmp_path / "run")), run)


def test_the_same_run_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = save(small_run(), tmp_path / "again")
    for name in FILES:
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def test_others_can_read_the_files(folder: Path) -> None:
    assert pl.read_parquet(folder / "episodes.parquet")["length"].to_list() == [500, 700]
    listed = json.loads((folder / "manifest.json").read_text())
    for name, entry in listed["files"].items():
        data = (folder / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    assert sorted([*listed["files"], "manifest.json"]) == FILES


def test_a_run_may_be_moved_and_have_company(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    (moved / "notes.txt").write_text("mine")
    assert_equal(load(moved), small_run())
    (tmp_path / "link").symlink_to(moved)
    assert_equal(load(tmp_path / "link"), small_run())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (dict(tables={"curve": pl.DataFrame()}), "unknown table 'curve'. Did you mean 'curves'?"),
        (
            dict(tables={"timings": pl.DataFrame({"first_round": [0]})}),
            "the table timings lacks rounds, phase, step, seconds",
        ),
        (dict(parameters={"w": np.float32(1)}), "parameter 'w' is a scalar"),
        (dict(provenance={"path": Path("x")}), "the provenance is not made of JSON values"),
        (dict(configuration=configure("CartPole").with_options(dict(eta=None))), "eta is None, which is not a number"),
        (dict(configuration=configure("CartPole").with_options(dict(hidden=[8]))), "read back as another one"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        save(dataclasses.replace(small_run(), **changes), tmp_path / "run")
    assert said in str(caught.value)
    assert os.listdir(tmp_path) == []


class TestDamage:
    @pytest.mark.parametrize("name", FILES)
    def test_a_damaged_file_is_named(self, folder: Path, name: str) -> None:
        file = folder / name
        data = file.read_bytes()
        for damaged in (b"", data[:-2], data + b"x"):
            file.write_bytes(damaged)
            with pytest.raises(InputError, match=f"{name} cannot be used: .*Restore the folder from a copy"):
                load(folder)
        file.unlink()
        with pytest.raises(InputError, match=name):
            load(folder)
        (folder.parent / name).write_bytes(data)
        file.symlink_to(folder.parent / name)
        with pytest.raises(InputError, match=f"{name} cannot be used: it is a link, and links are refused on purpose"):
            load(folder)

    @pytest.mark.parametrize("place", ["missing", "empty", "file", "file/run", "a\0b"])
    def test_what_is_no_run_is_refused(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "file").write_text("x")
        with pytest.raises(
            InputError,
            match=r"is not the folder of a run: it (has no manifest\.json|does not exist|is a file .*)\. Give a folder",
        ):
            load(tmp_path / place)

    def test_any_damaged_byte_is_found_or_harmless(self, folder: Path) -> None:
        original, found, dice = small_run(), 0, random.Random(0)
        for turn in range(300):
            file = folder / FILES[turn % len(FILES)]
            data = file.read_bytes()
            position, value = dice.randrange(len(data)), dice.randrange(1, 256)
            file.write_bytes(data[:position] + bytes([data[position] ^ value]) + data[position + 1 :])
            answer = loaded_or_refused(folder)
            if isinstance(answer, Run):
                assert_equal(answer, original)
            else:
                assert file.name in answer or file.name == "manifest.json"
                found += 1
            file.write_bytes(data)
        assert found > 290


class TestForgery:
    """A folder whose manifest and digests agree, but not with what a run is."""

    def forge(self, folder: Path, name: str, data: bytes, *, listed_as: str | None = None) -> None:
        (folder / name).write_bytes(data)
        content = json.loads((folder / "manifest.json").read_text())
        content.pop("sha256")
        content["files"][name if listed_as is None else listed_as] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
        }
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(content))

    @pytest.mark.parametrize(
        "name", ["../secret", "/etc/hostname", "sub/curves.parquet", "notes.txt", "", ".", "CURVES"]
    )
    def test_files_elsewhere_are_not_read(self, folder: Path, name: str) -> None:
        self.forge(folder, "timings.parquet", (folder / "timings.parquet").read_bytes(), listed_as=name)
        with pytest.raises(InputError, match=r"manifest\.json cannot be used: it lists .* which is no file of a run"):
            load(folder)

    def test_a_wrong_table_is_named(self, folder: Path) -> None:
        self.forge(folder, "curves.parquet", (folder / "curves.parquet").read_bytes()[:400])
        with pytest.raises(InputError, match=r"curves\.parquet cannot be used: it cannot be read as a Parquet file"):
            load(folder)
        self.forge(folder, "curves.parquet", (folder / "timings.parquet").read_bytes())
        with pytest.raises(InputError, match=r"curves\.parquet cannot be used: the table curves lacks round, reward"):
            load(folder)

    def test_a_wrong_configuration_is_named(self, folder: Path) -> None:
        self.forge(folder, "configuration.toml", b"\xff")
        with pytest.raises(InputError, match=r"configuration\.toml cannot be used: .*utf-8"):
            load(folder)
        self.forge(folder, "configuration.toml", b"algorithm = 3")
        with pytest.raises(InputError, match=r"configuration\.toml cannot be used"):
            load(folder)

    def test_wrong_parameters_are_named(self, folder: Path) -> None:
        self.forge(folder, "parameters.safetensors", (folder / "parameters.safetensors").read_bytes()[:-1])
        with pytest.raises(InputError, match=r"parameters\.safetensors cannot be used: not a file of parameters"):
            load(folder)

    def test_a_huge_manifest_is_not_read(self, folder: Path) -> None:
        os.truncate(folder / "manifest.json", 2**40)
        with pytest.raises(InputError, match=rf"manifest\.json cannot be used: it has {2**40} bytes"):
            load(folder)

    def test_a_newer_format_asks_for_an_upgrade(self, folder: Path) -> None:
        text = (folder / "manifest.json").read_text()
        (folder / "manifest.json").write_text(text.replace('"version": 1', '"version": 2'))
        with pytest.raises(InputError, match=r"manifest\.json was written by a newer srgdqn.*Upgrade srgdqn\.$"):
            load(folder)
