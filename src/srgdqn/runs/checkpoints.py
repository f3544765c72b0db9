"""The checkpoints of one job, or of one round on the host: each whole or not there, and the last good one
survives a damaged newer one.

A checkpoint consists of a few files. `000012.checkpoint` has what is small, whole every time. `000012.replay.piece` has
what is new, since the checkpoint before, of a group of *streams*: sequences of rows that only grow, such as the
transitions of a replay. Where that is much, as after a disk was full for hours, it is shared out to several pieces
(`000012.replay.1.piece`): to write one takes some times its size in memory. A checkpoint names the pieces that it needs
with their digests; those that no checkpoint needs any more are removed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from srgdqn.errors import InputError
from srgdqn.runs.destination import disk_errors_reported, sync_folder, write_file
from srgdqn.runs.snapshots import Rows, Snapshot, Spans, Stream, rows_among, rows_as_tensors, spans_of
from srgdqn.runs.tensors import Form, Opened, Tensors, seal, unseal
from srgdqn.runs.unfinished import DEFAULT_KEEP
from srgdqn.runs.untrusted import read_file

_CHECKPOINT = Form("checkpoint", "srgdqn-checkpoint", 4, oldest=4)
_PIECE = Form("piece", "srgdqn-piece", 1)
_GROUP = re.compile("[a-z]+")
_CHECKPOINT_NAME, _PIECE_NAME = (
    re.compile(r"([0-9]{6,12})\.checkpoint"),
    re.compile(r"([0-9]{6,12})\.[a-z]+(\.[0-9]+)?\.piece"),
)
_MOST_BYTES = 2**27  # of rows in a piece
Built = TypeVar("Built")


class _Piece(NamedTuple):
    number: int
    group: str
    part: int  # from 0
    digest: str
    spans: Spans  # that it has

    @property
    def name(self) -> str:
        part = f".{self.part}" if self.part else ""
        return f"{self.number:06d}.{self.group}{part}.piece"

    def serving(self, needed: Mapping[str, tuple[int, int]]) -> _Piece:
        """The same without streams that are gone: should one of that name come, it is another."""
        spans = {name: span for name, span in self.spans.items() if name in needed and span[1] > needed[name][0]}
        return self._replace(spans=spans)


class Checkpoint:
    """A checkpoint that was read back."""

    def __init__(
        self,
        folder: Path,
        about: dict[str, Any],
        tensors: Tensors,
        spans: Spans,
        pieces: list[_Piece],
    ) -> None:
        self.about, self.tensors, self.spans, self.pieces = about, tensors, spans, pieces
        self._folder = folder

    def rows(self) -> Iterator[tuple[str, int, Rows]]:
        """The needed rows of all streams, piece by piece: a stream's name, the number of the first row, the rows."""
        reached = {name: first for name, (first, _) in self.spans.items()}
        for piece in self.pieces:
            opened = _opened(self._folder / piece.name, _PIECE)
            if opened.digest != piece.digest:
                raise InputError(f"{piece.name} is another piece than it needs")
            for name, first, rows in rows_among(opened.tensors, piece.spans):
                start, stop = max(first, self.spans[name][0]), piece.spans[name][1]
                if start != reached[name]:
                    raise InputError(f"the rows {start} to {stop} of {name} are not where they belong")
                reached[name] = stop
                yield name, start, {of: array[start - first :] for of, array in rows.items()}
        if reached != {name: stop for name, (_, stop) in self.spans.items()}:
            raise InputError("some of its rows are in no piece")


