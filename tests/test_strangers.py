"""What somebody else's agents, runs and sweeps may not do, each by itself; tests/fuzz tries the rest."""

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import srgdqn
from fuzz.files import BOMBS, arrays, sealed
from fuzz.inputs import _write_manifest
from srgdqn import Agent, InputError
from srgdqn.adapters.replay_memory import FrameMemory
from srgdqn.adapters.spaces import Actions, Observations
from srgdqn.cli import main
from srgdqn.integrations.watching import LineReader, RunState
from srgdqn.learner.gradients import Transitions
from srgdqn.results.curves import curve
from srgdqn.runs import manifest
from srgdqn.runs.snapshots import SavedAgent, restore_from, rows_as_tensors, snapshot_of
from srgdqn.runs.untrusted import read_tensors
from srgdqn.runs.untrusted_parquet import decode_any
from srgdqn.sweeps.folder import check_folder
from srgdqn.sweeps.grid import Base, name_of
from srgdqn.sweeps.sweep import load_sweep
from synthetic_runs import synthetic


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda make: make.__wrapped__.__name__)
def test_much_from_little_is_refused(bomb: Any) -> None:
    data = bomb()
    assert len(data) < 2**20
    if bomb.__wrapped__.__name__ == "_wide":
        assert decode_any(data).width == 3_000  # which is wide, but no more than it says
    else:
        with pytest.raises(InputError, match=r"would take|cannot be read as a Parquet file|neither numbers"):
            decode_any(data)


# Agents


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options: dict[str, Any] = dict(hidden=(4,), batch_size=4, replay_capacity=48, learning_starts=48, kernel="xla")
    agent = Agent("dqn-adam", "CartPole-v1", seed=0, **options).learn(64)
    return agent.save(tmp_path_factory.mktemp("agent") / "agent", include_replay=True)


def forged(saved: Path, place: Path, *, about: Any = None, toml: tuple[str, str] = ("", ""), **tensors: Any) -> Path:
    """The agent with some of it replaced, and a right digest."""
    arrays, texts = read_tensors(saved.read_bytes())
    content = json.loads(texts["agent"])
    assert toml[0] in content["configuration"]
    content["configuration"] = content["configuration"].replace(*toml)
    if about is not None:
        about(content["about"])
    arrays |= {name.replace("__", "."): array for name, array in tensors.items()}
    place.write_bytes(sealed(arrays, {**texts, "agent": json.dumps(content)}))
    return place


def test_a_forged_agent_is_one_if_nothing_is_changed(saved: Path, tmp_path: Path) -> None:
    agent = Agent.load(forged(saved, tmp_path / "agent.safetensors"))
    assert agent.num_timesteps == 64


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (("replay_capacity = 48", "replay_capacity = 2000000000"), "would take"),
        (("learning_frequency = ", "learning_frequency = 200000000"), "inconsistent|would take"),
        (("batch_size = 4", "batch_size = 2000000000"), "would take"),
        (("[\n    4,\n]", "[2147483647, 2147483647]"), "expected"),
        (("[\n    4,\n]", f"{[1] * 200}"), "100 layers at most"),
        (("environments = 1", "environments = 2000000000"), "would take|expected|replay"),
        (("inner_iterations = ", "inner_iterations = 20000000"), "would take"),
    ],
)
def test_an_agent_that_asks_for_too_much_is_refused_before_it_gets_it(
    saved: Path, tmp_path: Path, toml: tuple[str, str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        Agent.load(forged(saved, tmp_path / "agent.safetensors", toml=toml))


@pytest.mark.parametrize("action", [-1.0, 2.0, 0.5, np.nan, 1e9])
def test_a_replay_with_actions_that_there_are_not_is_refused(saved: Path, tmp_path: Path, action: float) -> None:
    rows = read_tensors(saved.read_bytes())[0]["memory.replay|row"].copy()
    rows[3, 8] = action
    with pytest.raises(InputError, match="replay"):
        Agent.load(forged(saved, tmp_path / "agent.safetensors", **{"memory__replay|row": rows}))


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.update(evaluation_limit=None),
        lambda about: about.update(action_type="U1000000000"),
        lambda about: about["observations"].update(kind="image"),
        lambda about: about["observations"].update(shape=["4"]),
    ],
)
def test_an_agent_that_tells_nonsense_is_refused(saved: Path, tmp_path: Path, change: Any) -> None:
    with pytest.raises(InputError, match="cannot be loaded"):
        Agent.load(forged(saved, tmp_path / "agent.safetensors", about=change))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("blocks", np.array(2**30)),
        ("blocks", np.array(-1)),
        ("diverged_at", np.array(-2)),
        ("steps_before", np.array(10**6)),
        ("begun", np.array([-1])),
        ("key", np.zeros(3, np.uint32)),
    ],
)
def test_counters_that_none_are_are_refused(saved: Path, tmp_path: Path, name: str, value: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"cannot be loaded: (its step counters are inconsistent|it holds)"):
        Agent.load(forged(saved, tmp_path / "agent.safetensors", **{f"state__{name}": value}))


