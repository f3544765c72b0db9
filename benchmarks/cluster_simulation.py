"""A cluster in a few events: a driver that hands out calls one after the other, cores that must warm up, calls that
take longer than others, and nodes that die with all they were at.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple


class Costs(NamedTuple):
    """What running calls on a cluster costs beside the calls themselves, in seconds."""

    call: float = 0.0  # of the driver's time for every call; it serves one after the other
    around: float = 0.0  # of a core's time for every call, before and after it
    warm_up: float = 0.0  # of a core before its first call: a process started, programs loaded or compiled
    connecting: float = 0.0  # before the first call is handed out
    between_deaths: float = math.inf  # of one node, on average
    noticing: float = 0.0  # from a node's death until its calls are handed out again
    repairing: float = 600.0  # until a node is back, with cold cores
    kept_every: float | None = None  # between checkpoints that other nodes see; None: a lost call begins anew


class Made(NamedTuple):
    """What came of it."""

    seconds: float  # until the last call was done
    deaths: int
    lost: float  # core seconds of work that died


def simulate(lengths: Sequence[float], nodes: int, cores: int, costs: Costs, seed: int = 0) -> Made:
    """Runs calls of such lengths on so many nodes of so many cores each.

    >>> simulate([2.0] * 10, nodes=2, cores=2, costs=Costs()).seconds
    6.0
    >>> simulate([1.0] * 100, nodes=100, cores=1, costs=Costs(call=0.5)).seconds
    51.0
    """
    return _Cluster(lengths, nodes, cores, costs, random.Random(seed)).run()


class _Cluster:
    def __init__(self, lengths: Sequence[float], nodes: int, cores: int, costs: Costs, chance: random.Random) -> None:
        self._left, self._costs, self._chance = list(lengths), costs, chance
        self._nodes, self._cores = nodes, cores
        self._waiting = deque(range(len(lengths)))
        self._free = deque(divmod(index, nodes)[::-1] for index in range(nodes * cores))  # (node, core), nodes in turn
        self._cold = set(self._free)
        self._down: set[int] = set()
        self._at: dict[tuple[int, int], tuple[int, float, int]] = {}  # by core: its call, when that begins, and which
        self._events: list[tuple[float, int, str, object]] = []
        self._order = itertools.count()  # of events at the same moment
        self._driver = costs.connecting  # when it has time again
        self._deaths, self._lost = 0, 0.0

    def run(self) -> Made:
        remaining, now = len(self._left), 0.0
        self._plan_death(now)
        self._hand_out(now)
        while remaining:
            now, _, what, about = heapq.heappop(self._events)
            if what == "done":
                core, which = about  # type: ignore[misc]
                if core not in self._at or self._at[core][2] != which:
                    continue  # its node died meanwhile
                del self._at[core]
                self._free.append(core)
                remaining -= 1
            elif what == "death":
                self._kill(now)
            elif what == "again":
                self._waiting.extendleft(about)  # type: ignore[arg-type]
            else:
                node: int = about  # type: ignore[assignment]
                self._down.discard(node)
                back = [(node, core) for core in range(self._cores)]
                self._free.extend(back)
                self._cold.update(back)
            self._hand_out(now)
        return Made(now, self._deaths, self._lost)

    def _hand_out(self, now: float) -> None:
        while self._waiting and self._free:
            call, core = self._waiting.popleft(), self._free.popleft()
            self._driver = max(self._driver, now) + self._costs.call
            begin = self._driver + (self._costs.warm_up if core in self._cold else 0.0)
            self._cold.discard(core)
            which = next(self._order)
            self._at[core] = call, begin, which
            self._plan(begin + self._left[call] + self._costs.around, "done", (core, which))

    def _kill(self, now: float) -> None:
        alive = [node for node in range(self._nodes) if node not in self._down]
        if alive:
            node = self._chance.choice(alive)
            self._deaths += 1
            self._down.add(node)
            self._free = deque(core for core in self._free if core[0] != node)
            died = [core for core in self._at if core[0] == node]
            calls = [self._died(core, now) for core in died]
            self._plan(now + self._costs.noticing, "again", calls)
            self._plan(now + self._costs.repairing, "back", node)
        self._plan_death(now)

    def _died(self, core: tuple[int, int], now: float) -> int:
        call, begin, _ = self._at.pop(core)
        worked = max(now - begin, 0.0)
        every = self._costs.kept_every
        saved = 0.0 if every is None else worked // every * every
        self._left[call] -= saved
        self._lost += worked - saved
        return call

    def _plan_death(self, now: float) -> None:
        if math.isfinite(self._costs.between_deaths):
            self._plan(now + self._chance.expovariate(self._nodes / self._costs.between_deaths), "death", None)

    def _plan(self, moment: float, what: str, about: object) -> None:
        heapq.heappush(self._events, (moment, next(self._order), what, about))
