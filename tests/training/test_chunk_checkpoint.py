"""Where a chunk stands, to and from a checkpoint; what is none of its own is refused before anything is trained."""

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
from srgdqn.runs.checkpoint_manager import Keeping
from srgdqn.runs.checkpoints import Checkpoint, Journal
from srgdqn.training import Trained, train_rounds
from srgdqn.training.chunk import Resumed, train_chunk
from srgdqn.training.chunk_checkpoint import Standing, seats_of, snapshot, standing_of
from srgdqn.training.job import identity, policy_arrays
from srgdqn.training.program import Programs, programs_for
from srgdqn.training.recorder import Recorder
from srgdqn.training.tables import endings_of
from tiny import bits, reproducible, tiny

ROUNDS = 6  # on two boards
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
def strand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a chunk that was stopped after ten of fifteen blocks."""
    folder, stop = tmp_path_factory.mktemp("strand"), threading.Event()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("srgdqn.training.recorder.PAGE_STEPS", 48)
        train_rounds(
            *RUN,
            keeping=Keeping(folder, every=0.0, keep=None),
            stop=stop,
            listener=lambda progress: stop.set() if progress.share > 0.6 else None,
            workers=1,
            segment_blocks=2,
        )
    [strand] = folder.iterdir()
    return strand


def newest(strand: Path) -> Checkpoint:
    journal = Journal(strand)
    return journal.open(journal.numbers()[-1])


def standing(checkpoint: Checkpoint, programs: Programs, rounds: int = ROUNDS) -> Standing:
    return standing_of(checkpoint, programs.form, Recorder(RUN[0], endings_of(RUN[1]), rounds), rounds)


def test_what_is_kept_is_what_is_had_back(strand: Path, programs: Programs) -> None:
    """Kept once more, all of it anew, it is the same to the bit."""
    checkpoint = newest(strand)
    stands = standing(checkpoint, programs)
    assert (stands.blocks_done, stands.last) == (10, False)
    assert seats_of(checkpoint) == [(identity(RUN[0]), 0, ROUNDS)]
    again = snapshot(stands, seats_of(checkpoint), block=16)
    assert again.about == {name: value for name, value in checkpoint.about.items() if name != "stamp"}
    assert sorted(again.tensors) == sorted(checkpoint.tensors)
    for name, tensor in checkpoint.tensors.items():
        assert bits(again.tensors[name]) == bits(tensor), name
    assert {name: (each.first, each.stop) for name, each in again.streams.items()} == checkpoint.spans
    assert {"curves", "episodes", "evaluations", "timings", "replay"} == checkpoint.spans.keys()
    for name, first, rows in checkpoint.rows():
        count = len(next(iter(rows.values())))
        found = again.streams[name].read(first, first + count)
        assert {of: bits(column) for of, column in found.items()} == {of: bits(column) for of, column in rows.items()}


def test_every_checkpoint_leads_to_the_same_end(strand: Path, programs: Programs, whole: Trained) -> None:
    journal = Journal(strand)
    assert len(journal.numbers()) > 4
    for number in journal.numbers():
        stands = standing(journal.open(number), programs)
        *_, last = train_chunk(RUN[0], programs, range(ROUNDS), resumed=Resumed(stands.blocks_done, stands.lanes))
        assert last.last
        lanes = last.on_host()
        ends = policy_arrays(lanes.learner.parameters, lanes.normaliser)
        for name, array in whole.policies.items():
            assert bits(ends[name]) == bits(array)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_round_goes_on_alone(number: int, strand: Path, programs: Programs, whole: Trained) -> None:
    """One of two boards' rounds, taken out of its chunk, on a board of its own."""
    stands = standing(newest(strand), programs)
    lane = jax.tree.map(lambda leaf: leaf[number : number + 1], stands.lanes)
    segments = list(train_chunk(RUN[0], programs, [number], resumed=Resumed(stands.blocks_done, lane)))
    assert int(segments[-1].lanes.diverged_at[0]) == np.ma.filled(whole.tables["rounds"]["diverged_at"], -1)[number]
    lived = sum(int((segment.log.flags[0] & 1).sum()) for segment in segments)
    steps = int(whole.tables["rounds"]["steps"][number])
    assert lived == max(0, steps - 160)


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
        array.reshape(-1)[: array.size // 2],
        np.zeros((), array.dtype),
        np.zeros((0, *array.shape[1:]), array.dtype),
    ]


