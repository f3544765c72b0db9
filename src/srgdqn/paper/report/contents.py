"""What a report says: verdicts first, then a section per experiment. Plain data, rendered by `paper.report.page`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from srgdqn.figures.charts import Chart

Verdict = Literal["holds", "fails", "undecided", "moot"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table as a reader wants it: `frame` holds texts and numbers already rounded for reading."""

    name: str
    """What its files are called."""
    title: str
    frame: pl.DataFrame
    note: str = ""


@dataclass(frozen=True, eq=False)
class Section:
    """One experiment: what the paper says beside what was found."""

    name: str
    """Its anchor in the page, such as `figure-1`."""
    title: str
    paper_says: str
    found: str
    """One or a few sentences, made from the figures themselves."""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    seconds: float | None = None
    """What it took to compute, added up over cores; None where nothing was computed."""
    budget_seconds: float | None = None
    """What it was allowed to take."""


@dataclass(frozen=True)
class ClaimRow:
    """One claim of the paper and its verdict for each set of readings."""

    name: str
    """Such as `C2`, or `C7 (at their own θ)`."""
    claim: str
    where: str
    """The paper's figure, table or section."""
    verdicts: Mapping[str, Verdict]
    """By set of readings: `corrected` first."""
    evidence: Mapping[str, str]
    """By set of readings: the deciding contrast with its interval, in words."""
    section: str
    """The section that shows it."""


@dataclass(frozen=True)
class ClaimCard:
    """One claim of the paper: its words, and by set of readings what came of it."""

    name: str
    """Such as `C2` or `C7a`."""
    claim: str
    where: str
    """The paper's figure, table or section."""
    section: str
    """The section that shows it."""
    verdicts: Mapping[str, Verdict]
    marks: Mapping[str, tuple[str, ...]]
    """`small`, `below random`: what a verdict must be read with."""
    effects: Mapping[str, tuple[str, ...]]
    """The contrasts in words and units, the deciding one first; or why there is none."""
    notes: tuple[str, ...] = ()
    """What else must be said: that it depends on the target network, or has changed since the last release, and why."""


@dataclass(frozen=True, eq=False)
class FirstScreen:
    """What a reader sees first."""

    claim: str
    """What the paper claims, in a sentence."""
    counts: Mapping[str, Mapping[Verdict, int]]
    """By set of readings: how many claims hold, fail, are undecided, are moot."""
    question: str
    answer: tuple[str, ...]
    """At most three sentences."""
    table: Table
    """A row per task: the random policy, SGD, the same updates without reduction, SVR, SRG, the best control; the share
    of diverged rounds beside each.
    """
    forest: Chart
    """The contrasts behind the answer, with their intervals."""


def readings_of(claims: Sequence[ClaimRow]) -> list[str]:
    """The sets of readings that any claim has a verdict for, each once."""
    return list(dict.fromkeys(reading for row in claims for reading in row.verdicts))


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page."""

    title: str
    question: str
    """The question on page one."""
    answer: str
    """Its answer, in a few sentences with figures."""
    claims: tuple[ClaimRow, ...]
    claims_note: str
    """Which seeds decided, how many rounds, the version of the claims."""
    sections: tuple[Section, ...]
    facts: Mapping[str, str]
    """Versions, machine, seeds, version of the claims, date, time taken."""
    configurations: Mapping[str, str]
    """The full configuration of each cell as TOML, by the cell's name."""
    preview: bool = False
    """Whether this is a `--quick` run, which the page says in a banner."""
