"""Weights & Biases in its offline mode, for real: its files are read back record by record."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.integrations import WeightsAndBiases

pytest.importorskip("wandb")

RUN = """
import json, sys, warnings
warnings.simplefilter("error")
from reported import report
from srgdqn.config.configure import configure
from srgdqn.training.reports import GreedyEpisodes
from srgdqn.integrations import WeightsAndBiases, logging_to
import numpy as np
logger = WeightsAndBiases("a project", group="together")
made = (GreedyEpisodes(20, np.array([4.0, 6.0]), np.array([7, 8])),)
configuration = configure("CartPole", "dqn-sgd", rounds=2, steps=5_000)
logger.start(configuration, {"versions": {"jax": "0.1"}})
logger.log([report(0, 16, returns=[1.0]), report(1, 16, loss=np.nan)])
logger.log([report(0, 32, returns=[3.0], evaluations=made)])
logger.close()
"""


def records(data: bytes) -> Iterator[Any]:
    """The records of a file: pieces with a checksum, a length and a kind (whole, first, middle, last) in blocks."""
    from wandb.proto import wandb_internal_pb2

    assert data[:4] == b":W&B"
    place, pieces = 7, []
    while place + 7 <= len(data):
        left = 2**15 - place % 2**15
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        pieces.append(data[place + 7 : place + 7 + length])
        place += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(b"".join(pieces))
            pieces = []
            yield record


def offline() -> list[str]:
    """What puts a command where there is no network at all, if this system can."""
    words = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
        return words
    return []


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """The records of every run that was written, each with its own, in the order of the rounds."""
    folder = tmp_path_factory.mktemp("wandb")
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [*offline(), sys.executable, "-c", RUN],
        cwd=folder,
        env={**os.environ, "WANDB_MODE": "offline", "WANDB_DIR": str(folder), "PYTHONPATH": path, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")
    runs = [list(records(file.read_bytes())) for file in folder.glob("wandb/offline-run-*/*.wandb")]
    return sorted(runs, key=lambda run: next(r.run.display_name for r in run if r.HasField("run")))


def test_every_round_is_a_run_of_one_group(written: list[list[Any]]) -> None:
    about = [next(record.run for record in run if record.HasField("run")) for run in written]
    assert [run.display_name for run in about] == ["dqn-sgd round 000", "dqn-sgd round 001"]
    assert {run.project for run in about} == {"a project"}
    assert {run.run_group for run in about} == {"together"}
    for number, run in enumerate(about):
        known = {item.key: json.loads(item.value_json) for item in run.config.update}
        assert known["round"] == number
        assert (known["task"], known["algorithm"], known["steps"]) == ("CartPole", "dqn-sgd", 5_000)
        assert known["versions"] == {"jax": "0.1"}
    assert all(run[-1].HasField("exit") and run[-1].exit.exit_code == 0 for run in written)


def test_reports_are_in_the_history_at_their_steps(written: list[list[Any]]) -> None:
    histories = [
        [
            {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            for record in run
            if record.HasField("history")
        ]
        for run in written
    ]
    first, judged, second = histories[0]
    assert [row["_step"] for row in histories[0]] == [16, 20, 32]
    assert (first["rollout/ep_rew_mean"], first["train/loss"], first["train/queries"]) == (1.0, 0.25, 8)
    assert (judged["eval/mean_reward"], judged["eval/mean_ep_length"]) == (5.0, 7.5)
    assert second["rollout/ep_rew_mean"] == 2.0
    (other,) = histories[1]
    assert other["_step"] == 16
    assert "train/loss" not in other


def test_a_mistyped_mode_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="Did you mean 'offline'"):
        WeightsAndBiases("a project", mode="ofline")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has no name"):
        WeightsAndBiases("")


def test_a_folder_that_is_called_wandb_is_not_taken_for_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(InputError, match=r"pip install 'srgdqn\[wandb\]'"):
        WeightsAndBiases("a project")


def test_without_a_login_the_run_does_not_begin(tmp_path: Path) -> None:
    code = (
        "from srgdqn.config.configure import configure; from srgdqn.errors import InputError\n"
        "from srgdqn.integrations import WeightsAndBiases, logging_to\n"
        "try:\n"
        "    with logging_to(configure('CartPole', 'dqn-sgd'), [WeightsAndBiases('p', mode='online')]):\n"
        "        print('began')\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    done = subprocess.run(
        [*offline(), sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment, "HOME": str(tmp_path), "WANDB_DIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "wandb login" in done.stdout, done.stdout + done.stderr
    assert "began" not in done.stdout
