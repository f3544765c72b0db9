"""SIGKILL at any instant: the same command with --resume ends with the bits of a run that nobody disturbed."""

from __future__ import annotations

import itertools
import random
import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from children import Child
from commands import Command
from workshop import Workshop, checkpoints_below, scratch_below

_MOST_IN_A_ROW = 5
_MODES = ("at any instant", "while it trains", "while a file is written")


def drill(workshop: Workshop, commands: tuple[Command, ...], kills: int, seed: int, threads: int = 2) -> dict[str, Any]:
    """So many kills, shared out over the commands; one after the other on each run until it is let finish."""
    for command in commands:
        workshop.expected(command)
    choice = random.Random(seed)
    order = [command for command in commands for _ in range(command.weight)]
    choice.shuffle(order)
    turns = itertools.chain(commands, itertools.cycle(order))  # every one of them at least once
    tally = _Tally(kills)
    with ThreadPoolExecutor(threads) as pool:
        jobs = []
        while tally.planned < kills:
            command = next(turns)
            row = tally.plan(choice.randint(1, _MOST_IN_A_ROW))
            jobs.append(pool.submit(_chain, workshop, command, row, random.Random(choice.random()), tally))
        for job in jobs:
            job.result()
    return tally.report()


class _Tally:
    """What happened so far."""

    def __init__(self, kills: int) -> None:
        self._kills, self.planned = kills, 0
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.by_command: dict[str, Counter[str]] = {}

    def plan(self, row: int) -> int:
        row = min(row, self._kills - self.planned)
        self.planned += row
        return row

    def add(self, command: Command, *what: str) -> None:
        with self._lock:
            self.counts.update(what)
            self.by_command.setdefault(command.name, Counter()).update(what)

    def report(self) -> dict[str, Any]:
        return {
            "kills": self.counts["kill"],
            "files half written": self.counts["half a file"],
            "runs": self.counts["run"],
            "runs with the same bits": self.counts["same"],
            "modes": {mode: self.counts[mode] for mode in _MODES},
            "commands": {
                name: {"kills": each["kill"], "half": each["half a file"], "runs": each["run"], "same": each["same"]}
                for name, each in sorted(self.by_command.items())
            },
        }


def _chain(workshop: Workshop, command: Command, kills: int, choice: random.Random, tally: _Tally) -> None:
    """A run that is killed some times, and then comes to its end."""
    while kills > 0:
        place, done = workshop.place(), 0
        children: list[Child] = []
        while done < kills:
            child = workshop.start(command, place, resume=bool(children))
            children.append(child)
            mode = choice.choice(_MODES)
            before = scratch_below(place)
            if not _wait_for(workshop, command, child, place, mode, before, choice):
                break  # it came to its end before
            # The main process alone, whose workers are then on their own for a moment, or all at once.
            child.kill(everyone=choice.random() < 0.5)
            done += 1
            half = ["half a file"] if scratch_below(place) - before else []
            tally.add(command, "kill", mode, *half)
        last = children[-1]
        if done == kills:
            last = workshop.start(command, place, resume=True)
            children.append(last)
        same = workshop.check("kills", command, place, last, last.wait())
        tally.add(command, "run", *(["same"] if same else []))
        for child in children:
            if not child.leaves_nobody():
                workshop.problem("kills", f"{command.name}: processes outlive the one that started them", place)
        workshop.say(
            f"kills: {tally.counts['kill']} so far; {command.name} after {done}: {'same' if same else 'OTHER'}"
        )
        kills -= done
        if same:
            shutil.rmtree(place)


def _wait_for(
    workshop: Workshop, command: Command, child: Child, place: Path, mode: str, before: set[str], choice: random.Random
) -> bool:
    """Waits for the instant of a kill; whether it came before the child's end."""
    seconds = workshop.expected(command).seconds
    if mode == "at any instant":
        return not child.wait_until(lambda: False, choice.uniform(0, seconds), 0.01) and child.is_running()
    known = checkpoints_below(place)
    if not child.wait_until(lambda: checkpoints_below(place) != known, pause=0.005):
        return False
    if mode == "while it trains":
        child.wait_until(lambda: False, choice.uniform(0, seconds / 2), 0.002)
        return child.is_running()
    child.wait_until(lambda: False, choice.uniform(0, seconds / 4), 0.002)
    return child.wait_until(lambda: bool(scratch_below(place) - before), pause=0.0002) and child.is_running()
