"""What a replay of a million images takes: memory, and the time to write a transition and to draw a batch.

    python benchmarks/frames.py [--quick] [--out FILE]

Stacks of four frames of 84 by 84 bytes from eight environments, each frame of its own, in episodes of some hundred
steps. Memory is counted twice: by the arrays, and by what the system says that the process has taken.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from measuring import circumstances, pinned_to, spread, usable
from reporting import Bar, Panel, place_for, print_table, write_report
from srgdqn.adapters.replay_memory import FrameMemory
from srgdqn.learner.gradients import Transitions

FRAMES, SIDE, COPIES, BATCH = 4, 84, 8, 32
SHAPE = (FRAMES, SIDE, SIDE)
TRANSITIONS = 1_000_000
Transition = tuple[int, np.ndarray, np.ndarray, bool]  # copy, observation, next one, whether terminated
COLUMNS = ("what", "bytes per transition", "of all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few transitions: does it run?")
    parser.add_argument("--out", type=Path, default=place_for(__file__))
    options = parser.parse_args()
    count = 20_000 if options.quick else TRANSITIONS

    with pinned_to(usable()[:1]):
        play = transitions()
        next(play)  # which draws what all frames are windows of
        taken_before = _resident_bytes()
        memory = FrameMemory(count, SHAPE, COPIES, 2)
        writing = _fill(memory, play, count)
        taken = _resident_bytes() - taken_before
        drawing = _draw(memory, count)

    sizes = {
        "both stacks of every transition, by calculation": 2 * FRAMES * SIDE * SIDE * count,
        "every frame once: what the process took": taken,
        "every frame once: its arrays": memory.nbytes,
    }
    rows = [[what, f"{size / count:,.0f}", f"{size / 1e9:.2f} GB"] for what, size in sizes.items()]
    print_table(f"A replay of {count:,} transitions", COLUMNS, rows)
    times = {"writing one transition": spread(writing), f"drawing a batch of {BATCH}": spread(drawing)}
    print_table(
        "Time on one core",
        ("what", "µs", "slowest to fastest part"),
        [[what, f"{t['median']:.0f}", f"{t['highest']:.0f} to {t['lowest']:.0f}"] for what, t in times.items()],
    )
    bars = [Bar(what, spread([size / 1e9]), what.startswith("every")) for what, size in sizes.items()]
    report = {"circumstances": circumstances(), "transitions": count, "bytes": sizes, "microseconds": times}
    write_report(options.out, report, [Panel(f"a replay of {count:,} transitions of images", "GB", bars)])


def single(before: np.ndarray, after: np.ndarray, ended: bool) -> Transitions:
    """One transition as a memory takes it in."""
    given: tuple[Any, ...] = (before, 1, 0.5, after, ended)
    return Transitions(*(np.array(each)[None] for each in given))  # type: ignore[arg-type]


def _fill(memory: FrameMemory, play: Iterator[Transition], count: int) -> list[float]:
    """Writes so many transitions, and returns the microseconds that each took in every tenth of them."""
    spent, parts = 0.0, []
    for written in range(1, count + 1):
        copy, before, after, ended = next(play)
        given, where = single(before, after, ended), np.array([copy])
        began = time.perf_counter()
        memory.write(given, where)
        spent += time.perf_counter() - began
        if written % (count // 10) == 0:
            parts.append(1e6 * spent / (count // 10))
            spent = 0.0
    return parts


def transitions() -> Iterator[Transition]:
    """Transitions of all copies of the environment in turn."""
    random = np.random.default_rng(0)
    # Noise is drawn once, and every frame a window of it of its own: drawing a million would take most of the time.
    noise = random.integers(256, size=1 << 24, dtype=np.uint8)
    starts = iter(random.permutation(len(noise) - SIDE * SIDE))

    def frame() -> np.ndarray:
        start = next(starts)
        return noise[start : start + SIDE * SIDE].reshape(SIDE, SIDE)

    stacks: list[np.ndarray | None] = [None] * COPIES
    while True:
        for copy in range(COPIES):
            before = stacks[copy]
            if before is None:
                before = np.concatenate([np.zeros((FRAMES - 1, SIDE, SIDE), np.uint8), frame()[None]])
            after = np.concatenate([before[1:], frame()[None]])
            ended = random.random() < 1 / 500
            stacks[copy] = None if ended else after
            yield copy, before, after, ended


def _draw(memory: FrameMemory, count: int) -> list[float]:
    random, parts = np.random.default_rng(1), []
    for _ in range(10):
        drawn = random.integers(count, size=(100, BATCH))
        began = time.perf_counter()
        for slots in drawn:
            memory.gather(slots)
        parts.append(1e6 * (time.perf_counter() - began) / len(drawn))
    return parts


def _resident_bytes() -> int:
    """What the process has now; its peak may be that of who started it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
