"""A round to be lived again, whichever kind it is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from srgdqn.errors import InputError
from srgdqn.inspection.rerun_compiled import CompiledRound
from srgdqn.inspection.rerun_host import HostedRound
from srgdqn.inspection.saved_checkpoints import Kept, tell_unusable
from srgdqn.inspection.saved_run import Subject
from srgdqn.tasks import Task


@contextmanager
def lived_again(subject: Subject, number: int, *starts: Kept) -> Iterator[CompiledRound | HostedRound]:
    """A round of a run, from the last of these checkpoints that is good, or from its first step where none is."""
    lived = _begun(subject, number, starts)
    try:
        yield lived
    finally:
        if isinstance(lived, HostedRound):
            lived.close()


def _begun(subject: Subject, number: int, starts: Sequence[Kept]) -> CompiledRound | HostedRound:
    kind = CompiledRound if isinstance(subject.task, Task) else HostedRound
    for start in reversed(starts):
        try:
            return kind(subject, number, start.open())
        except InputError as error:
            tell_unusable(start.place, error)
    return kind(subject, number)