def test_every_array_is_of_its_kind_and_shape(strand: Path, programs: Programs) -> None:
    checkpoint = newest(strand)
    for name, tensor in checkpoint.tensors.items():
        rest = {other: array for other, array in checkpoint.tensors.items() if other != name}
        for tensors in (rest, *({**rest, name: other} for other in others(tensor))):
            if name in tensors and bits(tensors[name]) == bits(tensor):
                continue
            with pytest.raises(InputError):
                standing(Altered(checkpoint, tensors=tensors), programs)


def test_every_column_is_of_its_kind_and_shape(strand: Path, programs: Programs) -> None:
    checkpoint = newest(strand)
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
                standing(Altered(checkpoint, rows=alter), programs)


@pytest.mark.parametrize(
    "about", [{"blocks_done": -1}, {"blocks_done": 3.0}, {"blocks_done": True}, {"last": 1}, {"last": None}]
)
def test_how_far_it_is_is_a_number(about: dict[str, Any], strand: Path, programs: Programs) -> None:
    checkpoint = newest(strand)
    with pytest.raises(InputError, match="it does not tell how far it is"):
        standing(Altered(checkpoint, about={**checkpoint.about, **about}), programs)


def test_it_is_as_far_as_its_records(strand: Path, programs: Programs) -> None:
    checkpoint = newest(strand)
    for blocks in (0, 9, 11, 10**9):
        with pytest.raises(InputError, match="none of this configuration's"):
            standing(Altered(checkpoint, about={**checkpoint.about, "blocks_done": blocks}), programs)


def test_a_replay_that_is_not_there_is_missed(strand: Path, programs: Programs) -> None:
    """But at the end, when nobody needs it."""
    checkpoint = newest(strand)
    spans = {name: span for name, span in checkpoint.spans.items() if name != "replay"}
    with pytest.raises(InputError, match="none of this configuration's"):
        standing(Altered(checkpoint, spans=spans), programs)


@pytest.mark.parametrize("stop", [0, 10, 144, 159, 161, 176])
def test_a_replay_of_another_time_is_refused(stop: int, strand: Path, programs: Programs) -> None:
    """After ten blocks of 16 steps the newest 48 transitions are there."""
    checkpoint = newest(strand)
    assert checkpoint.spans["replay"] == (112, 160)
    spans = {**checkpoint.spans, "replay": (max(0, stop - 48), stop)}
    other: Any = SimpleNamespace(
        about=checkpoint.about, tensors=checkpoint.tensors, spans=spans, rows=lambda: checkpoint.rows()
    )
    with pytest.raises(InputError, match="lacks some of what was there"):
        standing(other, programs)


def test_another_number_of_rounds_is_refused(strand: Path, programs: Programs) -> None:
    with pytest.raises(InputError):
        standing(newest(strand), programs, rounds=5)


def test_reproducible_tables_do_not_depend_on_the_checkpoint(strand: Path, programs: Programs, whole: Trained) -> None:
    """The records go on from any of them to the tables of the whole run."""
    journal = Journal(strand)
    for number in journal.numbers()[::2]:
        stands = standing(journal.open(number), programs)
        resumed = Resumed(stands.blocks_done, stands.lanes)
        for segment in train_chunk(RUN[0], programs, range(ROUNDS), resumed=resumed, segment_blocks=3):
            stands.recorder.record(segment.log)
            if segment.evaluation is not None:
                stands.recorder.record_evaluation(segment.blocks_done, segment.evaluation, last=segment.last)
        ends = np.asarray(segment.on_host().diverged_at)
        tables = stands.recorder.tables(slice(0, ROUNDS), range(ROUNDS), RUN[0], ends)
        assert reproducible(tables) == reproducible(whole.tables)
