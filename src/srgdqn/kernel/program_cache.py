"""The cache of compiled programs on disk.

They lie in `$SRGDQN_CACHE`, or else in `srgdqn` below `$XDG_CACHE_HOME` or `~/.cache`, a few hundred kilobytes per
program, in a folder for each kind of processor: code compiled for one must not run on another. Delete the folder to
clear it; set `SRGDQN_CACHE=off` to store nothing. In Python no program of XLA's is stored unless `enable_program_cache`
is called, because jax's setting is the whole process's; the compiled kernel always is.
"""

from __future__ import annotations

import os
from pathlib import Path

from srgdqn.runs.provenance import processor_fingerprint


def cache_folder() -> Path | None:
    """The folder of compiled programs; None if they are not to be stored."""
    chosen = os.environ.get("SRGDQN_CACHE")
    if chosen == "off":
        return None
    root = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "srgdqn"
    return root / processor_fingerprint()


def enable_program_cache() -> None:
    """Lets jax store what it compiles, unless the user has set its folder already or the folder cannot be made."""
    import jax

    folder = cache_folder()
    if folder is None or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
