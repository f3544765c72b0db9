"""Rerun rounds are the run's own, from the beginning and from every checkpoint, whichever kind they are of."""

import itertools
import shutil
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest

import srgdqn
from checkpointed_runs import checkpointed_run
from srgdqn.errors import InputError
from srgdqn.inspection.rerun import rerun
from srgdqn.inspection.saved_run import SavedRun, checkpoints_of, open_run
from srgdqn.inspection.segments import relearned
from srgdqn.training.lane import Instruments
from srgdqn.training.rounds import train_rounds
from tiny import BLOCK, bits


@pytest.fixture(params=["compiled", "hosted"])
def saved(request: pytest.FixtureRequest) -> SavedRun:
    return open_run(request.getfixturevalue(request.param))


def assert_ends_as_stored(saved: SavedRun, number: int, policy: dict[str, np.ndarray]) -> None:
    stored = saved.result.parameters_of(number)
    assert policy.keys() == stored.keys()
    assert bits([policy[path] for path in stored]) == bits(list(stored.values()))


def test_from_every_checkpoint(saved: SavedRun) -> None:
    *stored, last = checkpoints_of(saved, 0)
    assert len(stored) > 2
    assert last.at_the_end
    with rerun(saved, 0) as whole:
        for start in stored:
            whole.advance(start.blocks)
            assert bits(start.policy()) == bits(whole.policies()[0])
            with rerun(saved, 0, start) as round_:
                assert round_.blocks == start.blocks
                round_.advance(10**6)
                assert_ends_as_stored(saved, 0, round_.policies()[0])
        whole.advance(10**6)
        episodes = saved.result.episodes.filter(pl.col("round") == 0)
        assert whole.ends == episodes["step"].to_list()
    with rerun(saved, 0, stored[-1]) as round_:
        round_.add_copies(2, lambda numbers: numbers)
        round_.advance(10**6)
        policies = round_.policies()
        assert len(policies) == 3
        for policy in policies:
            assert_ends_as_stored(saved, 0, policy)


def test_block_by_block_is_the_same_as_at_once(saved: SavedRun) -> None:
    inputs = []
    with rerun(saved, 0) as round_:
        while round_.active:
            inputs += round_.next_iterations()
        assert_ends_as_stored(saved, 0, round_.policies()[0])
    assert len(inputs) == saved.row_of(0)["outer_iterations"]
    for one, following in itertools.pairwise(inputs):
        assert bits(one.after) == bits(following.before)


def test_batches_are_the_transitions_that_were_made(compiled: Path) -> None:
    """Compared with a recording of every step of the same round, made by the training loop itself."""
    saved = open_run(compiled)
    blocks = -(-saved.row_of(1)["steps"] // BLOCK)
    recording = train_rounds(saved.configuration, saved.task, instruments=Instruments(blocks_kept=blocks)).recording
    assert recording is not None
    with rerun(saved, 1) as round_:
        made = [inputs for _ in range(blocks - 1) for inputs in round_.next_iterations()]
    assert len(made) > 10
    for inputs in made:
        rows = recording[1][inputs.made_at - 1]
        size = inputs.transitions.observation.shape[1]
        assert (rows[:, :size] == inputs.transitions.observation).all()
        assert (rows[:, size : 2 * size] == inputs.transitions.next_observation).all()
        assert (rows[:, 2 * size] == inputs.transitions.action).all()
        assert (rows[:, 2 * size + 1] == inputs.transitions.reward).all()
        assert (inputs.made_at <= inputs.step).all()
        assert (inputs.made_at > inputs.step - saved.configuration.replay.replay_capacity).all()


def test_the_kernels_rounds_are_its_own(tmp_path: Path, kernel: None) -> None:
    del kernel
    checkpointed_run(tmp_path / "run", kernel="native", lanes=8)
    saved = open_run(tmp_path / "run")
    with rerun(saved, 2, checkpoints_of(saved, 2)[2]) as round_:
        while round_.active:
            round_.next_iterations()
        assert_ends_as_stored(saved, 2, round_.policies()[0])


def test_learning_repeated_on_stored_transitions_ends_where_the_run_did(tmp_path: Path) -> None:
    """To within rounding, as it is another program. Transitions of segments longer than the replay are not stored."""
    options = dict(normalise_observations=True, target="hard", schedule="linear")
    checkpointed_run(tmp_path / "run", kernel="xla", replay_capacity=64, batch_size=4, **options)
    saved = open_run(tmp_path / "run")
    checked, stored = 0, [each for each in checkpoints_of(saved, 0) if not each.at_the_end]
    assert relearned(saved, stored[0], stored[-1], 1, lambda numbers: numbers) is None
    for start, end in itertools.pairwise(stored):
        own, copy = relearned(saved, start, end, 1, lambda numbers: numbers) or ({}, {})
        for path, array in end.policy().items():
            moved = np.abs(array - start.policy()[path]).max()
            assert np.abs(own[path] - array).max() <= 1e-4 * moved + 1e-7
            assert (own[path] == copy[path]).all()
            checked += moved > 1e-4
    assert checked > 5


def test_another_precision_is_refused(compiled: Path) -> None:
    with jax.enable_x64(True), pytest.raises(InputError, match=r"computed in float32.*JAX_ENABLE_X64=0"):
        open_run(compiled)


@pytest.mark.parametrize("kind", ["compiled", "hosted"])
class TestDamagedCheckpoints:
    """They are warned about by name, and left out."""

    @pytest.fixture
    @staticmethod
    def job(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        shutil.copytree(request.getfixturevalue(kind), tmp_path / "run")
        return sorted((tmp_path / "run" / "checkpoints").iterdir())[0]

    def test_one_that_cannot_be_read(self, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        saved = open_run(tmp_path / "run")
        before = [each.blocks for each in checkpoints_of(saved, 0)]
        damage(sorted(job.glob("*.checkpoint"))[1])
        capsys.readouterr()
        assert [each.blocks for each in checkpoints_of(saved, 0)] == [before[0], *before[2:]]
        assert capsys.readouterr().err.startswith(f"warning: the checkpoint 2 in {job} cannot be used: ")

    def test_one_whose_replay_is_lost(self, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """It can still be compared with, but not resumed from."""
        saved = open_run(tmp_path / "run")
        before = [each.blocks * saved.block for each in checkpoints_of(saved, 0) if not each.at_the_end]
        damage(sorted(job.glob("*.replay.piece"))[-1])
        done = srgdqn.verify(tmp_path / "run", 0, how="segments", progress=False)
        assert done.verdict == "identical"
        assert [each.until_step for each in done.segments[:-1]] == before
        assert done.segments[-1].from_step == before[-2]
        [warning] = capsys.readouterr().err.splitlines()
        assert warning.startswith(f"warning: the checkpoint {len(before)} in {job} cannot be used: ")
        replay = srgdqn.replay_round(tmp_path / "run", 0, from_step=before[-1] + saved.block)
        assert (replay.faithful, replay.started_at) == (True, before[-2])


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
