"""What checkpoints cost: their share of a run's time, and their bytes.

    python benchmarks/checkpoints.py [--quick] [--out FILE]

Runs with checkpoints at the usual interval have in their table of timings what they spent on them. Of a replay of a
million images, which would take hours to fill by playing, the checkpoint of a minute's play is timed by itself.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import srgdqn
from frames import COPIES, SHAPE, TRANSITIONS, single, transitions
from measuring import circumstances
from reporting import place_for, print_table, write_report
from srgdqn.adapters.replay_memory import FrameMemory
from srgdqn.runs.checkpoint_manager import EVERY
from srgdqn.runs.checkpoints import CheckpointFolder, Snapshot
from srgdqn.runs.unfinished import DEFAULT_KEEP

# Transitions that a minute of an Atari game makes at the fastest that was seen here, 156 a second.
A_MINUTE = 9_360
TIMED = 3  # minutes of play, once the replay is full
RUNS: dict[str, dict[str, Any]] = {
    "50 rounds of MountainCar, kernel": {"task": "MountainCar", "rounds": 50, "steps": 6_000_000, "kernel": "native"},
    "50 rounds of Pendulum, XLA": {"task": "Pendulum", "rounds": 50, "steps": 600_000, "kernel": "xla"},
    "50 rounds, replays of 100,000": {
        "task": "MountainCar",
        "rounds": 50,
        "steps": 4_000_000,
        "kernel": "native",
        "replay_capacity": 100_000,
    },
    "2 rounds of CartPole-v1 on the host": {"task": "CartPole-v1", "rounds": 2, "steps": 3_000_000},
}
COLUMNS = ("what", "minutes", "checkpoints", "seconds for them", "share of the time", "stored MB per round")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short runs: does it run?")
    parser.add_argument("--out", type=Path, default=place_for(__file__))
    options = parser.parse_args()

    found = {}
    for what, asked in RUNS.items():
        if options.quick:
            asked = {**asked, "rounds": 2, "steps": 20_000}
        found[what] = _run(every=0.05 if options.quick else None, **asked)
    found["a million images on the host, a minute's play"] = _images(20_000 if options.quick else TRANSITIONS)

    rows = [
        [
            what,
            f"{each['seconds'] / 60:.1f}",
            str(each["checkpoints"]),
            f"{each['spent']:.2f}",
            f"{100 * each['share']:.2f} %",
            f"{each['bytes_per_round'] / 1e6:,.1f}",
        ]
        for what, each in found.items()
    ]
    print_table("What checkpoints a minute apart cost", COLUMNS, rows)
    write_report(options.out, {"circumstances": circumstances(), "runs": found}, [])


def _run(task: str, every: float | None, **asked: Any) -> dict[str, float]:
    """A run with checkpoints: the seconds of all its jobs, and those of their checkpoints."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        options = {"out": out, "keep_checkpoints": DEFAULT_KEEP, "checkpoint_every": every}
        # Far enough from diverging that all rounds reach the end.
        result = srgdqn.train(task, "srg-dqn", **asked, eta=1e-4, alpha=1e-5, evaluation_episodes=1, **options)
        seconds = dict(result.timings.group_by("phase").agg(pl.col("seconds").sum()).iter_rows())
        made = result.timings.filter(pl.col("phase") == "checkpoint").height
        size = sum(file.stat().st_size for file in (out / "checkpoints").rglob("*") if file.is_file())
    spent, total = seconds.get("checkpoint", 0.0), sum(seconds.values()) - seconds.get("compile", 0.0)
    rounds = result.rounds.height
    return {
        "seconds": total,
        "checkpoints": made,
        "spent": spent,
        "share": spent / total,
        "bytes_per_round": size / rounds,
        "diverged": result.rounds["diverged_at"].count(),
    }


def _images(count: int) -> dict[str, float]:
    """A replay is filled and checkpointed minute by minute, as by playing; the minutes since it is full are timed."""
    memory, play = FrameMemory(count, SHAPE, COPIES, 2), transitions()
    minute = min(A_MINUTE, count)
    spent = []
    with tempfile.TemporaryDirectory() as place:
        journal = CheckpointFolder(Path(place))
        for _ in range(math.ceil(count / minute) + TIMED):
            for _ in range(minute):
                copy, before, after, ended = next(play)
                memory.write(single(before, after, ended), np.array([copy]))
            began = time.perf_counter()
            tensors, streams = memory.state()
            journal.save(Snapshot({}, tensors, streams))
            spent.append(time.perf_counter() - began)
        size = sum(file.stat().st_size for file in Path(place).iterdir())
    timed = spent[-TIMED:]
    total = EVERY * TIMED + sum(timed)
    return {
        "seconds": total,
        "checkpoints": TIMED,
        "spent": sum(timed),
        "share": sum(timed) / total,
        "bytes_per_round": size,
        "diverged": 0,
    }


if __name__ == "__main__":
    main()
