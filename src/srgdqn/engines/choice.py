"""Where work runs, by name: on this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

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
    from srgdqn.engines.on_ray import connected

    with connected(address):
        yield


def for_training(engine: str, *, compiled: bool) -> dict[str, Any]:
    """The options of `PreparedRun.train` that make an engine which is ready train, on compiled tasks or on the host."""
    if engine == LOCAL:
        return {}
    from srgdqn.engines.on_ray import cluster_cores

    if compiled:
        from srgdqn.engines.chunks_on_ray import jobs_on_ray as run
    else:
        from srgdqn.engines.host_on_ray import rounds_on_ray as run  # type: ignore[assignment]
    return {"engine": run, "workers": cluster_cores(), "ran_by": engine}
