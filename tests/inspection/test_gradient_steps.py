"""Several outer iterations after every block: runs are counted, verified, resumed and replayed as others are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import srgdqn
from checkpointed_runs import checkpointed_run, hosted_run
from cut_short import Killed
from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.inspection.saved_run import checkpoints_of, open_run
from srgdqn.inspection.segments import relearned
from srgdqn.learner.outer_iteration import evaluations_per_iteration, queries_per_iteration
from srgdqn.runs.checkpoint_manager import JobCheckpoints
from tiny import outcome

EACH = 3
SHARED: dict[str, Any] = dict(kernel="xla", gradient_steps=EACH, target="hard", target_update_interval=25)
HOW = {"compiled": SHARED | {"replay_capacity": 64}, "hosted": SHARED}  # as long as a segment


def counts(configuration: Configuration, steps: int) -> tuple[int, int]:
    """The blocks that ended with outer iterations, and how many these were."""
    training = configuration.training
    blocks = steps // training.learning_frequency - training.first_learning_block
    return blocks, blocks * training.gradient_steps


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("several")
    checkpointed_run(folder / "compiled", **HOW["compiled"])
    hosted_run(folder / "hosted", **HOW["hosted"])
    return {name: folder / name for name in ("compiled", "hosted")}


@pytest.fixture(params=["compiled", "hosted"])
def run(request: pytest.FixtureRequest, runs: dict[str, Path]) -> Path:
    return runs[request.param]


def test_iterations_and_queries_are_those_of_all_blocks(run: Path) -> None:
    result = srgdqn.load(run)
    configuration = result.configuration
    row = result.rounds.row(0, named=True)
    _, made = counts(configuration, row["steps"])
    assert row["outer_iterations"] == made > 2 * EACH
    assert row["queries"] == made * queries_per_iteration(configuration)
    assert row["gradient_evaluations"] == made * evaluations_per_iteration(configuration)
    curves = result.curves.filter(pl.col("round") == 0)
    each = [counts(configuration, step)[1] for step in curves["step"].to_list()]
    assert curves["queries"].to_list() == [max(0, count) * queries_per_iteration(configuration) for count in each]


def test_a_budget_in_outer_iterations_is_a_multiple(tmp_path: Path) -> None:
    for train, name in ((checkpointed_run, "compiled"), (hosted_run, "hosted")):
        how: dict[str, Any] = dict(kernel="xla", gradient_steps=EACH, steps=None, outer_iterations=4 * EACH)
        result = train(tmp_path / name, **how)
        assert result.rounds["outer_iterations"].unique().to_list() == [4 * EACH]
        assert result.rounds["completed"].all()
        final = result.curves.filter(pl.col("queries") > 0.8 * result.rounds["queries"][0])
        assert srgdqn.compare([result])["reward_rounds"].to_list() == [final["round"].n_unique()]
        for asked in (4 * EACH - 1, 4 * EACH + 1):
            with pytest.raises(InputError, match=f"outer_iterations = {asked} is not a multiple of gradient_steps = 3"):
                train(tmp_path / "refused", **{**how, "outer_iterations": asked})


def test_they_are_verified(run: Path) -> None:
    assert srgdqn.verify(run, 0, progress=False).verdict == "identical"
    segments = srgdqn.verify(run, 0, how="segments", progress=False)
    assert segments.verdict == "identical"
    assert len(segments.segments) > 2


def test_learning_is_repeated_on_stored_transitions(runs: dict[str, Path]) -> None:
    saved = open_run(runs["compiled"])
    start, end = checkpoints_of(saved, 1)[1:3]
    found = relearned(saved, start, end, 1, lambda array: array)
    assert found is not None
    for path, array in end.policy().items():
        np.testing.assert_allclose(found[0][path], array, rtol=1e-4, atol=1e-6)


def test_they_are_resumed_to_the_same_bits(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, saving, saved = checkpointed_run if run.name == "compiled" else hosted_run, JobCheckpoints.save, []

    def save(checkpoints: JobCheckpoints, snapshot: Any) -> float:
        saved.append(saving(checkpoints, snapshot))
        if len(saved) == 3:
            raise Killed
        return saved[-1]

    monkeypatch.setattr(JobCheckpoints, "save", save)
    with pytest.raises(Killed):
        train(tmp_path / "run", **HOW[run.name])
    resumed = train(tmp_path / "run", **HOW[run.name], resume=True)
    assert outcome(resumed) == outcome(srgdqn.load(run))


def test_every_one_is_traced(run: Path) -> None:
    """Each begins where the one before it ended, and the last of a block ends where the run did."""
    replay = srgdqn.replay_round(run, 0)
    assert replay.faithful
    made = replay.iterations
    last = srgdqn.load(run).rounds.row(0, named=True)["outer_iterations"]
    numbers = made["outer_iteration"].to_list()
    assert numbers == list(range(last - len(numbers) + 1, last + 1))
    assert len(numbers) == 6 * EACH  # sixteen, in whole blocks
    assert made["step"].to_list() == [step for step in made["step"].unique().sort() for _ in range(EACH)]
    known = made["difference"].is_not_null().to_list()
    assert known == [(number - numbers[0]) % EACH == EACH - 1 for number in numbers]
    assert replay.difference < 1e-5
    np.testing.assert_allclose(made["theta_norm"][1:], made["after_norm"][:-1], rtol=1e-5)


@pytest.mark.parametrize("train", [checkpointed_run, hosted_run])
def test_the_one_that_was_discarded_is_the_last_traced(train: Any, tmp_path: Path) -> None:
    how = dict(kernel="xla", gradient_steps=EACH, inner_iterations=6, eta=3.0 if train is checkpointed_run else 1e4)
    result = train(tmp_path / "run", **how)
    row = result.rounds.row(0, named=True)
    assert row["diverged_at"] is not None
    replay = srgdqn.replay_round(tmp_path / "run", 0)
    assert replay.iterations["discarded"].to_list() == [False] * (replay.iterations.height - 1) + [True]
    assert replay.iterations["step"][-1] == row["diverged_at"]
    assert replay.faithful
    assert row["outer_iterations"] - EACH < replay.iterations["outer_iteration"][-1] <= row["outer_iterations"]
