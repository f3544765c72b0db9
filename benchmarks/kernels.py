"""The kernels that training can run on here, each with the options that choose it."""

from __future__ import annotations

from typing import Any

from srgdqn.native.build import NoKernelError, library


def _has_native() -> bool:
    try:
        library()
    except NoKernelError:
        return False
    return True


KERNELS: dict[str, dict[str, Any]] = {
    name: {"kernel": name} for name in ("native", "xla") if name != "native" or _has_native()
}
