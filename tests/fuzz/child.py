"""A process that reads inputs, one after the other, and reports what happened; it is watched from within and without.

It is given an input by a line of JSON on standard input, and answers by one on standard output.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

ROOM = 2**30 + 2**29
"""Bytes that reading one input may add to the address space."""
MOST = 2**29
"""Bytes that reading one input may really take."""

# What nothing that is only read may lead to. Reading files is seen, too, and allowed.
_FORBIDDEN = (
    "exec",
    "compile",
    "import",
    "marshal.",
    "pickle.",
    "subprocess.",
    "socket.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.utime",
    "os.putenv",
    "shutil.",
    "ctypes.dlopen",
    "tempfile.",
    "urllib.",
    "webbrowser.",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_seen: list[str] = []
_armed = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    # It only takes note: an exception raised here might be taken for a damaged file by whoever reads it.
    if not _armed:
        return
    if event == "open":
        path, mode, flags = arguments
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & _WRITING):
            _seen.append(f"open {path!r} to write")
    elif event.startswith(_FORBIDDEN):
        _seen.append(f"{event} {str(arguments)[:200]}")


def _memory(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def _try(kind: str, place: Path, thorough: bool, expected: list[str] | None, first: bool) -> dict[str, Any]:
    """Reads an input and uses it; the `first` of its kind may import and compile what it needs."""
    from fuzz import reading
    from srgdqn.errors import InputError

    global _armed
    _seen.clear()
    problem, outcome, before = None, "read", _memory("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is counted from here
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if not first:
        resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + ROOM, hard))
    digest = None
    try:
        try:
            _armed = not first
            loaded = reading.load(kind, place)
            try:
                reading.use(kind, loaded, thorough)
            except InputError as error:
                outcome, problem = "read, of no use", _masked(error)
        finally:
            _armed = False
        reading.check_exported()
        digest = reading.content(kind, loaded)
        del loaded
    except InputError as error:
        outcome, problem = "refused", _masked(error)
    except BaseException as error:
        problem = f"raised {type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    taken = _memory("VmHWM") - before
    if problem is None and _seen:
        problem = f"did what reading must not do: {'; '.join(_seen[:5])}"
    if problem is None and taken > MOST and not first:
        problem = f"took {taken / 2**20:,.0f} MiB"
    if problem is None and digest is not None and expected is not None and digest not in expected:
        problem = "read another content than was saved, though its digests should tell"
    return {"outcome": outcome, "problem": problem, "content": digest, "taken": taken}


def _masked(error: BaseException | None) -> str | None:
    """Whether what was refused in a sentence was in truth too much memory."""
    while error is not None:
        if isinstance(error, MemoryError) or "bad_alloc" in str(error):
            return f"asked for more memory than there is, and was refused that: {error!r}"
        error = error.__cause__ or error.__context__
    return None


def main() -> None:
    """Answers until nobody asks any more."""
    questions, out = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints is not taken for an answer
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # and what an input reads from there is no question
    warnings.simplefilter("ignore")
    sys.addaudithook(_hook)
    for line in questions:
        asked = json.loads(line)
        asked["place"] = Path(asked["place"])
        print(json.dumps(_try(**asked)), file=out, flush=True)


if __name__ == "__main__":
    main()
