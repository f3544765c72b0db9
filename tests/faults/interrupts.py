"""Ctrl-C and SIGTERM at every stage: exit code 130 or 143, no traceback, and --resume ends with the bits of a run that
nobody disturbed.
"""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from commands import Command
from workshop import Workshop

# Python ends itself by the signal where it interrupted what was made from text, and shells report both as 130. SIGTERM
# ends it likewise before the program's first line, and after its last.
_ENDED = {
    signal.SIGINT: {130: "exit code 130", -signal.SIGINT: "exit code 130"},
    signal.SIGTERM: {143: "exit code 143", -signal.SIGTERM: "SIGTERM before it began or after it ended"},
}


def drill(workshop: Workshop, commands: tuple[Command, ...], interrupts: int, seed: int) -> dict[str, Any]:
    """So many interrupts of each command, at instants spread over all its time, importing and saving included."""
    choice = random.Random(seed)
    counts, lock = Counter[str](), threading.Lock()

    def one(command: Command, share: float, number: signal.Signals) -> None:
        place = workshop.place()
        child = workshop.start(command, place, resume=False)
        child.wait_until(lambda: False, share * workshop.expected(command).seconds, 0.002)
        child.signal(number, everyone=True)  # as a terminal or a scheduler does: to all processes that it knows of
        code, said = child.wait(), child.said()
        what = {0: "finished first", **_ENDED[number]}.get(code, "WRONG")
        if "Traceback" in said or what == "WRONG":
            # Before the program's first line and after its last, what Python says is Python's.
            outside = "after it ended" if code == 0 else "before it began"
            what = "WRONG" if "/srgdqn/" in said else outside
        if what == "WRONG":
            workshop.problem(
                "interrupts", f"{command.name}, {number.name} at {share:.0%}: exit code {code}", place, said
            )
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
        turns = itertools.cycle(_ENDED)
        jobs = [pool.submit(one, command, share, next(turns)) for share in spread for command in commands]
        for job in jobs:
            job.result()
    return dict(counts)
