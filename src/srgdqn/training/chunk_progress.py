"""How far the rounds of a chunk are, told to a listener after each segment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srgdqn.config import Configuration
from srgdqn.training.clock import budget_of
from srgdqn.training.lane import LIVED, TERMINATED, TRUNCATED
from srgdqn.training.loop import Records, Segment
from srgdqn.training.reports import ChunkReports, Listener, Progress


class ChunkProgress:
    """Tells a listener how far the chunk is."""

    def __init__(
        self, configuration: Configuration, rounds: Sequence[int], listener: Listener, standing: Records | None
    ) -> None:
        """From where the chunk stands, if that is not its beginning."""
        self._configuration, self._count, self._listener = configuration, len(rounds), listener
        self._reports = ChunkReports(configuration, rounds)
        self._episodes = 0
        if standing is not None:
            self._reports.resume(standing.recorder, standing.evaluations)
            self._episodes = sum(standing.recorder.reached(lane).episodes for lane in range(len(rounds)))

    def tell(self, segment: Segment) -> None:
        """Tells of a segment."""
        lived = (segment.log.flags[: self._count] & LIVED).astype(bool)
        steps = int(lived.sum())
        reward = float(segment.log.reward[: self._count][lived].mean()) if steps else float("nan")
        diverged = int((segment.divergence >= 0).sum())
        self._reports.keep(segment)
        share = 1.0 if segment.last else self._share(segment)
        self._listener(Progress(share, steps, reward, diverged, segment.last, self._reports.read))
        if segment.last:
            self._reports.forget()

    def tell_end(self, diverged: int) -> None:
        """Tells of a chunk that had come to its end before."""
        self._listener(Progress(1.0, 0, float("nan"), diverged, ended=True))

    def _share(self, segment: Segment) -> float:
        settings = self._configuration.training
        budget, block = budget_of(settings), settings.learning_frequency
        if budget.unit == "steps":
            return min(segment.blocks_done * block / budget.amount, 1.0)
        if budget.unit == "outer_iterations":
            made = segment.blocks_done - settings.first_learning_block
            return float(np.clip(made / budget.amount, 0.0, 1.0))
        flags = segment.log.flags[: self._count]
        self._episodes += int((((flags & LIVED) > 0) & ((flags & (TERMINATED | TRUNCATED)) > 0)).sum())
        return min(self._episodes / (budget.amount * self._count), 1.0)
