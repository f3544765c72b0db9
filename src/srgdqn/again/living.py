"""A round to be lived again, whichever kind it is of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from srgdqn.again.checkpoints import Kept
from srgdqn.again.compiled import CompiledRound
from srgdqn.again.hosted import HostedRound
from srgdqn.again.subject import Subject
from srgdqn.tasks import Task


@contextmanager
def lived_again(subject: Subject, number: int, start: Kept | None = None) -> Iterator[CompiledRound | HostedRound]:
    """A round of a run, from its first step or from a checkpoint."""
    given = None if start is None else start.open()
    if isinstance(subject.task, Task):
        yield CompiledRound(subject, number, given)
        return
    hosted = HostedRound(subject, number, given)
    try:
        yield hosted
    finally:
        hosted.close()
