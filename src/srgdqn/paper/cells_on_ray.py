"""Cells computed on the nodes of a Ray cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from srgdqn.engines.choice import RAY
from srgdqn.engines.on_ray import run_on_ray
from srgdqn.engines.ray_task import Tell
from srgdqn.engines.shared_folders import Mark, claimed, marked
from srgdqn.engines.throttle import SECONDS
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.interrupts import StopRequestedError
from srgdqn.runs.throttle import Throttle
from srgdqn.training.machine import is_double

if TYPE_CHECKING:
    from srgdqn.paper.cells import StudyCell


def compute_on_ray(
    cells: Sequence[StudyCell], manager: CheckpointManager, listener: Callable[[str, float], None]
) -> Iterator[tuple[StudyCell, Any]]:
    """The cells and their outcomes as they finish, each computed on one core of the cluster.

    Cells resume from the checkpoints in `manager` if their node sees that folder, and otherwise begin anew.
    """
    with marked(manager.folder) as mark:
        work = _Work(manager, mark, is_double())
        for cell, outcome in run_on_ray(work, cells, hear=lambda cell, share: listener(cell.name, share)):
            if outcome is not None:
                yield cell, outcome


@dataclass(frozen=True)
class _Work:
    """Computes a cell on a node; None if it was stopped."""

    manager: CheckpointManager
    mark: Mark | None
    double: bool

    def __call__(self, cell: StudyCell, stop: threading.Event, tell: Tell) -> Any:
        throttle = Throttle(SECONDS)

        def report(share: float) -> None:
            if throttle.due():
                tell(share)

        with jax.enable_x64(self.double), claimed(self.mark, cell.name) as mine:
            try:
                return cell.compute(report, stop, self.manager if mine else None, RAY)
            except StopRequestedError:
                return None
