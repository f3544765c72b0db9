"""A job's lanes, to and from a checkpoint; what is none of its own is refused before anything is trained."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from srgdqn.errors import InputError
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import Checkpoint, CheckpointFolder
from srgdqn.training import Trained, train_rounds
from srgdqn.training.job import Job, JobTrainer, restored_job
from srgdqn.training.job_split import Share
from srgdqn.training.lanes import LaneRounds
from srgdqn.training.loop import configuration_digest, owners_of, position_of, record, segments, snapshot
from srgdqn.training.program import Programs, programs_for
from srgdqn.training.recorder import Recorder
from tiny import bits, lane_segments, reproducible, tiny

ROUNDS = 6  # in two chunks
RUN = tiny(rounds=ROUNDS, steps=240, evaluation_interval=64, eta=0.3, time_limit=None)  # with which some diverge


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.training.recorder.PAGE_STEPS", 48)


@pytest.fixture(scope="module")
def programs() -> Programs:
    return programs_for(RUN[0], RUN[1], None)[0]


@pytest.fixture(scope="module")
def whole() -> Trained:
    return train_rounds(*RUN)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a job that was stopped after ten of fifteen blocks."""
    folder, stop = tmp_path_factory.mktemp("job"), threading.Event()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("srgdqn.training.recorder.PAGE_STEPS", 48)
        train_rounds(
            *RUN,
            manager=CheckpointManager(folder, every=0.0, keep=None),
            stop=stop,
            listener=lambda progress: stop.set() if progress.share > 0.6 else None,
            workers=1,
            segment_blocks=2,
        )
    [job] = folder.iterdir()
    return job


def newest(job: Path) -> Checkpoint:
    journal = CheckpointFolder(job)
    return journal.open(journal.numbers()[-1])


def restored(checkpoint: Checkpoint, programs: Programs, rounds: int = ROUNDS) -> tuple[LaneRounds, Recorder]:
    job = Job((Share(configuration_digest(RUN[0]), range(rounds), 0),))
    return restored_job(checkpoint, JobTrainer((RUN[0],), RUN[1]), job, programs)


def test_what_is_stored_is_what_is_restored(job: Path, programs: Programs) -> None:
    """Stored once more, all of it anew, it is the same to the bit."""
    checkpoint = newest(job)
    assert position_of(checkpoint) == (10, False)
    assert owners_of(checkpoint) == [(configuration_digest(RUN[0]), 0, ROUNDS)]
    again = snapshot(*restored(checkpoint, programs))
    assert again.about == {name: value for name, value in checkpoint.about.items() if name != "stamp"}
    assert sorted(again.tensors) == sorted(checkpoint.tensors)
    for name, tensor in checkpoint.tensors.items():
        assert bits(again.tensors[name]) == bits(tensor), name
    assert again.spans == checkpoint.spans
    records = {f"records.{name}" for name in ("curves", "episodes", "evaluations", "timings")}
    assert {*records, "state.replay"} == checkpoint.spans.keys()
    for name, first, rows in checkpoint.rows():
        count = len(next(iter(rows.values())))
        found = again.streams[name].read(first, first + count)
        assert {of: bits(column) for of, column in found.items()} == {of: bits(column) for of, column in rows.items()}


def test_every_checkpoint_leads_to_the_same_end(job: Path, programs: Programs, whole: Trained) -> None:
    """Both the policies and the tables."""
    journal = CheckpointFolder(job)
    assert len(journal.numbers()) > 4
    for number in journal.numbers():
        rounds, recorder = restored(journal.open(number), programs)
        for segment in segments(rounds, most=3):
            record(recorder, segment)
        assert segment.last
        assert bits(rounds.policies()) == bits(whole.policies)
        tables = recorder.tables(slice(None), range(ROUNDS), RUN[0], rounds.divergence)
        assert reproducible(tables) == reproducible(whole.tables)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_round_goes_on_alone(number: int, job: Path, programs: Programs, whole: Trained) -> None:
    """One of two chunks' rounds, taken out of its job, in a chunk of its own."""
    rounds, _ = restored(newest(job), programs)
    lane = jax.tree.map(lambda leaf: leaf[number : number + 1], rounds.on_host())
    alone = list(lane_segments(RUN[0], programs, [number], resumed=(rounds.blocks, lane)))
    diverged_at = np.ma.filled(whole.tables["rounds"]["diverged_at"], -1)[number]
    assert int(alone[-1].lanes.diverged_at[0] if alone else lane.diverged_at[0]) == diverged_at
    stepped = sum(int((segment.log.flags[0] & 1).sum()) for segment in alone)
    steps = int(whole.tables["rounds"]["steps"][number])
    assert stepped == max(0, steps - 160)


