"""How far a round on the host is, told to a listener a few times a second."""

from __future__ import annotations

import time

import numpy as np

from srgdqn.training.host.reports import RoundReports
from srgdqn.training.host.round import HostRound
from srgdqn.training.reports import Listener, Progress

SECONDS = 0.2
"""Between two times."""


class Telling:
    """Tells a listener of a round."""

    def __init__(self, round_: HostRound, reports: RoundReports, listener: Listener) -> None:
        self._round, self._reports, self._listener = round_, reports, listener
        self._told, self._when = round_.blocks, time.perf_counter()
        self._steps, self._reward = 0, 0.0

    def note(self) -> None:
        """Takes note of the newest blocks, before the round forgets them."""
        rewards = self._round.diary.reward[self._told - self._round.blocks_forgotten :]
        self._told = self._round.blocks
        self._steps += rewards.size
        self._reward += float(rewards.sum(dtype=np.float64))

    def tell(self, *, everything: bool = False, ended: bool = False) -> bool:
        """Tells what is new, if it is time or `everything` is to be told; the last time with `ended`. Whether it was
        time: who does other things now and then may do them then.
        """
        now = time.perf_counter()
        if not (everything or ended) and now - self._when < SECONDS:
            return False
        self.note()
        round_, self._when = self._round, now
        steps, reward = self._steps, self._reward
        self._steps, self._reward = 0, 0.0
        self._listener(
            Progress(
                min(round_.spent_share, 1.0),
                steps,
                reward / steps if steps else float("nan"),
                int(round_.diverged_at is not None),
                ended,
                self._reports.read,
            )
        )
        return True
