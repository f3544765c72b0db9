"""Engines by name: this machine, or the nodes of a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from srgdqn.engines.executor import Executor
from srgdqn.errors import InputError, unknown
from srgdqn.runs.provenance import LOCAL

RAY = "ray"
ENGINES = (LOCAL, RAY)


@contextlib.contextmanager
def ready(engine: str = LOCAL, address: str | None = None) -> Iterator[None]:
    """The engine of that name, for as long as the context lasts: Ray is connected to, or started. An `InputError` where
    it cannot be.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if engine == LOCAL:
        if address is not None:
            raise InputError(f"an address ({address}) is of a Ray cluster. Give the engine ray as well, or no address.")
        yield
        return
    from srgdqn.engines.ray_connection import connected

    with connected(address):
        yield


def executor_of(engine: str) -> Executor | None:
    """The executor of an engine that is ready; None for this machine, where training takes threads or processes."""
    if engine == LOCAL:
        return None
    from srgdqn.engines.on_ray import Ray

    return Ray()
