"""The fault drill: `python tests/faults/drill.py --kills 120 --damages 1000 --report docs/reliability.json`.

Long commands are killed, interrupted, and deprived of their disk; their files are damaged, their clock is set, and
rivals are sent to their folders. What comes of it is compared, bit for bit, with runs that nobody disturbed. The same
seed disturbs the same commands in the same order; the instants depend on how fast the machine is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import clocks
import commands as known
import damages
import disks
import interrupts
import kills
import rivals
from workshop import Workshop

DRILLS = ("kills", "damages", "disks", "rivals", "clocks", "interrupts")


def main(words: list[str] | None = None) -> int:
    """Runs the drill; 0 if nothing was wrong."""
    asked = _read(words)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in the background, also by children
    root = Path(tempfile.mkdtemp(prefix="srgdqn-drill-"))
    os.environ.setdefault("SRGDQN_CACHE", str(root / "programs"))
    workshop = Workshop(root)
    found: dict[str, Any] = {}
    minutes: dict[str, float] = {}
    for name in DRILLS:
        if name in asked.only:
            began = time.monotonic()
            found[name] = _DRILLS[name](workshop, asked)
            minutes[name] = round((time.monotonic() - began) / 60, 1)
    if not workshop.problems:
        shutil.rmtree(root, ignore_errors=True)
    report: dict[str, Any] = {
        "seed": asked.seed,
        "machine": {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "minutes": minutes,
        "drills": found,
        "problems": workshop.problems,
    }
    print(json.dumps(report, indent=2))
    if asked.report is not None:
        earlier = _earlier(asked.report, asked.only)
        for name in ("minutes", "drills"):
            every = {**earlier[name], **report[name]}
            report[name] = {each: every[each] for each in DRILLS if each in every}
        report["problems"] = [*earlier["problems"], *workshop.problems]
        asked.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if workshop.problems else 0


def _earlier(report: Path, done: list[str]) -> dict[str, Any]:
    """What an earlier report tells of drills that were not done now."""
    if not report.exists():
        return {"minutes": {}, "drills": {}, "problems": []}
    before = json.loads(report.read_text(encoding="utf-8"))
    others: dict[str, Any] = {
        part: {name: each for name, each in before[part].items() if name not in done} for part in ("minutes", "drills")
    }
    return {**others, "problems": [problem for problem in before["problems"] if problem["drill"] not in done]}


def _read(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=120)
    parser.add_argument("--damages", type=int, default=1000)
    parser.add_argument("--interrupts", type=int, default=12, help="of each of five commands")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(DRILLS), help=",".join(DRILLS))
    parser.add_argument("--report", type=Path)
    asked = parser.parse_args(words)
    for name in asked.only:
        if name not in DRILLS:
            parser.error(f"there is no drill {name!r}")
    return asked


_SOME = (known.NATIVE, known.XLA, known.HOST, known.WORKERS, known.GRID)
_DRILLS: dict[str, Any] = {
    "kills": lambda workshop, asked: kills.drill(workshop, known.ALL, asked.kills, asked.seed),
    "damages": lambda workshop, asked: damages.drill(workshop, known.DAMAGED, asked.damages, asked.seed),
    "disks": lambda workshop, asked: disks.drill(workshop, (known.NATIVE, known.HOST)),
    "rivals": lambda workshop, asked: rivals.drill(workshop, (*_SOME, known.REPRODUCE)),
    "clocks": lambda workshop, asked: clocks.drill(workshop, _SOME),
    "interrupts": lambda workshop, asked: interrupts.drill(workshop, _SOME, asked.interrupts, asked.seed),
}

if __name__ == "__main__":
    sys.exit(main())
