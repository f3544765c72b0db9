"""How a contender is run: how many rounds, in how many processes, on which cores, and for how long at most.

Processes of one arrangement are measured at the same time: each says when it is ready, and none starts before all are.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from job.clocks import READY
from measuring import pinned_to, usable, without_a_cache_of_programs

HERE = Path(__file__).parent
ROUNDS = 50


@dataclass(frozen=True)
class Arrangement:
    """A name, the rounds of all processes together, and the processes."""

    name: str
    rounds: int
    processes: Literal["one on one core", "one on every core", "one per core"]

    def shares(self) -> list[Share]:
        """What each process gets."""
        cores = usable()
        if self.processes == "one on one core":
            return [Share(cores[:1], 0, self.rounds)]
        if self.processes == "one on every core":
            return [Share(cores, 0, self.rounds)]
        sizes = [len(range(index, self.rounds, len(cores))) for index in range(len(cores))]
        firsts = itertools.accumulate(sizes, initial=0)
        return [Share((core,), first, size) for core, first, size in zip(cores, firsts, sizes, strict=False) if size]


class Share(NamedTuple):
    """The cores and the rounds of one process."""

    cores: tuple[int, ...]
    first_round: int
    rounds: int


ALONE = Arrangement("one core", 1, "one on one core")
ONE_PROCESS = Arrangement("one process", ROUNDS, "one on every core")
PROCESS_PER_CORE = Arrangement("a process per core", ROUNDS, "one per core")


class Measurement(NamedTuple):
    """What an arrangement came to."""

    steps_per_second: float  # of all its processes together
    warm_up_seconds: float  # of the slowest
    peak_mib: float  # of all together


class ContenderError(Exception):
    """A contender that could not be measured, and why."""


def measure(
    module: str,
    arrangement: Arrangement,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    limit: float,
) -> Measurement:
    """Runs a contender, given by its module, in an arrangement. Whatever happens, no process is left afterwards."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(_started(_command(module, share, arguments), share.cores, environment))
            for share in arrangement.shares()
        ]
        late = stack.enter_context(_ended_after(limit, children))
        try:
            for child in children:
                child.read_until(READY)
            for child in children:
                child.go()
            answers = [json.loads(child.read_until("{")) for child in children]
        except _SaidNothingError as silence:
            raise ContenderError(f"took longer than {limit:.0f} s" if late.is_set() else str(silence)) from silence
    return Measurement(
        sum(answer["steps"] / answer["seconds"] for answer in answers),
        max(answer["warm_up_seconds"] for answer in answers),
        sum(answer["peak_mib"] for answer in answers),
    )


def _command(module: str, share: Share, arguments: Sequence[str]) -> list[str]:
    own = ["--rounds", str(share.rounds), "--seed", str(share.first_round), "--together"]
    return [sys.executable, "-m", module, *arguments, *own]


class _SaidNothingError(Exception):
    """A process ended before it had said what it was asked for."""


class _Child(NamedTuple):
    process: subprocess.Popen[str]
    complaints: IO[str]

    def read_until(self, beginning: str) -> str:
        """The next line that begins so: libraries may have something to say of their own."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line
        raise _SaidNothingError(self._last_words())

    def go(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError as gone:
            raise _SaidNothingError(self._last_words()) from gone

    def _last_words(self) -> str:
        code = self.process.wait()
        self.complaints.seek(0)
        complaints = self.complaints.read().strip().splitlines()
        return complaints[-1] if complaints else f"ended with code {code} and without a word"


@contextmanager
def _started(command: list[str], cores: Sequence[int], environment: Mapping[str, str]) -> Iterator[_Child]:
    variables: dict[str, Any] = {**without_a_cache_of_programs(), **environment}
    with tempfile.TemporaryFile("w+") as complaints:
        with pinned_to(cores):
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                cwd=HERE,
                env=variables,
            )
        try:
            yield _Child(process, complaints)
        finally:
            process.kill()
            process.communicate()


@contextmanager
def _ended_after(limit: float, children: Sequence[_Child]) -> Iterator[threading.Event]:
    """Ends the children when their time is over, and returns whether it had to."""
    late = threading.Event()

    def end() -> None:
        late.set()
        for child in children:
            child.process.kill()

    timer = threading.Timer(limit, end)
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
