"""The checkpoints that a run keeps of one of its rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from srgdqn.errors import InputError
from srgdqn.inspection.rerun_compiled import programs_of
from srgdqn.inspection.saved_run import Subject
from srgdqn.runs.checkpoint_manager import warn
from srgdqn.runs.checkpoints import Checkpoint, Journal
from srgdqn.runs.run_folder import CHECKPOINTS
from srgdqn.tasks import Task
from srgdqn.training.job import Job, restored_job
from srgdqn.training.lane import Lane
from srgdqn.training.loop import identity, owners_of, position_of
from srgdqn.training.schedule import owned_shares


class Kept(NamedTuple):
    """One checkpoint of a round."""

    blocks: int
    """Lived by then."""
    at_the_end: bool
    """Whether the round's strand had come to its end: then its replay is not there, and nothing goes on from it."""
    open: Callable[[], Any]
    """What the round goes on from: `CompiledRound`'s, or a checkpoint that `HostedRound` takes."""
    policy: Callable[[], dict[str, np.ndarray]]
    """The arrays of the round's policy by then, by path."""
    place: str = ""
    """What it is called where it is told of."""


def checkpoints_of(subject: Subject, number: int) -> list[Kept]:
    """Those of a round that can be used, oldest first; none where the run keeps none. Damaged ones are told of, be they
    of this round or of another; those of which a piece is damaged are found out when they are opened.
    """
    root = subject.folder / CHECKPOINTS
    if not root.is_dir():
        return []
    found: dict[int, Kept] = {}
    for strand in sorted(entry for entry in root.iterdir() if entry.is_dir()):
        journal = Journal(strand, None)
        for place in journal.numbers():
            where = f"{place} in {strand}"
            try:
                checkpoint = journal.open(place)
                kept = (_compiled if isinstance(subject.task, Task) else _hosted)(subject, number, checkpoint)
            except InputError as error:
                tell_unusable(where, error)
                continue
            if kept is not None:
                found[kept.blocks] = kept._replace(place=where)
    return [found[blocks] for blocks in sorted(found)]


def tell_unusable(place: str, error: InputError) -> None:
    """Tells of a checkpoint that is damaged, and that the others do without."""
    warn(f"the checkpoint {place} cannot be used: {str(error).rstrip('.')}. It is gone on without.")


def _compiled(subject: Subject, number: int, checkpoint: Checkpoint) -> Kept | None:
    before, mine, whose, owners = 0, None, identity(subject.configuration), owners_of(checkpoint)
    for who, first, stop in owners:
        if who == whose and first <= number < stop:
            mine = before + number - first
        before += stop - first
    if mine is None:
        return None
    blocks, last = position_of(checkpoint)
    place = mine

    def lane() -> Lane:
        assert isinstance(subject.task, Task)
        # Nothing is trained here, so that whose rounds the others are does not matter.
        shares = tuple(share._replace(place=0) for share in owned_shares(owners, [whose]))
        job = Job(shares, (subject.configuration,) * len(shares), subject.task, subject.network)
        rounds, _ = restored_job(checkpoint, job, programs_of(subject))
        mine: Lane = jax.tree.map(lambda leaf: np.array(leaf[place : place + 1]), rounds.on_host())
        return mine

    def policy() -> dict[str, np.ndarray]:
        return {path: array[place] for path, array in _policy(checkpoint).items()}

    return Kept(blocks, last, lambda: (blocks, lane()), policy)


def _hosted(subject: Subject, number: int, checkpoint: Checkpoint) -> Kept | None:
    if owners_of(checkpoint) != [(identity(subject.configuration), number, number + 1)]:
        return None
    blocks, last = position_of(checkpoint)
    return Kept(blocks, last, lambda: checkpoint, lambda: _policy(checkpoint))


def _policy(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """The arrays that a policy is made of, by the paths that a run stores them under."""
    homes = {"state.learner.parameters.": "network.", "state.normaliser.observations.": "normaliser."}
    return {
        stored + name.removeprefix(home): array
        for home, stored in homes.items()
        for name, array in checkpoint.tensors.items()
        if name.startswith(home)
    }
