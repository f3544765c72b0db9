"""Where a figure can be written: checked before any long work, and free of what draws it."""

from __future__ import annotations

import os
from pathlib import Path

from srgdqn.runs.destination import check_file

FORMATS = ("png", "pdf", "svg")


def check_figure(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a figure can be written there."""
    return check_file(path, [f".{name}" for name in FORMATS], what="figure", overwrite=overwrite)