class CheckpointFolder:
    """The checkpoints in a folder."""

    def __init__(self, folder: Path, keep: int | None = DEFAULT_KEEP) -> None:
        """The `keep` newest stay; None: all of them."""
        self.folder, self._keep = folder, keep
        self._pieces: list[_Piece] = []  # that the newest checkpoint needs
        self._reached: dict[str, int] = {}  # rows of each stream that are in pieces
        self._needed: dict[int, set[str]] = {}  # the pieces of every checkpoint that is there

    def numbers(self) -> list[int]:
        """The checkpoints that are there, oldest first."""
        return sorted(int(match[1]) for match in _named(self.folder, _CHECKPOINT_NAME))

    def save(self, snapshot: Snapshot) -> int:
        """Writes a checkpoint and returns how many bytes that took; an `InputError` if the disk refuses."""
        with disk_errors_reported(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        there = [*_named(self.folder, _CHECKPOINT_NAME), *_named(self.folder, _PIECE_NAME)]
        number = max((int(match[1]) for match in there), default=0) + 1
        spans = snapshot.spans
        pieces = [piece for each in self._pieces if (piece := each.serving(spans)).spans]
        try:
            written = self._write(number, snapshot, spans, pieces)
        except InputError:  # a full disk is not to be filled with what nothing refers to
            for match in _named(self.folder, _PIECE_NAME):
                if int(match[1]) == number:
                    with contextlib.suppress(OSError):
                        (self.folder / match[0]).unlink()
            raise
        sync_folder(self.folder)
        self._pieces = pieces
        self._reached = {name: stop for name, (_, stop) in spans.items()}
        self._needed[number] = {piece.name for piece in pieces}
        self._prune()
        return written

    def _write(self, number: int, snapshot: Snapshot, spans: Spans, pieces: list[_Piece]) -> int:
        """Writes the files of a checkpoint, whose pieces are put beside those that it shares with the one before."""
        written = 0
        for group, fresh in self._fresh(snapshot.streams).items():
            for part, parcel in enumerate(_parcels(snapshot.streams, fresh)):
                data, digest = seal(_PIECE, {}, rows_as_tensors(snapshot.streams, parcel))
                pieces.append(_Piece(number, group, part, digest, parcel))
                write_file(self.folder / pieces[-1].name, data)
                written += len(data)
        content = {"about": snapshot.about, "streams": spans, "pieces": [list(piece) for piece in pieces]}
        data, _ = seal(_CHECKPOINT, content, snapshot.tensors)
        write_file(self._file(number), data)
        return written + len(data)

    def _fresh(self, streams: Mapping[str, Stream]) -> dict[str, Spans]:
        """The rows that no piece has yet, by group and stream."""
        groups: dict[str, Spans] = {}
        for name, stream in streams.items():
            start = max(stream.first, self._reached.get(name, 0))
            if stream.stop > start:
                groups.setdefault(stream.group, {})[name] = (start, stream.stop)
        return groups

    def restore(self, build: Callable[[Checkpoint], Built], warn: Callable[[str], None]) -> Built | None:
        """What `build` makes of the newest good checkpoint, which the folder then continues; None if there is none.

        Of one that is damaged, or that `build` cannot use (an `InputError`), `warn` is called, and the one before is
        tried. It stays until the next is saved.
        """
        found = None
        for number in reversed(self.numbers()):
            if found is not None:
                self._remember(number)
                continue
            try:
                checkpoint = self.open(number)
                found = build(checkpoint)
            except InputError as error:
                warn(f"the checkpoint {self._file(number)} cannot be used: {error}")
                continue
            self._pieces = checkpoint.pieces
            self._reached = {name: stop for name, (_, stop) in checkpoint.spans.items()}
            self._needed[number] = {piece.name for piece in checkpoint.pieces}
        return found

    def open(self, number: int) -> Checkpoint:
        """The checkpoint of that number, whose pieces are read, and checked, once its rows are asked for."""
        content, tensors, _ = _opened(self._file(number), _CHECKPOINT)
        try:
            spans = spans_of(content["streams"])
            pieces = [
                _Piece(int(number), _group(group), int(part), str(digest), spans_of(of))
                for number, group, part, digest, of in content["pieces"]
            ]
            _check(pieces, spans)
            return Checkpoint(self.folder, dict(content["about"]), tensors, spans, pieces)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"its content is not that of a checkpoint ({error})") from error

    def prune(self) -> None:
        """Removes all but the newest, of a job that has ended."""
        for number in self.numbers():
            self._remember(number)
        self._prune()

    def _remember(self, number: int) -> None:
        """Notes what an older checkpoint needs; a damaged one is removed with the next save."""
        with contextlib.suppress(InputError):
            self._needed[number] = {piece.name for piece in self.open(number).pieces}

    def _prune(self) -> None:
        if self._keep is not None:
            for number in sorted(self._needed)[: -self._keep]:
                del self._needed[number]
        wanted = set[str]().union(*self._needed.values(), (self._file(number).name for number in self._needed))
        for match in [*_named(self.folder, _CHECKPOINT_NAME), *_named(self.folder, _PIECE_NAME)]:
            if match[0] not in wanted:
                with contextlib.suppress(OSError):
                    (self.folder / match[0]).unlink()

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}.checkpoint"


def _parcels(streams: Mapping[str, Stream], fresh: Spans) -> Iterator[Spans]:
    """The same rows in parcels of about as many bytes as a piece may have."""
    parcel: Spans = {}
    room = _MOST_BYTES
    for name, (first, stop) in fresh.items():
        size = max(1, sum(array.nbytes for array in streams[name].read(first, first + 1).values()))
        while first < stop:
            count = min(stop - first, max(1, room // size))
            parcel[name] = (first, first + count)
            first, room = first + count, room - count * size
            if room <= 0 or first < stop:
                yield parcel
                parcel, room = {}, _MOST_BYTES
    if parcel:
        yield parcel


def _check(pieces: list[_Piece], needed: Spans) -> None:
    """Every piece is read once, and for something: what names a large one often would be read for hours."""
    if len({piece.name for piece in pieces}) < len(pieces):
        raise ValueError("a piece that stands twice")
    if not all(piece.spans and piece.serving(needed) == piece for piece in pieces):
        raise ValueError("a piece that has nothing it needs")


def _group(given: Any) -> str:
    if not _GROUP.fullmatch(given):
        raise ValueError(f"{given!r} is no group of streams")
    return str(given)


def _opened(path: Path, form: Form) -> Opened:
    data = read_file(path)
    try:
        return unseal(form, data)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error


def _named(folder: Path, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    try:
        return [match for entry in folder.iterdir() if (match := pattern.fullmatch(entry.name))]
    except OSError:
        return []
