"""What is known of a run that is watched: made from lines that arrive one after the other."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from srgdqn.integrations.json_lines import Line
from srgdqn.integrations.scalars import EPISODES, ITERATIONS, RETURN, REWARD
from srgdqn.runs.metadata import is_count

_LATELY = 10.0  # seconds that speed is measured over
_HEADER = {"task", "algorithm", "rounds", "budget"}
_AMOUNTS = {"steps": "step", "outer_iterations": ITERATIONS, "episodes": EPISODES}

Curve = list[tuple[int, float]]
"""Steps, and a value at each."""


_LARGEST = 1e100  # so that sums of them are numbers, too


class Watched:
    """A run so far."""

    def __init__(self) -> None:
        self._begin({})

    def _begin(self, header: Line) -> None:
        self.header = header
        self.rounds: dict[int, dict[str, Any]] = {}  # the last known values of each round, by name
        self.ended = False
        self.seconds = 0.0  # from the start to the last line
        self._curves: dict[str, dict[int, Curve]] = {name: defaultdict(list) for name in (RETURN, REWARD)}
        self._moments: deque[tuple[float, int, float]] = deque()  # seconds, steps and share, of late

    def hear(self, line: Line) -> None:
        """Takes in a line of the file. One that begins a run forgets what was before."""
        if line.keys() >= _HEADER:
            if _is_header(line):
                self._begin(line)
        elif line.get("ended"):
            self.ended = True
        elif self.header and is_count(line.get("round")) and _is_whole(line.get("step")):
            self._hear_round({name: value for name, value in line.items() if _is_number(value)})

    def _hear_round(self, line: Line) -> None:
        seconds = line.get("seconds") or 0.0
        if self.rounds and seconds > self.seconds:
            self._moments.append((self.seconds, self.steps, self.share))
            while len(self._moments) > 1 and self._moments[1][0] < seconds - _LATELY:
                self._moments.popleft()
        self.seconds = max(self.seconds, seconds)
        known = self.rounds.setdefault(line["round"], {})
        known.update(line)
        for name, curves in self._curves.items():
            if name in line:
                curves[line["round"]].append((line["step"], line[name]))

    @property
    def steps(self) -> int:
        """Environment steps of all rounds together."""
        return sum(known["step"] for known in self.rounds.values())

    @property
    def speed(self) -> float | None:
        """Environment steps per second, of late."""
        if not self._moments:
            return None
        seconds, steps, _ = self._moments[0]
        return (self.steps - steps) / (self.seconds - seconds)

    @property
    def share(self) -> float:
        """Of the whole run's budget; a round that diverged is done."""
        if not self.rounds:
            return 0.0
        amount = self.header["budget"]["amount"]
        name = _AMOUNTS[self.header["budget"]["unit"]]
        done = sum(
            1.0 if "diverged_at" in known else min(known.get(name, 0) / amount, 1.0) for known in self.rounds.values()
        )
        return done / self.header["rounds"]

    @property
    def seconds_left(self) -> float | None:
        """If it goes on as of late."""
        if not self._moments:
            return None
        seconds, _, share = self._moments[0]
        done = self.share - share
        return (1 - self.share) * (self.seconds - seconds) / done if done > 0 else None

    def curves(self) -> tuple[str, dict[int, Curve]]:
        """The rounds' mean returns, or their rewards where no episode has ended; and which of them it is."""
        name = RETURN if self._curves[RETURN] else REWARD
        return name, self._curves[name]


def _is_header(line: Line) -> bool:
    """Whether a line tells what a run is: such a file may come from anywhere."""
    budget, started = line["budget"], line.get("started", 0)
    names = (line["task"], line["algorithm"])
    return (
        all(isinstance(name, str) and name.isprintable() for name in names)
        and is_count(line["rounds"], 1)
        and isinstance(budget, dict)
        and isinstance(budget.get("unit"), str)
        and budget["unit"] in _AMOUNTS
        and is_count(budget.get("amount"), 1)
        and _is_number(started)
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63
