"""One damaged byte: found, or of no consequence, but nothing wrong is ever loaded in silence.

Everything is asked of the command line, here within this process, where a program is compiled once.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from commands import Command
from workshop import Workshop, bits_of, checkpoints_below, differences


class Target(NamedTuple):
    """Something to be damaged: a folder of work under way, or one that is finished."""

    name: str
    place: Path  # a pristine copy of all that is there
    damaged: str  # the folder in it whose files are damaged
    words: list[str]  # what is then asked
    expected: dict[str, str] | None  # the bits of `out` afterwards; None: what is printed
    printed: str = ""


class Answer(NamedTuple):
    """How a command line ended."""

    code: int
    out: str
    err: str


def drill(workshop: Workshop, commands: tuple[Command, ...], damages: int, seed: int) -> dict[str, Any]:
    """So many damages, half of them to runs under way and half to finished ones."""
    choice = random.Random(seed)
    under_way = [target for command in commands if (target := _under_way(workshop, command)) is not None]
    finished = [_finished(workshop, command) for command in commands]
    for target in (*under_way, *finished):
        _check_undamaged(workshop, target)
    counts: dict[str, Counter[str]] = {}
    for number in range(damages):
        target = choice.choice(under_way if under_way and number % 2 else finished)
        kind = _damage(workshop, target, random.Random(choice.random()))
        counts.setdefault(target.name, Counter()).update(["damages", kind])
        if (number + 1) % 50 == 0:
            workshop.say(f"damages: {number + 1} of {damages}")
    total: Counter[str] = sum(counts.values(), Counter())
    return {**{name: total[name] for name in _KINDS}, "folders": {name: dict(each) for name, each in counts.items()}}


_KINDS = ("damages", "refused", "told, and made good", "of no consequence", "WRONG")


def _damage(workshop: Workshop, target: Target, choice: random.Random) -> str:
    """Damages one byte of one file, and returns what became of it."""
    place = workshop.place()
    shutil.copytree(target.place, place, dirs_exist_ok=True)
    files = sorted(path for path in (place / target.damaged).rglob("*") if path.is_file() and path.stat().st_size)
    file = choice.choice(files)
    data = bytearray(file.read_bytes())
    # Ends of files have what is about the rest, and are damaged as often as what is between.
    ends = min(len(data), 300)
    near = choice.randrange(ends)
    offset = choice.choice([near, len(data) - 1 - near, choice.randrange(len(data))])
    data[offset] ^= choice.randrange(1, 256)
    file.write_bytes(data)
    answer = _ask_of(target, place)
    kind = _outcome(target, place, answer)
    if kind == "WRONG":
        where = f"byte {offset} of {file.relative_to(place)}"
        workshop.problem("damages", f"{target.name}: {where}: exit code {answer.code}", place, answer.err or answer.out)
    else:
        shutil.rmtree(place)
    return kind


def _outcome(target: Target, place: Path, answer: Answer) -> str:
    if answer.code == 2 and answer.err.splitlines()[-1].startswith("error: ") and "Traceback" not in answer.err:
        return "refused"
    if answer.code != 0:
        return "WRONG"
    if target.expected is None:
        same = _loaded(place, answer) == target.printed
    else:
        same = not differences(bits_of(place / "out"), target.expected)
    if not same:
        return "WRONG"
    return "told, and made good" if "warning: " in answer.err else "of no consequence"


def _check_undamaged(workshop: Workshop, target: Target) -> None:
    place = workshop.place()
    shutil.copytree(target.place, place, dirs_exist_ok=True)
    answer = _ask_of(target, place)
    if _outcome(target, place, answer) != "of no consequence":
        workshop.problem("damages", f"{target.name}: exit code {answer.code} undamaged", place, answer.err)


def _ask_of(target: Target, place: Path) -> Answer:
    return ask([str(place / word[1:]) if word.startswith("@") else word for word in target.words])


def ask(words: list[str]) -> Answer:
    """Runs a command line in this process."""
    from srgdqn.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except Exception as error:  # none may leave the command line
            code = 1
            err.write(f"Traceback: {type(error).__name__}: {error}")
    return Answer(code, out.getvalue(), err.getvalue())


# On a busy machine the moment between the second checkpoint and the end of a short run is easily missed.
_TRIES = 25


def _under_way(workshop: Workshop, command: Command) -> Target | None:
    """What a run leaves that is killed once it has some checkpoints; None if it could not be caught in time."""
    expected = workshop.expected(command)
    for _ in range(_TRIES):
        place = workshop.place()
        child = workshop.start(command, place, resume=False)
        child.wait_until(lambda place=place: len(checkpoints_below(place)) > 1)
        if not child.is_running():
            shutil.rmtree(place)
            continue
        child.kill(everyone=True)
        if checkpoints_below(place):
            damaged = "out.unfinished" if (place / "out.unfinished").is_dir() else "out"
            words = command.line("@out", resume=True)
            return Target(f"under way: {command.name}", place, damaged, words, expected.bits)
        shutil.rmtree(place)
    workshop.problem("damages", f"{command.name} could not be caught with checkpoints")
    return None


def _finished(workshop: Workshop, command: Command) -> Target:
    """A run that is shown, or a sweep or reproduction that is asked for again, which finds all its cells."""
    place = workshop.place()
    child = workshop.start(command, place, resume=False)
    assert child.wait() == 0, child.said()
    if command.words[0] != "train":
        return Target(f"finished: {command.name}", place, "out", command.line("@out"), workshop.expected(command).bits)
    target = Target(f"finished: {command.name}", place, "out", ["show", "@out", "--json"], None)
    answer = _ask_of(target, place)
    assert answer.code == 0, answer.err
    return target._replace(printed=_loaded(place, answer))


def _loaded(place: Path, answer: Answer) -> str:
    """What is printed of a run, but for its place, and all that is loaded of it."""
    import srgdqn

    run = srgdqn.load(place / "out").run
    parts = [answer.out.replace(str(place), ""), repr(run.configuration)]
    parts += [f"{name}: {table.serialize(format='json')}" for name, table in sorted(run.tables.items())]
    parts += [f"{name}: {array.dtype} {array.tobytes().hex()}" for name, array in sorted(run.parameters.items())]
    return "\n".join(parts)
