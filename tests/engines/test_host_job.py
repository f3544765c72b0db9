"""What another process is told of a run: everything of the user's own that only this one knows."""

from __future__ import annotations

from pathlib import Path

import cloudpickle
import gymnasium as gym

from host_environments import SMALL
from srgdqn.adapters.environments import source_of
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.engines.host_job import job_of
from srgdqn.learner.estimators import ESTIMATORS, estimator, make_known, own_estimators, register_estimator
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training.host.task import host_task


def test_what_is_known_stays_what_it_is() -> None:
    assert own_estimators() == {}
    register_estimator("mine", ESTIMATORS["svrg"])
    try:
        assert own_estimators() == {"mine": ESTIMATORS["svrg"]}
        make_known({"mine": ESTIMATORS["srg"], "another": ESTIMATORS["sgd"]})
        assert own_estimators() == {"mine": ESTIMATORS["svrg"], "another": ESTIMATORS["sgd"]}
    finally:
        for name in own_estimators():
            del ESTIMATORS[name]


def test_a_job_brings_what_only_this_process_knows(tmp_path: Path) -> None:
    """Handed over, and forgotten here meanwhile, as a process that never knew it."""
    gym.register("Private-v0", "host_environments:Counting")
    register_estimator("mine", ESTIMATORS["svrg"])
    try:
        configuration = configure("Private-v0", defaults=host_preset("Private-v0"), estimator="mine", **SMALL)
        task = host_task(configuration, source_of("Private-v0"))
        job = job_of(configuration, task, None, measure_noise=True, manager=CheckpointManager(tmp_path))
        data = cloudpickle.dumps(job)
        assert set(job.specs) == {"Private-v0"}
        del gym.registry["Private-v0"], ESTIMATORS["mine"]
        handed = cloudpickle.loads(data)
        assert handed.task().observations == task.observations
        assert "Private-v0" in gym.registry
        assert estimator("mine").direction is ESTIMATORS["svrg"].direction
        assert (handed.configuration, handed.double, handed.measure_noise) == (configuration, job.double, True)
        assert handed.manager.folder == tmp_path
    finally:
        gym.registry.pop("Private-v0", None)
        ESTIMATORS.pop("mine", None)
