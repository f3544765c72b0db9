"""The kernels that training can run on here, each with the options that choose it."""

from __future__ import annotations

import functools
from typing import Any

from srgdqn.kernel.build import NoKernelError, library


@functools.cache
def kernels() -> dict[str, dict[str, Any]]:
    """Each one's options, by name."""
    try:
        library()
    except NoKernelError:
        return {"xla": {"kernel": "xla"}}
    return {name: {"kernel": name} for name in ("native", "xla")}
