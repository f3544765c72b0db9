"""Event files of a real run, read back by TensorBoard itself and compared with the run's tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from reported import report
from srgdqn.errors import InputError
from srgdqn.integrations import TensorBoard, logging_to
from srgdqn.integrations.loggers import Scalars
from srgdqn.results.result import Result
from srgdqn.runs.configurations import loads
from srgdqn.session.prepare import prepare
from srgdqn.training.reports import GreedyEpisodes
from tiny import tiny

pytest.importorskip("tensorboard")


def accumulated(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("tensorboard") / "logs" / "a"
    configuration, _ = tiny(rounds=2, steps=2_000, evaluation_interval=480, eta=0.001)
    with logging_to(configuration, [TensorBoard(folder)]) as listener:
        result = prepare(configuration).train(listener=listener)
    assert result.rounds["completed"].all()
    return folder, result


def test_every_round_has_a_folder_with_its_scalars(logged: tuple[Path, Result]) -> None:
    folder, result = logged
    assert sorted(path.name for path in folder.iterdir()) == ["round-000", "round-001"]
    for number in range(2):
        events = accumulated(folder / f"round-{number:03d}")
        names = Scalars().rows(report(evaluations=(GreedyEpisodes(100, np.ones(1), np.ones(1)),)), 1.0)[0][1]
        measured_on_the_host = {"train/gradient_variance", "train/anchor_distance"}
        assert set(events.Tags()["scalars"]) == names.keys() - measured_on_the_host
        row = result.rounds.row(number, named=True)
        ends = {
            "time/episodes": row["episodes"],
            "train/n_updates": row["outer_iterations"],
            "train/queries": row["queries"],
            "train/gradient_evaluations": row["gradient_evaluations"],
        }
        for name, value in ends.items():
            last = events.Scalars(name)[-1]
            assert (last.step, last.value) == (2_000, value)
        mine = result.episodes.filter(pl.col("round") == number)
        for name, column in (("rollout/ep_rew_mean", "return"), ("rollout/ep_len_mean", "length")):
            for event in events.Scalars(name):
                by_then = mine.filter(pl.col("step") <= event.step)[column].to_numpy()
                assert event.value == pytest.approx(np.mean(by_then[-100:]), rel=1e-6)


def test_evaluations_are_at_the_steps_they_were_made(logged: tuple[Path, Result]) -> None:
    folder, result = logged
    played = result.evaluations.filter(pl.col("round") == 1).group_by("step", maintain_order=True).mean()
    for name, column in (("eval/mean_reward", "return"), ("eval/mean_ep_length", "length")):
        events = accumulated(folder / "round-001").Scalars(name)
        assert [event.step for event in events] == played["step"].to_list() == [480, 960, 1_440, 1_920, 2_000]
        assert [event.value for event in events] == pytest.approx(played[column].to_list(), rel=1e-6)


def test_the_configuration_is_there_as_a_text(logged: tuple[Path, Result]) -> None:
    folder, result = logged
    events = accumulated(folder / "round-000")
    metadata = events.summary_metadata["configuration/text_summary"]
    assert metadata.plugin_data.plugin_name == "text"
    (text,) = events.Tensors("configuration/text_summary")[0].tensor_proto.string_val
    written = "\n".join(line.removeprefix("    ") for line in text.decode().splitlines())
    # What runs the loop is decided once training begins.
    settled = loads(written).with_options({"kernel": result.configuration.training.kernel})
    assert settled == result.configuration
    (about,) = events.Tensors("about/text_summary")[0].tensor_proto.string_val
    assert b"versions: {" in about


def test_rounds_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    first = TensorBoard(tmp_path)
    first.start(tiny(rounds=1)[0], {})
    with pytest.raises(InputError, match="has the rounds of a run already"):
        TensorBoard(tmp_path)


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "tensorboard", raising=False)
    with pytest.raises(InputError, match=r"pip install 'srgdqn\[tensorboard\]'"):
        TensorBoard(tmp_path / "logs")
    assert list(tmp_path.iterdir()) == []


def test_it_needs_neither_torch_nor_tensorflow(tmp_path: Path) -> None:
    code = (
        "import sys; from srgdqn.config.configure import configure; from srgdqn.integrations import TensorBoard; "
        f"TensorBoard({str(tmp_path)!r}).start(configure('CartPole', 'dqn-sgd'), {{}}); "
        "assert not {'torch', 'tensorflow', 'jax'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
