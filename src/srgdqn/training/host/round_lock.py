"""Where a round on the host is kept, by one process at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from srgdqn.errors import InputError
from srgdqn.runs.checkpoint_manager import Keeping, Strand
from srgdqn.runs.destination import disk_errors_told
from srgdqn.runs.locks import LOCK, OccupiedError, locked


@contextlib.contextmanager
def occupied_strand(keeping: Keeping, number: int) -> Iterator[Strand | None]:
    """The strand of round `number`; none, which is told, where the disk refuses. A process that was left behind by a
    run which is gone may still write to it: then this waits a moment for its end, and raises an `OccupiedError` if it
    does not come.
    """
    name = f"round-{number}"
    folder = keeping.folder / name
    with contextlib.ExitStack() as stack:
        try:
            with disk_errors_told(folder):
                folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder, what="a round"))
        except OccupiedError:
            raise
        except InputError as error:
            keeping.complain(error)
            yield None
            return
        try:
            yield keeping.strand(name)
            keeping.flush()  # its end is not to wait until the round may be somebody else's
        finally:
            with contextlib.suppress(OSError):  # where nothing can be removed, or as there is something in it
                (folder / LOCK).unlink(missing_ok=True)  # whoever waits for it finds another file, and tries again
                folder.rmdir()
