"""Rounds lived again are the run's own, from the beginning and from every checkpoint, whichever kind they are of."""

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
from srgdqn.inspection.open_round import lived_again
from srgdqn.inspection.saved_checkpoints import checkpoints_of
from srgdqn.inspection.saved_run import Subject, subject_of
from srgdqn.training.lane import Instruments
from srgdqn.training.rounds import train_rounds
from tiny import BLOCK, bits


@pytest.fixture(params=["compiled", "hosted"])
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.getfixturevalue(request.param))


def assert_ends_as_stored(subject: Subject, number: int, policy: dict[str, np.ndarray]) -> None:
    stored = subject.result.parameters_of(number)
    assert policy.keys() == stored.keys()
    assert bits([policy[path] for path in stored]) == bits(list(stored.values()))


def test_from_the_beginning(subject: Subject) -> None:
    number = subject.result.rounds["round"][-1]
    with lived_again(subject, number) as lived:
        lived.advance(10**6)
        ends = np.concatenate(lived.ends)
        assert_ends_as_stored(subject, number, lived.policies()[0])
    episodes = subject.result.episodes.filter(pl.col("round") == number)
    assert ends.tolist() == episodes["step"].to_list()


def test_from_every_checkpoint(subject: Subject) -> None:
    kept = checkpoints_of(subject, 0)
    assert len(kept) > 2
    assert kept[-1].at_the_end
    with lived_again(subject, 0) as whole:
        for start in kept[:-1]:
            whole.advance(start.blocks)
            assert bits(start.policy()) == bits(whole.policies()[0])
            with lived_again(subject, 0, start) as lived:
                assert lived.blocks == start.blocks
                lived.advance(10**6)
                assert_ends_as_stored(subject, 0, lived.policies()[0])


def test_block_by_block_is_the_same_as_at_once(subject: Subject) -> None:
    with lived_again(subject, 0) as lived:
        moments = []
        while lived.active:
            moments.append(lived.live())
        assert_ends_as_stored(subject, 0, lived.policies()[0])
    made = [moment for moment in moments if moment is not None]
    assert len(made) == subject.row_of(0)["outer_iterations"]
    for one, following in itertools.pairwise(made):
        assert bits(one.after) == bits(following.before)
    told = [moment.told[0] for moment in made]
    window = subject.configuration.training.window
    first = [loss for loss, moment in zip(told, made, strict=True) if moment.step <= window]
    curves = subject.result.curves.filter(pl.col("round") == 0)
    assert curves["loss"][0] == pytest.approx(np.mean(first), rel=1e-6)


def test_copies_differ_from_the_round_only_as_they_were_told_to(subject: Subject) -> None:
    with lived_again(subject, 0, checkpoints_of(subject, 0)[-2]) as lived:
        lived.beside_copies(2, lambda numbers: numbers)
        lived.advance(10**6)
        own, *copies = lived.policies()
    assert_ends_as_stored(subject, 0, own)
    assert bits(copies[0]) == bits(own)
    assert bits(copies[1]) == bits(own)


def test_batches_are_the_transitions_that_were_made(compiled: Path) -> None:
    """Held against a recording of every step of the same round, made by the training loop itself."""
    subject = subject_of(compiled)
    blocks = -(-subject.row_of(1)["steps"] // BLOCK)
    recording = train_rounds(subject.configuration, subject.task, instruments=Instruments(blocks_kept=blocks)).recording
    assert recording is not None
    with lived_again(subject, 1) as lived:
        moments = [lived.live() for _ in range(blocks - 1)]
    capacity = subject.configuration.replay.replay_capacity
    seen = 0
    for moment in filter(None, moments):
        rows = recording[1][moment.made_at - 1]
        size = moment.transitions.observation.shape[1]
        assert (rows[:, :size] == moment.transitions.observation).all()
        assert (rows[:, size : 2 * size] == moment.transitions.next_observation).all()
        assert (rows[:, 2 * size] == moment.transitions.action).all()
        assert (rows[:, 2 * size + 1] == moment.transitions.reward).all()
        assert (moment.made_at <= moment.step).all()
        assert (moment.made_at > moment.step - capacity).all()
        seen += 1
    assert seen > 10


def test_the_kernels_rounds_are_its_own(tmp_path: Path, kernel: None) -> None:
    del kernel
    kept_run(tmp_path / "run", kernel="native", lanes=8)
    subject = subject_of(tmp_path / "run")
    for starts in ((), checkpoints_of(subject, 2)[2:3]):
        with lived_again(subject, 2, *starts) as lived:
            while lived.active:
                lived.live()
            assert_ends_as_stored(subject, 2, lived.policies()[0])


class TestWhatCannotBeDone:
    def test_no_such_round(self, compiled: Path) -> None:
        with pytest.raises(InputError, match=r"no round 3 in this run. Give one of 0 to 2"):
            subject_of(compiled).row_of(3)

    def test_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="not the folder of a run"):
            subject_of(tmp_path)

    def test_another_precision(self, compiled: Path) -> None:
        with jax.enable_x64(True), pytest.raises(InputError, match=r"computed in float32.*JAX_ENABLE_X64=0"):
            subject_of(compiled)


@pytest.mark.parametrize("kind", ["compiled", "hosted"])
class TestDamagedCheckpoints:
    """They are told of with their names, and gone on without."""

    @pytest.fixture
    @staticmethod
    def strand(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        shutil.copytree(request.getfixturevalue(kind), tmp_path / "run")
        return sorted((tmp_path / "run" / "checkpoints").iterdir())[0]

    def test_one_that_cannot_be_read(self, strand: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        subject = subject_of(tmp_path / "run")
        before = [each.blocks for each in checkpoints_of(subject, 0)]
        damage(sorted(strand.glob("*.checkpoint"))[1])
        capsys.readouterr()
        assert [each.blocks for each in checkpoints_of(subject, 0)] == [before[0], *before[2:]]
        assert capsys.readouterr().err.startswith(f"warning: the checkpoint 2 in {strand} cannot be used: ")
        assert srgdqn.verify(tmp_path / "run", 0, how="segments", progress=False).verdict == "identical"
        assert srgdqn.replay_round(tmp_path / "run", 0).faithful

    def test_one_whose_replay_is_lost(self, strand: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """It can still be compared with, but not gone on from."""
        subject = subject_of(tmp_path / "run")
        before = [each.blocks * subject.block for each in checkpoints_of(subject, 0) if not each.at_the_end]
        damage(sorted(strand.glob("*.replay.piece"))[-1])
        done = srgdqn.verify(tmp_path / "run", 0, how="segments", progress=False)
        assert done.verdict == "identical"
        assert [each.until_step for each in done.segments[:-1]] == before
        assert done.segments[-1].from_step == before[-2]
        [told] = capsys.readouterr().err.splitlines()
        assert told.startswith(f"warning: the checkpoint {len(before)} in {strand} cannot be used: ")
        replay = srgdqn.replay_round(tmp_path / "run", 0, from_step=before[-1] + subject.block)
        assert replay.faithful
        assert replay.started_at == before[-2]


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