@pytest.mark.parametrize(
    "about",
    [
        {"kind": "vector", "shape": [4], "given": [5]},
        {"kind": "image", "shape": [1, 40, 40], "given": [1600]},
        {"kind": "one-hot", "shape": [4], "given": [4]},
        {"kind": "vector", "shape": [2**31], "given": [2**31]},
        {"kind": "vector", "shape": ['"""\nimport os'], "given": [1]},
        {"kind": "vector", "shape": [4], "given": [4], "start": 0.5},
        {"kind": "vector"},
    ],
)
def test_observations_that_none_are_are_refused(about: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is inconsistent"):
        Observations.from_metadata(about)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ([], None),
        (["a"], None),
        ([[1, 2], [1]], "float32"),
        ([2**70], None),
        ([[1]], "object"),
    ],
)
def test_actions_that_none_are_are_refused(table: Any, kind: Any) -> None:
    with pytest.raises(InputError, match="are neither numbers nor arrays"):
        Actions.from_metadata(table, kind)


def append(memory: FrameMemory, environment: int, *transition: Any) -> None:
    memory.write(Transitions(*(np.array(each)[None] for each in transition)), np.array([environment]))  # type: ignore[arg-type]


def test_a_memory_of_frames_that_is_taken_in_can_be_used() -> None:
    generator = np.random.default_rng(0)
    kept = FrameMemory(32, (2, 6, 6), 2, 3, chunk_frames=8)
    for number in range(50):
        before, after = generator.integers(0, 255, (2, 2, 6, 6), np.uint8)
        append(kept, number % 2, before, number % 3, 1.0, after, False)
    taken = refused = 0
    stored = snapshot_of({}, {"memory": kept})
    everything = stored.tensors | rows_as_tensors(stored.streams, stored.spans)
    for number in range(500):
        chance, tensors = random.Random(number), {name: array.copy() for name, array in everything.items()}
        memory = FrameMemory(32, (2, 6, 6), 2, 3, chunk_frames=8)
        try:
            restore_from(SavedAgent(arrays(tensors, chance), "", {}, stored.spans), {"memory": memory})
        except InputError:
            refused += 1
            continue
        taken += 1
        memory.gather(np.arange(32))
        for step in range(40):
            append(memory, step % 2, np.zeros((2, 6, 6), np.uint8), 0, 0.0, np.full((2, 6, 6), step, np.uint8), False)
    assert taken > 50
    assert refused > 200


# Runs


def test_parameters_of_fewer_rounds_than_are_told_are_refused() -> None:
    result = synthetic(rounds=3, steps=2_000)
    result.run.parameters["network.layers.0.weight"] = np.zeros((2, 2, 2), np.float32)
    assert result.parameters_of(1)["network.layers.0.weight"].shape == (2, 2)
    with pytest.raises(InputError, match="parameters of 2"):
        result.parameters_of(2)


def test_curves_that_no_memory_could_hold_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    result = synthetic(rounds=3, steps=2_000)
    assert curve(result).values.shape == (3, 2)
    monkeypatch.setattr("srgdqn.runs.untrusted.most_bytes", lambda: 50)
    with pytest.raises(InputError, match="the curves of these rounds would take"):
        curve(result)


def test_a_terminal_obeys_nothing_that_a_run_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = synthetic(rounds=2, steps=2_000)
    result.run.provenance["processor"] = "\x1b]0;owned\x07\x1b[2J"
    assert main(["show", str(result.save(tmp_path / "run"))]) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[2J" in shown
    assert "\x1b]" not in shown


# Sweeps


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    folder = tmp_path / "sweep"
    synthetic(rounds=2, steps=2_000, eta=0.01).save(folder / "cells" / "eta=0.01")
    about = {
        "kind": "srgdqn-sweep", "version": 1, "task": "MountainCar", "algorithm": "srg-dqn", "readings": "corrected",
        "options": {}, "plan": {"values": {"eta": ["0.01"]}}, "score": "greedy-return",
        "planned": 1, "interrupted": False, "cells": [{"eta": "0.01"}], "failed": [],
    }  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(about))
    return folder


def test_a_cell_cannot_be_called_what_leads_elsewhere(sweep: Path) -> None:
    assert load_sweep(sweep).best == 0
    with pytest.raises(InputError, match="cannot be a folder's name"):
        name_of({"estimator": "../../elsewhere"})
    about = json.loads((sweep / "sweep.json").read_text())
    (sweep / "sweep.json").write_text(json.dumps({**about, "cells": [{"estimator": "../../elsewhere"}]}))
    with pytest.raises(InputError, match="cannot be a folder's name"):
        load_sweep(sweep)


def test_cells_that_lie_elsewhere_are_neither_read_nor_written(sweep: Path, tmp_path: Path) -> None:
    os.rename(sweep / "cells", tmp_path / "elsewhere")
    (sweep / "cells").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="leads elsewhere"):
        load_sweep(sweep)
    with pytest.raises(InputError, match="leads elsewhere"):
        check_folder(sweep, Base("MountainCar"), {"values": {"eta": ["0.02"]}})


