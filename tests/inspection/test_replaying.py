"""Runs that replay in other ways than one transition drawn uniformly: verified, resumed and traced as others are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srgdqn
from checkpointed_runs import checkpointed_run, hosted_run
from cut_short import Killed
from srgdqn.inspection.saved_run import checkpoints_of, open_run
from srgdqn.inspection.segments import relearned
from srgdqn.runs.checkpoint_manager import JobCheckpoints
from tiny import outcome

SHARED: dict[str, Any] = dict(
    kernel="xla", replay_capacity=64, target="hard", direction_errors=True, evaluation_interval=64
)
WAYS: dict[str, dict[str, Any]] = {"n steps": dict(n_step=3), "prioritised": dict(sampling="prioritised", n_step=2)}
TRAINED: dict[str, Any] = {"compiled": checkpointed_run, "hosted": hosted_run}


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module", params=TRAINED)
def run(request: pytest.FixtureRequest, way: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replaying") / request.param
    TRAINED[request.param](folder, **SHARED, **WAYS[way])
    return folder


def test_they_are_verified(run: Path) -> None:
    assert srgdqn.verify(run, 0, progress=False).verdict == "identical"
    segments = srgdqn.verify(run, 0, how="segments", progress=False)
    assert segments.verdict == "identical"
    assert len(segments.segments) > 2


def test_they_are_resumed_to_the_same_bits(
    run: Path, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving, saved = JobCheckpoints.save, []

    def save(checkpoints: JobCheckpoints, snapshot: Any) -> float:
        saved.append(saving(checkpoints, snapshot))
        if len(saved) == 3:
            raise Killed
        return saved[-1]

    monkeypatch.setattr(JobCheckpoints, "save", save)
    train = TRAINED[run.name]
    with pytest.raises(Killed):
        train(tmp_path / "run", **SHARED, **WAYS[way])
    resumed = train(tmp_path / "run", **SHARED, **WAYS[way], resume=True)
    assert outcome(resumed) == outcome(srgdqn.load(run))


def test_what_is_traced_is_what_was_learned(run: Path) -> None:
    """The transitions are those of the run: from them alone its parameters are had again."""
    replay = srgdqn.replay_round(run, 0)
    assert replay.faithful
    assert replay.difference < 1e-5
    inner = replay.inner.drop_nulls("row")
    np.testing.assert_allclose(inner["target"] - inner["q"], inner["td_error"], atol=1e-5)
    assert replay.iterations["largest_td_made_at"].max() <= replay.iterations["step"].max()


def test_learning_is_repeated_on_stored_transitions(run: Path) -> None:
    if run.name == "hosted" or srgdqn.load(run).configuration.replay.sampling == "prioritised":
        pytest.skip("hosted runs, and priorities, are not learned again from what was stored")
    saved = open_run(run)
    start, end = checkpoints_of(saved, 1)[1:3]
    found = relearned(saved, start, end, 1, lambda array: array)
    assert found is not None
    for path, array in end.policy().items():
        np.testing.assert_allclose(found[0][path], array, rtol=1e-4, atol=1e-6)


def test_directions_are_compared(run: Path) -> None:
    directions = srgdqn.load(run).directions
    assert directions is not None
    assert np.isfinite(directions["squared_norm"].drop_nulls().to_numpy()).all()
    assert (directions["squared_error"].drop_nulls() > 0).any()
