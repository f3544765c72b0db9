"""What work under way leaves in a folder, which may vanish while it is looked at."""

from __future__ import annotations

import os
from pathlib import Path


def scratch_below(folder: Path) -> set[str]:
    """Files and folders that are being written, or that somebody who was killed has left."""
    return {path for path in _below(folder) if os.path.basename(path).startswith(".srgdqn-")}


def checkpoints_below(folder: Path) -> set[str]:
    """The checkpoints that are there."""
    return {path for path in _below(folder) if path.endswith(".checkpoint") and "/.srgdqn-" not in path}


def _below(folder: Path) -> list[str]:
    return [os.path.join(where, name) for where, folders, files in os.walk(folder) for name in (*folders, *files)]
