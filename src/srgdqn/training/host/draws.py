"""The random numbers of the coming blocks, drawn page by page: one call of a compiled program per many blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from srgdqn.adapters.players import Chances
from srgdqn.training.clock import Limits
from srgdqn.training.host.program import PAGE_BLOCKS, HostProgram


class _Drawn(NamedTuple):
    explore: list[float]
    action: list[int]
    epsilon: list[float]
    slots: np.ndarray
    picks: np.ndarray


class Plan:
    """What chance holds for a round under a budget; it depends on the round's key and the step's number alone."""

    def __init__(
        self,
        program: HostProgram,
        key: Any,
        numbers: np.ndarray,
        limits: Limits,
        block: int,
        *,
        steps_before: int = 0,
        blocks_before: int = 0,
    ) -> None:
        """`steps_before` were made before the budget began, and `blocks_before` before the memory did."""
        self._program, self._block = program, block
        self._given: tuple[Any, ...] = (key, numbers)
        self._conditions: tuple[Any, ...] = (limits, np.int32(steps_before), np.int32(blocks_before))
        self._pages: dict[int, _Drawn] = {}
        self._by_episodes: list[float] | None = None
        if bool(limits.counts_episodes):
            ended = np.arange(int(limits.amount) + 1, dtype=np.int32)
            chances = program.chances(numbers, (ended / limits.amount).astype(np.float32))
            self._by_episodes = np.asarray(chances).tolist()

    def chances(self, first: int, count: int) -> Chances:
        """Those of `count` steps from step number `first` on."""
        length = PAGE_BLOCKS * self._block
        page, start = divmod(first, length)
        drawn = self._page(page)
        end = start + count
        explore, action, epsilon = drawn.explore[start:end], drawn.action[start:end], drawn.epsilon[start:end]
        if end > length:
            upcoming, beyond = self._page(page + 1), end - length
            explore = explore + upcoming.explore[:beyond]
            action = action + upcoming.action[:beyond]
            epsilon = epsilon + upcoming.epsilon[:beyond]
        if self._by_episodes is None:
            return Chances(explore, action, epsilon)
        return Chances(explore, action, None, self._by_episodes)

    def rows(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The memory's slots that make up D after block `index`, and the picks from D."""
        page, place = divmod(index, PAGE_BLOCKS)
        drawn = self._page(page)
        return drawn.slots[place], drawn.picks[place]

    def _page(self, number: int) -> _Drawn:
        if number not in self._pages:
            page = self._program.page(*self._given, np.int32(number * PAGE_BLOCKS), *self._conditions)
            explore, action, epsilon, slots, picks = (np.asarray(part) for part in page)
            # Python's numbers, as looking up an element of an array costs more than the comparison it is for.
            self._pages = {known: drawn for known, drawn in self._pages.items() if known == number - 1}
            self._pages[number] = _Drawn(explore.tolist(), action.tolist(), epsilon.tolist(), slots, picks)
        return self._pages[number]
