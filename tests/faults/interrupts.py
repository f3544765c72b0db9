"""Ctrl-C at every stage: exit code 130, no traceback, and --resume ends with the bits of a run nobody disturbed."""

from __future__ import annotations

import random
import shutil
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from commands import Command
from workshop import Workshop

_INTERRUPTED = 130


def drill(workshop: Workshop, commands: tuple[Command, ...], interrupts: int, seed: int) -> dict[str, Any]:
    """So many interrupts of each command, at instants spread over all its time, importing and saving included."""
    choice = random.Random(seed)
    counts, lock = Counter[str](), threading.Lock()

    def one(command: Command, share: float) -> None:
        place = workshop.place()
        child = workshop.start(command, place, resume=False)
        child.wait_until(lambda: False, share * workshop.expected(command).seconds, 0.002)
        child.signal(signal.SIGINT, everyone=True)  # as a terminal does: to all processes that it knows of
        code, said = child.wait(), child.said()
        # Before Python has come to the program's first line, how it ends is Python's.
        early = code != 0 and "srgdqn" not in said and "interrupted" not in said
        what = "before it began" if early else {0: "finished first", _INTERRUPTED: "exit code 130"}.get(code, "WRONG")
        if what == "WRONG" or (not early and "Traceback" in said):
            workshop.problem("interrupts", f"{command.name} at {share:.0%}: exit code {code}", place, said)
            what = "WRONG"
        again = workshop.start(command, place, resume=True)
        same = workshop.check("interrupts", command, place, again, again.wait())
        if same and what != "WRONG":
            shutil.rmtree(place)
        with lock:
            counts.update(["interrupts", what, *(["same bits"] if same else [])])
            workshop.say(f"interrupts: {counts['interrupts']}; {command.name} at {share:.0%}: {what}")

    for command in commands:
        workshop.expected(command)
    with ThreadPoolExecutor(2) as pool:
        spread = [(k + choice.random()) / interrupts * 1.05 for k in range(interrupts)]
        jobs = [pool.submit(one, command, share) for share in spread for command in commands]
        for job in jobs:
            job.result()
    return dict(counts)
