"""Rerun rounds are the run's own, from the beginning and from every checkpoint, whichever kind they are of."""

import itertools
import shutil
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest

import srgdqn
from kept_runs import kept_run
from srgdqn.errors import InputError
from srgdqn.inspection.saved_run import SavedRun, checkpoints_of, open_run, rerun
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


def test_from_the_beginning(saved: SavedRun) -> None:
    number = saved.result.rounds["round"][-1]
    with rerun(saved, number) as round_:
        round_.advance(10**6)
        ends = np.concatenate(round_.ends)
        assert_ends_as_stored(saved, number, round_.policies()[0])
    episodes = saved.result.episodes.filter(pl.col("round") == number)
    assert ends.tolist() == episodes["step"].to_list()


def test_from_every_checkpoint(saved: SavedRun) -> None:
    kept = checkpoints_of(saved, 0)
    assert len(kept) > 2
    assert kept[-1].at_the_end
    with rerun(saved, 0) as whole:
        for start in kept[:-1]:
            whole.advance(start.blocks)
            assert bits(start.policy()) == bits(whole.policies()[0])
            with rerun(saved, 0, start) as round_:
                assert round_.blocks == start.blocks
                round_.advance(10**6)
                assert_ends_as_stored(saved, 0, round_.policies()[0])


def test_block_by_block_is_the_same_as_at_once(saved: SavedRun) -> None:
    with rerun(saved, 0) as round_:
        iterations_made = []
        while round_.active:
            iterations_made.append(round_.next_iteration())
        assert_ends_as_stored(saved, 0, round_.policies()[0])
    made = [inputs for inputs in iterations_made if inputs is not None]
    assert len(made) == saved.row_of(0)["outer_iterations"]
    for one, following in itertools.pairwise(made):
        assert bits(one.after) == bits(following.before)
    told = [inputs.logged[0] for inputs in made]
    window = saved.configuration.training.window
    first = [loss for loss, inputs in zip(told, made, strict=True) if inputs.step <= window]
    curves = saved.result.curves.filter(pl.col("round") == 0)
    assert curves["loss"][0] == pytest.approx(np.mean(first), rel=1e-6)


def test_copies_differ_from_the_round_only_as_they_were_told_to(saved: SavedRun) -> None:
    with rerun(saved, 0, checkpoints_of(saved, 0)[-2]) as round_:
        round_.beside_copies(2, lambda numbers: numbers)
        round_.advance(10**6)
        own, *copies = round_.policies()
    assert_ends_as_stored(saved, 0, own)
    assert bits(copies[0]) == bits(own)
    assert bits(copies[1]) == bits(own)


def test_batches_are_the_transitions_that_were_made(compiled: Path) -> None:
    """Held against a recording of every step of the same round, made by the training loop itself."""
    saved = open_run(compiled)
    blocks = -(-saved.row_of(1)["steps"] // BLOCK)
    recording = train_rounds(saved.configuration, saved.task, instruments=Instruments(blocks_kept=blocks)).recording
    assert recording is not None
    with rerun(saved, 1) as round_:
        iterations_made = [round_.next_iteration() for _ in range(blocks - 1)]
    capacity = saved.configuration.replay.replay_capacity
    seen = 0
    for inputs in filter(None, iterations_made):
        rows = recording[1][inputs.made_at - 1]
        size = inputs.transitions.observation.shape[1]
        assert (rows[:, :size] == inputs.transitions.observation).all()
        assert (rows[:, size : 2 * size] == inputs.transitions.next_observation).all()
        assert (rows[:, 2 * size] == inputs.transitions.action).all()
        assert (rows[:, 2 * size + 1] == inputs.transitions.reward).all()
        assert (inputs.made_at <= inputs.step).all()
        assert (inputs.made_at > inputs.step - capacity).all()
        seen += 1
    assert seen > 10


def test_the_kernels_rounds_are_its_own(tmp_path: Path, kernel: None) -> None:
    del kernel
    kept_run(tmp_path / "run", kernel="native", lanes=8)
    saved = open_run(tmp_path / "run")
    for starts in ((), checkpoints_of(saved, 2)[2:3]):
        with rerun(saved, 2, *starts) as round_:
            while round_.active:
                round_.next_iteration()
            assert_ends_as_stored(saved, 2, round_.policies()[0])


class TestWhatCannotBeDone:
    def test_no_such_round(self, compiled: Path) -> None:
        with pytest.raises(InputError, match=r"no round 3 in this run. Give one of 0 to 2"):
            open_run(compiled).row_of(3)

    def test_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="not the folder of a run"):
            open_run(tmp_path)

    def test_another_precision(self, compiled: Path) -> None:
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
        assert srgdqn.verify(tmp_path / "run", 0, how="segments", progress=False).verdict == "identical"
        assert srgdqn.replay_round(tmp_path / "run", 0).faithful

    def test_one_whose_replay_is_lost(self, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """It can still be compared with, but not resumed from."""
        saved = open_run(tmp_path / "run")
        before = [each.blocks * saved.block for each in checkpoints_of(saved, 0) if not each.at_the_end]
        damage(sorted(job.glob("*.replay.piece"))[-1])
        done = srgdqn.verify(tmp_path / "run", 0, how="segments", progress=False)
        assert done.verdict == "identical"
        assert [each.until_step for each in done.segments[:-1]] == before
        assert done.segments[-1].from_step == before[-2]
        [told] = capsys.readouterr().err.splitlines()
        assert told.startswith(f"warning: the checkpoint {len(before)} in {job} cannot be used: ")
        replay = srgdqn.replay_round(tmp_path / "run", 0, from_step=before[-1] + saved.block)
        assert replay.faithful
        assert replay.started_at == before[-2]


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
