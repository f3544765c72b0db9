"""What a call of Ray's does with a round on the host, without any Ray."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from host_environments import SMALL, Slope
from srgdqn.adapters.environments import source_of
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.engines.host_job import job_of
from srgdqn.engines.host_on_ray import _Work
from srgdqn.engines.packing import packed
from srgdqn.engines.shared_folders import marked
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import Journal
from srgdqn.runs.locks import locked
from srgdqn.training.host.task import host_task
from tiny import bits, reproducible


def test_a_round_that_somebody_is_still_at_work_on_is_trained_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a job of compiled rounds is: a call that outlived its driver costs checkpoints, not the run."""
    monkeypatch.setattr("srgdqn.runs.locks._PATIENCE", 0.1)
    source = source_of(Slope)
    configuration = configure(source.name, defaults=host_preset(source.name), **SMALL, steps=48, kernel="xla")
    task = host_task(configuration, source)
    job = job_of(configuration, task, None, measure_noise=False, manager=CheckpointManager(tmp_path))
    with marked(tmp_path) as mark:
        (tmp_path / "round-0").mkdir()
        work = _Work(packed(job), mark)
        with locked(tmp_path / "round-0", what="a round"):
            alone = work(0, threading.Event(), lambda told: None)
            assert os.listdir(tmp_path / "round-0") == [".lock"]
        kept = work(0, threading.Event(), lambda told: None)
        assert Journal(tmp_path / "round-0").numbers() == [1]
    assert alone.whole
    assert reproducible(alone.tables) == reproducible(kept.tables)
    assert bits(alone.policies) == bits(kept.policies)