# What is none of its own


class Altered(Checkpoint):
    """A checkpoint with something else in it, whose digests are right."""

    def __init__(self, true: Checkpoint, **other: Any) -> None:
        super().__init__(true._folder, true.about, true.tensors, true.spans, true.pieces)
        self._alter: Callable[[str, dict[str, np.ndarray]], None] = other.pop("rows", lambda name, rows: None)
        vars(self).update(other)

    def rows(self) -> Iterator[tuple[str, int, dict[str, np.ndarray]]]:
        for name, first, rows in super().rows():
            self._alter(name, rows)
            yield name, first, rows


def others(array: np.ndarray) -> list[np.ndarray]:
    """Arrays of other kinds and shapes."""
    kind = np.float64 if array.dtype.kind in "biu" else np.int64
    return [
        np.zeros(array.shape, kind),
        array[..., None],
        np.zeros((0, *array.shape[1:]), array.dtype),
    ]


def test_every_array_is_of_its_kind_and_shape(job: Path, programs: Programs) -> None:
    checkpoint = newest(job)
    for name, tensor in checkpoint.tensors.items():
        rest = {other: array for other, array in checkpoint.tensors.items() if other != name}
        for tensors in (rest, *({**rest, name: other} for other in others(tensor))):
            if name in tensors and bits(tensors[name]) == bits(tensor):
                continue
            with pytest.raises(InputError):
                restored(Altered(checkpoint, tensors=tensors), programs)


def test_every_column_is_of_its_kind_and_shape(job: Path, programs: Programs) -> None:
    checkpoint = newest(job)
    columns = {(name, of): array for name, _, rows in checkpoint.rows() for of, array in rows.items()}
    assert len(columns) > 15
    for (stream, column), array in columns.items():
        for other in [None, *others(array)[:-1]]:  # as many rows as are missing are missed by the journal

            def alter(
                name: str,
                rows: dict[str, np.ndarray],
                stream: str = stream,
                column: str = column,
                other: Any = other,
            ) -> None:
                if name == stream:
                    rows.pop(column)
                    if other is not None:
                        rows[column] = other

            with pytest.raises(InputError):
                restored(Altered(checkpoint, rows=alter), programs)


@pytest.mark.parametrize("blocks", [np.array(-1), np.array(3.0), np.array(True), np.array([3]), np.array(2**40), None])
def test_how_far_it_is_is_a_number(blocks: np.ndarray | None, job: Path, programs: Programs) -> None:
    checkpoint = newest(job)
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name != "state.blocks"}
    with pytest.raises(InputError, match="it does not say how far it is"):
        restored(
            Altered(checkpoint, tensors=tensors if blocks is None else {**tensors, "state.blocks": blocks}), programs
        )


@pytest.mark.parametrize("last", [1, None, True])
def test_whether_it_is_the_end_is_known(last: Any, job: Path, programs: Programs) -> None:
    checkpoint = newest(job)
    with pytest.raises(InputError):
        restored(Altered(checkpoint, about={**checkpoint.about, "last": last}), programs)


def test_it_is_as_far_as_its_records(job: Path, programs: Programs) -> None:
    checkpoint = newest(job)
    for blocks in (0, 9, 11, 10**9):
        tensors = {**checkpoint.tensors, "state.blocks": np.array(blocks)}
        with pytest.raises(InputError, match="none of this configuration's"):
            restored(Altered(checkpoint, tensors=tensors), programs)


@pytest.mark.parametrize("stop", [None, 0, 10, 144, 159, 161, 176])
def test_a_replay_of_another_time_is_refused(stop: int | None, job: Path, programs: Programs) -> None:
    """After ten blocks of 16 steps the newest 48 transitions are there."""
    checkpoint = newest(job)
    assert checkpoint.spans["state.replay"] == (112, 160)

    def rows() -> Iterator[tuple[str, int, dict[str, np.ndarray]]]:
        for name, first, given in checkpoint.rows():
            if name != "state.replay":
                yield name, first, given
            elif stop is not None:
                yield name, first + stop - 160, given

    other: Any = SimpleNamespace(about=checkpoint.about, tensors=checkpoint.tensors, rows=rows)
    with pytest.raises(InputError, match="its replay is of another time"):
        restored(other, programs)


def test_another_number_of_rounds_is_refused(job: Path, programs: Programs) -> None:
    with pytest.raises(InputError):
        restored(newest(job), programs, rounds=5)
