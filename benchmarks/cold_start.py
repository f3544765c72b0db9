"""How long one waits: for an answer, from typing a command to its first progress and to its end, for imports, and for
compiling.

    python benchmarks/cold_start.py [--quick] [--algorithms NAME …] [--out FILE]

Every time is that of a new process, by the wall clock. A short run is watched on a terminal of its own, where the
progress bar is drawn ten times per second. It and every compilation are measured with an empty folder of compiled
programs, and with what the process before has left in it.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from measuring import circumstances, spread, without_a_cache_of_programs
from reporting import Bar, Panel, between, place_for, print_table, write_report
from srgdqn.config.algorithms import ALGORITHMS, PAPER
from srgdqn.config.presets import FIGURE_2_ROUNDS

LIMIT = 300.0  # seconds for any process
REFUSED = 2  # the exit code for input that cannot be used
SHORT_RUN = ("train", "MountainCar", "srg-dqn", "--rounds", "10", "--steps", "20000")
ANSWERS = {
    "help": ("--help",),
    "help of a command": ("train", "--help"),
    "list": ("list",),
    "a mistyped task": ("train", "MountianCar"),
}
MODULES = {"srgdqn.cli": "the command line", "srgdqn.api": "all that training needs"}

# What the progress bar shows from when on.
SIGNS = {"first sign of life": b"compiling", "first progress": b"steps/s"}
END = "end"
CACHES = ("nothing cached", "cached")

_IMPORTING = """
import importlib, sys, time
start = time.perf_counter()
importlib.import_module(sys.argv[1])
print(time.perf_counter() - start)
"""

_COMPILING = """
import sys, srgdqn
from srgdqn.program_cache import enable_program_cache
enable_program_cache()
timings = srgdqn.train(sys.argv[1], sys.argv[2], steps=1_600, rounds=1, progress=False).timings
print(timings.filter(timings["phase"] == "compile")["seconds"].sum())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one turn, and one task and algorithm to compile")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured")
    parser.add_argument(
        "--algorithms",
        nargs="+",
        choices=ALGORITHMS,
        default=[*PAPER, "dqn-adam"],
        metavar="NAME",
        help="to compile for every task; the paper's and dqn-adam by default",
    )
    parser.add_argument("--out", type=Path, default=place_for(__file__))
    options = parser.parse_args()
    turns = 1 if options.quick else options.turns
    tasks = ["CartPole"] if options.quick else list(FIGURE_2_ROUNDS)
    algorithms = options.algorithms[:1] if options.quick else options.algorithms

    kinds: dict[str, Callable[[], dict[str, float]]] = {
        "answers": lambda: {what: _answered(words) for what, words in ANSWERS.items()},
        "a short run": _short_runs,
        "imports": lambda: {what: _ask(_IMPORTING, module) for module, what in MODULES.items()},
        "compiling": lambda: {
            what: seconds
            for task in tasks
            for algorithm in algorithms
            for what, seconds in _compilations(task, algorithm).items()
        },
    }
    report: dict[str, Any] = {"circumstances": circumstances(), "command": ["srgdqn", *SHORT_RUN], "seconds": {}}
    panels = []
    for kind, measure in kinds.items():
        measured = [measure() for _ in range(turns)]
        seconds = {what: spread([turn[what] for turn in measured]) for what in measured[0]}
        report["seconds"][kind] = seconds
        panels.append(Panel(kind, "seconds", [Bar(what, each, True) for what, each in seconds.items()]))
        rows = [(what, f"{each['median']:.2f} s", between(each, ".2f")) for what, each in seconds.items()]
        print_table(kind, (kind, "median", "shortest to longest turn"), rows)
    write_report(options.out, report, panels)


def _answered(words: Sequence[str]) -> float:
    """Seconds from starting the command line until it has said all that it has to say."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "srgdqn", *words], capture_output=True, text=True, timeout=LIMIT)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, REFUSED):
        raise RuntimeError(f"{' '.join(words)} ended with code {done.returncode}: {done.stderr}")
    return seconds


def _short_runs() -> dict[str, float]:
    """The moments of a run that has to compile, and of the same once more."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {cache: _watch(SHORT_RUN, folder) for cache in CACHES}
    return {f"{moment}, {cache}": seconds for cache, moments in runs.items() for moment, seconds in moments.items()}


def _compilations(task: str, algorithm: str) -> dict[str, float]:
    """The seconds that a run spends on compiling, and the same once more."""
    with tempfile.TemporaryDirectory() as folder:
        return {f"{task}, {algorithm}, {cache}": _ask(_COMPILING, task, algorithm, cache=folder) for cache in CACHES}


def _watch(words: Sequence[str], cache: str) -> dict[str, float]:
    """Seconds from starting the command line until its bar shows each of the signs, and until it is done."""
    variables = {**_with_programs_in(cache), "TERM": "xterm-256color", "COLUMNS": "200"}
    ours, theirs = pty.openpty()
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "srgdqn", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=variables,
    )
    os.close(theirs)
    moments: dict[str, float] = {}
    shown = b""
    try:
        while drawn := _read(ours, LIMIT - (time.perf_counter() - start)):
            shown += drawn
            for moment, sign in SIGNS.items():
                if moment not in moments and sign in shown:
                    moments[moment] = time.perf_counter() - start
        code = process.wait(LIMIT)
        moments[END] = time.perf_counter() - start
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    if code != 0 or len(moments) <= len(SIGNS):
        raise RuntimeError(f"{' '.join(words)} ended with code {code} after showing: {shown.decode(errors='replace')}")
    return moments


def _read(terminal: int, seconds: float) -> bytes:
    """What is drawn next; nothing once the other end is closed."""
    if not select.select([terminal], [], [], max(seconds, 0.0))[0]:
        raise TimeoutError(f"the run took longer than {LIMIT:.0f} s.")
    try:
        return os.read(terminal, 65_536)
    except OSError:  # how Linux reports the end of a terminal
        return b""


def _ask(program: str, *words: str, cache: str = "off") -> float:
    """The number that a Python program prints."""
    command = [sys.executable, "-c", program, *words]
    answer = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT, env=_with_programs_in(cache)
    )
    return float(answer.stdout)


def _with_programs_in(cache: str) -> dict[str, str]:
    """The environment of a process whose compiled programs are stored in a folder and nowhere else."""
    return {**without_a_cache_of_programs(), "SRGDQN_CACHE": cache}


if __name__ == "__main__":
    main()
