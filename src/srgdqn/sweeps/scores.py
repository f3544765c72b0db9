"""The names of what cells are judged by, for a command line that knows no tables yet."""

from __future__ import annotations

from typing import Literal

Score = Literal["greedy-return", "final-reward"]
SCORES: tuple[Score, ...] = ("greedy-return", "final-reward")
