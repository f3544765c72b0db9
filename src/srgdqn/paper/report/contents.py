"""What a report says: first screen, a card per claim, a section per experiment. Plain data, rendered by `page`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import polars as pl

from srgdqn.figures.charts import Chart

Verdict = Literal["holds", "fails", "undecided", "moot"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

MARKS = {
    "small": "the claim holds, but some effect is smaller than what would matter",
    "below random": "no algorithm that the claim speaks of beats the random policy",
}
"""What the marks beside a verdict mean."""

PartState = Literal["for the claim", "against it", "unclear", "not compared"]
"""What a part of a claim speaks for by itself, not corrected for the number of claims: no verdict."""

MOST_SENTENCES = 3
"""Of the answer on the first screen."""


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


class Part(NamedTuple):
    """A part of a claim, such as its steadiness, and what came of it."""

    name: str
    """Empty where the claim has no parts."""
    state: PartState
    effect: str


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
    """What else must be said: that it depends on the target's period, has changed since a release and why, or
    what its intervals do not cover.
    """
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    """The parts of the claim, each with its weakest contrast; none where the effects say all."""


class Aside(NamedTuple):
    """What else belongs on the first screen: another study's answer."""

    question: str
    answer: tuple[str, ...]
    section: str
    """The section that has the whole of it."""


@dataclass(frozen=True, eq=False)
class FirstScreen:
    """What a reader sees first."""

    claim: str
    """What the paper claims, in a sentence."""
    counts: Mapping[str, Mapping[Verdict, int]]
    """By set of readings: how many claims hold, fail, are undecided, are moot."""
    question: str
    answer: tuple[str, ...]
    """Sentences: at most three."""
    table: Table
    """A row per task: the random policy, SGD, the same updates without reduction, SVR, SRG, the best control; the share
    of diverged rounds beside each.
    """
    forest: Chart
    """The contrasts behind the answer, with their intervals."""
    forest_table: Table | None = None
    """The same contrasts for readers who do not see the plot."""
    readings: Mapping[str, str] = field(default_factory=dict)
    """What each set of readings does, in a few words."""
    counts_note: str = ""
    """What the numbers of claims must be read with."""
    more_tables: tuple[Table, ...] = ()
    """The table of scores with the other sets of readings."""
    asides: tuple[Aside, ...] = ()
    """What other studies answer; the first stands beside the table, the others below it."""

    def __post_init__(self) -> None:
        """Checks that it can be read at a glance."""
        if len(self.answer) > MOST_SENTENCES:
            raise ValueError(f"the answer has {len(self.answer)} sentences: use at most {MOST_SENTENCES}")


def readings_of(cards: Sequence[ClaimCard]) -> list[str]:
    """The sets of readings that any claim has a verdict for, each once."""
    return list(dict.fromkeys(reading for card in cards for reading in card.verdicts))


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page."""

    title: str
    first: FirstScreen | None
    """None where there is no evidence to make it of: the page then starts with the cards."""
    cards: tuple[ClaimCard, ...]
    rules: str
    """How verdicts were reached: by which rules, on which seeds and how many rounds."""
    glossary: Mapping[str, str]
    """The few words that a reader may not know."""
    sections: tuple[Section, ...]
    facts: Mapping[str, str]
    """Versions, machine, seeds, version of the claims, date, time taken."""
    configurations: Mapping[str, str]
    """The full configuration of each cell as TOML, by the cell's name."""
    cards_note: str = ""
    """Whose numbers the cards show."""
    preview: bool = False
    """Whether this is a `--quick` run, which the page says in a banner."""

    @property
    def charts(self) -> list[Chart]:
        """All charts, the first screen's before the others; one without panels shows nothing and is left out."""
        forest = [self.first.forest] if self.first else []
        every = [*forest, *(chart for section in self.sections for chart in section.charts)]
        return [chart for chart in every if chart.panels]

    @property
    def tables(self) -> list[Table]:
        """All tables in the same order."""
        first = self.first
        small = [first.table, *first.more_tables] if first else []
        if first and first.forest_table:
            small.append(first.forest_table)
        return [*small, *(table for section in self.sections for table in section.tables)]
