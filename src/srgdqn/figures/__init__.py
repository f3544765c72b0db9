"""Charts as data, and how they are drawn.

Here, free of numpy and matplotlib, stands only the check of a figure's path, which is made before any long work.
"""

from __future__ import annotations

import os
from pathlib import Path

from srgdqn.runs.destination import check_file

FORMATS = ("png", "pdf", "svg")


def check_figure(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a figure can be written there."""
    return check_file(path, [f".{name}" for name in FORMATS], what="figure", overwrite=overwrite)
