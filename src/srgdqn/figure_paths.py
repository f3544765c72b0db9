"""Where a figure can be written: checked before any long work, and free of what draws it."""

from __future__ import annotations

import os
from pathlib import Path

from srgdqn.errors import InputError

FORMATS = ("png", "pdf", "svg")


def check_figure(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a figure can be written there."""
    target = Path(path)
    suffix = target.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise InputError(
            f"{target} ends in {target.suffix!r}, which no figure can be written as. End it in "
            f"{', '.join('.' + name for name in FORMATS[:-1])} or .{FORMATS[-1]}."
        )
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written, because {target.parent} is not a folder. Make it first.")
    if os.path.lexists(target) and not (overwrite and target.is_file()):
        raise InputError(
            f"{target} exists already. Give another file, or overwrite it (--overwrite, or overwrite=True in Python)."
        )
    return target