@pytest.mark.parametrize("link", ["unfinished", "unfinished/lanes", "unfinished/lanes/rounds-0-1-abc"])
def test_a_sweep_is_not_continued_where_its_checkpoints_would_lie_elsewhere(
    link: str, sweep: Path, tmp_path: Path
) -> None:
    (sweep / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    (sweep / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"{link} leads elsewhere, where checkpoints would be written"):
        check_folder(sweep, Base("MountainCar"), {"values": {"eta": ["0.02"]}})


@pytest.mark.parametrize(
    "change",
    [
        {"cells": [{"eta": "0.01"}, {"gamma": "0.9"}]},
        {"cells": [{"eta": "9" * 400}]},
        {"plan": {"space": {}}},
        {"plan": {"values": {"eta": 3}}},
        {"score": ["greedy-return"]},
        {"planned": [1]},
    ],
)
def test_a_sweep_that_tells_nonsense_is_refused(sweep: Path, change: dict[str, Any]) -> None:
    about = json.loads((sweep / "sweep.json").read_text())
    (sweep / "sweep.json").write_text(json.dumps({**about, **change}))
    with pytest.raises(InputError, match=r"sweep\.json cannot be used"):
        load_sweep(sweep)


# Rows of a run under way

HEADER = {"task": "a", "algorithm": "b", "rounds": 2, "budget": {"unit": "steps", "amount": 100}}


@pytest.mark.parametrize(
    "change",
    [
        {"task": 3},
        {"task": "\x1b[2J"},
        {"rounds": 0},
        {"budget": {"unit": "steps", "amount": 0}},
        {"budget": {"unit": [], "amount": 1}},
        {"started": "today"},
    ],
)
def test_a_header_of_another_kind_begins_no_run(change: dict[str, Any]) -> None:
    watched = RunState()
    watched.update({**HEADER, **change})
    assert watched.header == {}
    watched.update(HEADER)
    assert watched.header == HEADER


def test_of_a_row_only_numbers_are_heard() -> None:
    watched = RunState()
    watched.update(HEADER)
    for wrong in ({"round": [], "step": 1}, {"round": -1, "step": 1}, {"round": 0, "step": 0.5}, {"round": 0}):
        watched.update(wrong)
    assert watched.rounds == {}
    watched.update({"round": 0, "step": 50, "train/loss": "nan", "train/max_q": 1e300, "rollout/ep_rew_mean": 3.0})
    assert watched.rounds == {0: {"round": 0, "step": 50, "rollout/ep_rew_mean": 3.0}}
    assert watched.share == 0.25


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.jsonl")
    with pytest.raises(InputError, match="not a regular file"):
        LineReader(tmp_path / "rows.jsonl").read()


def test_a_line_without_end_is_passed_over(tmp_path: Path) -> None:
    with open(tmp_path / "rows.jsonl", "wb") as file:
        file.write(b"x" * (2**24 + 5) + b"\n" + json.dumps(HEADER).encode() + b"\n")
    reader, heard = LineReader(tmp_path / "rows.jsonl"), []
    for _ in range(3):
        heard += reader.read() or []
    assert heard == [HEADER]


# Manifests


@pytest.mark.parametrize("name", ["../canary", "/etc/passwd", "a\x00b", "..", ""])
def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path, name: str) -> None:
    folder = synthetic(rounds=1, steps=2_000).save(tmp_path / "run")
    (tmp_path / "canary").write_bytes((folder / "curves.parquet").read_bytes())
    content = json.loads((folder / "manifest.json").read_text())
    content["files"][name] = content["files"].pop("curves.parquet")
    _write_manifest(folder / "manifest.json", content)
    with pytest.raises(InputError, match="which is no file of a run"):
        srgdqn.load(folder)


def test_a_hole_of_a_tebibyte_is_not_read(tmp_path: Path) -> None:
    folder = synthetic(rounds=1, steps=2_000).save(tmp_path / "run")
    os.truncate(folder / "curves.parquet", 2**40)
    content = json.loads((folder / "manifest.json").read_text())
    content["files"]["curves.parquet"] = vars(manifest.Entry("0" * 64, 2**40))
    _write_manifest(folder / "manifest.json", content)
    with pytest.raises(InputError, match=r"curves\.parquet cannot be used: it has 1099511627776 bytes where"):
        srgdqn.load(folder)


def test_tables_count_from_nothing() -> None:
    from srgdqn.runs.tables import frame

    timings = dict(first_round=[0], rounds=[1], phase=["train"], step=[-1], seconds=[0.5])
    with pytest.raises(InputError, match="negative"):
        frame("timings", timings)
    rounds = synthetic(rounds=2, steps=2_000).rounds
    with pytest.raises(InputError, match="twice"):
        frame("rounds", pl.concat([rounds, rounds]).to_dict())
