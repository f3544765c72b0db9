"""The checkpoints that a run keeps of one of its rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from srgdqn.again.compiled import programs_of
from srgdqn.again.subject import Subject
from srgdqn.errors import InputError
from srgdqn.store.journal import Checkpoint, Journal
from srgdqn.tasks import Task
from srgdqn.training.chunk_state import seats_of, standing_of
from srgdqn.training.lane import Lane
from srgdqn.training.recorder import Recorder
from srgdqn.training.records import endings_of
from srgdqn.training.strand import identity, policy_arrays

FOLDER = "checkpoints"
"""Where a run keeps them, strand by strand."""


@dataclass(frozen=True, eq=False)
class Kept:
    """One checkpoint of a round."""

    blocks: int
    """Lived by then."""
    at_the_end: bool
    """Whether the round's strand had come to its end: then its replay is not there, and nothing goes on from it."""
    open: Callable[[], Any]
    """What the round goes on from: `CompiledRound`'s, or a checkpoint that `HostedRound` takes."""
    policy: Callable[[], dict[str, np.ndarray]]
    """The arrays of the round's policy by then, by path."""


def checkpoints_of(subject: Subject, number: int) -> list[Kept]:
    """Those of a round that can be used, oldest first; none where the run keeps none."""
    root = subject.folder / FOLDER
    if not root.is_dir():
        return []
    found: dict[int, Kept] = {}
    for strand in sorted(entry for entry in root.iterdir() if entry.is_dir()):
        journal = Journal(strand, None)
        for place in journal.numbers():
            kept = _kept(subject, number, journal, place)
            if kept is not None:
                found[kept.blocks] = kept
    return [found[blocks] for blocks in sorted(found)]


def _kept(subject: Subject, number: int, journal: Journal, place: int) -> Kept | None:
    checkpoint = journal.open(place)
    if isinstance(subject.task, Task):
        return _compiled(subject, number, checkpoint)
    return None


def _compiled(subject: Subject, number: int, checkpoint: Checkpoint) -> Kept | None:
    before, mine, whose = 0, None, identity(subject.configuration)
    for who, first, stop in seats_of(checkpoint):
        if who == whose and first <= number < stop:
            mine = before + number - first
        before += stop - first
    blocks, last = checkpoint.about.get("blocks_done"), checkpoint.about.get("last")
    if mine is None:
        return None
    if type(blocks) is not int or type(last) is not bool:
        raise InputError("it does not tell how far it is")
    seat, seats = mine, before

    def lane() -> Lane:
        assert isinstance(subject.task, Task)
        recorder = Recorder(subject.configuration, endings_of(subject.task), seats)
        standing = standing_of(checkpoint, programs_of(subject).form, recorder, seats)
        mine: Lane = jax.tree.map(lambda leaf: np.array(leaf[seat : seat + 1]), standing.lanes)
        return mine

    def policy() -> dict[str, np.ndarray]:
        alone = lane()
        stored = policy_arrays(alone.learner.parameters, alone.normaliser)
        return {path: array[0] for path, array in stored.items()}

    return Kept(blocks, last, lambda: (blocks, lane()), policy)


def strand_folder(subject: Subject, name: str) -> Path:
    """Where the checkpoints of a strand are."""
    return subject.folder / FOLDER / name
