"""How rounds are shared out among chunks, those that were kept as they were."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.runs.checkpoint_manager import Keeping
from srgdqn.runs.checkpoints import Snapshot
from srgdqn.training.layout import Chunk, chunks_of, saved_chunks, seats_left
from srgdqn.training.parts import Part


def kept(keeping: Keeping, name: str, seats: Any, *, last: bool = False, lanes: int | None = None) -> None:
    lanes = sum(stop - first for _, first, stop in seats) if lanes is None else lanes
    keeping.strand(name).save(Snapshot({"seats": seats, "last": last}, {"lanes.active": np.ones(lanes, bool)}, {}))


def rounds_of(found: list[Chunk]) -> list[list[tuple[int, range, slice]]]:
    return [[tuple(part) for part in chunk.parts] for chunk in found]  # type: ignore[misc]


def test_chunks_are_known_by_whose_rounds_they_have(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    kept(keeping, "b", [["me", 4, 8]])
    kept(keeping, "a", [["me", 0, 4]])
    kept(keeping, "c", [["other", 0, 4]])
    found = saved_chunks(keeping, ["me"], rounds=10)
    assert [(chunk.seats, chunk.kept_as) for chunk in found] == [([("me", 0, 4)], "a"), ([("me", 4, 8)], "b")]
    assert rounds_of(found) == [[(0, range(4), slice(0, 4))], [(0, range(4, 8), slice(0, 4))]]
    assert seats_left(10, 10, found) == [range(8, 10)]


def test_parts_have_the_places_of_those_who_ask_now(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    kept(keeping, "a", [["x", 2, 3], ["y", 0, 3], ["z", 0, 2]])
    [chunk] = saved_chunks(keeping, ["z", "y", "x"], rounds=3)
    assert [tuple(part) for part in chunk.parts] == [
        (2, range(2, 3), slice(0, 1)),
        (1, range(3), slice(1, 4)),
        (0, range(2), slice(4, 6)),
    ]
    assert seats_left(9, 3, [chunk]) == [range(2, 3), range(6, 8)]


@pytest.mark.parametrize("last", [True, False])
def test_rounds_that_nobody_asks_for_are_no_harm_at_their_end(last: bool, tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    kept(keeping, "a", [["x", 0, 3], ["y", 0, 2]], last=last)
    found = saved_chunks(keeping, ["y"], rounds=3)
    assert rounds_of(found) == ([[(0, range(2), slice(3, 5))]] if last else [])


def test_a_round_is_in_one_chunk_only(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    kept(keeping, "a", [["x", 0, 4]])
    kept(keeping, "b", [["x", 2, 6]])
    kept(keeping, "c", [["x", 6, 8]])
    assert [chunk.seats for chunk in saved_chunks(keeping, ["x"], rounds=8)] == [[("x", 0, 4)], [("x", 6, 8)]]


def test_rounds_beyond_those_that_are_asked_for(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    kept(keeping, "a", [["x", 0, 4]], last=True)
    assert saved_chunks(keeping, ["x"], rounds=3) == []
    assert len(saved_chunks(keeping, ["x"], rounds=4)) == 1


@pytest.mark.parametrize(
    "seats",
    [
        None,
        5,
        "words",
        [["x"]],
        [["x", 0]],
        [["x", 0, "many"]],
        [["x", 0, 1, 2]],
        [5],
        {"x": [0, 1]},
        [],
        [["x", 0, 3]],
    ],
)
def test_what_does_not_tell_whose_rounds_it_has_is_left_alone(seats: Any, tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    kept(keeping, "a", seats, last=True, lanes=2)
    assert saved_chunks(keeping, ["x"], rounds=3) == []


def test_another_stamp_a_damaged_one_and_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keeping = Keeping(tmp_path, stamp="now")
    assert saved_chunks(keeping, ["x"], rounds=4) == []
    kept(keeping.stamped("then"), "a", [["x", 0, 1]])
    kept(keeping, "b", [["x", 1, 2]])
    kept(keeping, "c", [["x", 2, 3]])
    (tmp_path / "b" / "000001.checkpoint").write_bytes(b"")
    (tmp_path / "file").write_text("mine")
    for _ in range(2):
        assert [chunk.seats for chunk in saved_chunks(keeping, ["x"], rounds=4)] == [[("x", 2, 3)]]
    [told] = capsys.readouterr().err.splitlines()  # once, and nothing of the other stamp, which may be somebody else's
    assert told.startswith(f"warning: the checkpoint {tmp_path / 'b' / '000001.checkpoint'} cannot be used: ")


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_all_that_is_left_is_shared_out(gone: list[bool], together: int, workers: int, most: int) -> None:
    """Every seat once, in whole groups but for the last of each stretch, in no more than a chunk may have."""
    parts = [Part(0, range(seat, seat + 1), slice(0, 1)) for seat, is_gone in enumerate(gone) if is_gone]
    left = seats_left(len(gone), len(gone), [Chunk([], [part]) for part in parts])
    seats = [seat for seat, is_gone in enumerate(gone) if not is_gone]
    assert [seat for stretch in left for seat in stretch] == seats
    assert all(before.stop < after.start for before, after in itertools.pairwise(left))
    chunks = chunks_of(left, together, workers, most * together)
    assert [seat for chunk in chunks for seat in chunk] == seats
    ends = {stretch.stop for stretch in left}
    for chunk in chunks:
        assert 0 < len(chunk) <= most * together
        assert len(chunk) % together == 0 or chunk.stop in ends
    if len(left) == 1 and len(seats) <= most * together:
        groups = -(-len(seats) // together)
        assert len(chunks) == -(-groups // -(-groups // workers))  # a share for every worker, as far as there is one
