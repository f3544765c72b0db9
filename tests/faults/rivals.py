"""Two processes in one folder: the second is refused, the first is not disturbed, and a crash locks nobody out."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from typing import Any

from commands import Command
from workshop import Workshop, checkpoints_below


def drill(workshop: Workshop, commands: tuple[Command, ...]) -> dict[str, Any]:
    """A rival for every command while it goes on, and for what is left of one that was killed."""
    counts: Counter[str] = Counter()
    for command in commands:
        workshop.expected(command)
        for resume in (False, True):
            place = workshop.place()
            first = workshop.start(command, place, resume=False)
            if not first.wait_until(lambda place=place: bool(checkpoints_below(place)), pause=0.005):
                workshop.problem("rivals", f"{command.name} ended before it had a checkpoint", place, first.said())
                continue
            first.signal(signal.SIGSTOP, everyone=True)  # so that it is still at work when the second has come that far
            second = workshop.start(command, place, resume=resume)
            code = second.wait()
            first.signal(signal.SIGCONT, everyone=True)
            if code == 2 and "at work on" in second.said() and "Traceback" not in second.said():
                counts["refused"] += 1
            else:
                workshop.problem("rivals", f"{command.name}: the second ended with {code}", place, second.said())
            if resume:
                first.kill(everyone=False)  # and what it has locked is not unlocked by itself
                counts["killed"] += 1
                first = workshop.start(command, place, resume=True)
            if workshop.check("rivals", command, place, first, first.wait()):
                counts["same bits"] += 1
                shutil.rmtree(place)
        workshop.say(f"rivals: {command.name}")
    return dict(counts)
