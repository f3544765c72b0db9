"""A clock that is set while a run goes on: checkpoints are made all the same, and a kill costs as little."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from children import HERE
from commands import Command
from workshop import Workshop, checkpoints_below


def drill(workshop: Workshop, commands: tuple[Command, ...]) -> dict[str, Any]:
    """Every command with a clock that jumps: killed once it has checkpoints, and then let finish."""
    counts: Counter[str] = Counter()
    paths = os.pathsep.join((str(HERE / "jumping"), str(HERE), os.environ.get("PYTHONPATH", "")))
    jumping = {"SRGDQN_DRILL_CLOCK": "1", "PYTHONPATH": paths}
    for command in commands:
        seconds = workshop.expected(command).seconds
        place = workshop.place()
        child = workshop.start(command, place, resume=False, environment=jumping)

        def third_is_there(place: Path = place) -> bool:
            return any(path.endswith("3.checkpoint") for path in checkpoints_below(place))

        if child.wait_until(third_is_there, 10 * seconds + 30, 0.005):
            counts["checkpoints were made"] += 1
            child.kill(everyone=True)
            child = workshop.start(command, place, resume=True, environment=jumping)
        elif child.is_running():
            workshop.problem("clocks", f"{command.name}: no checkpoint is made", place, child.said())
        if workshop.check("clocks", command, place, child, child.wait()):
            counts["same bits"] += 1
            shutil.rmtree(place)
        workshop.say(f"clocks: {command.name}")
    return dict(counts)
