"""The parts of the first screen, made from numbers: how many claims hold, the table of scores, the forest plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from srgdqn.figures.charts import Chart, Panel, Series, Style
from srgdqn.paper.report.contents import VERDICTS, ClaimCard, Table, Verdict, readings_of
from srgdqn.results.statistics import Interval

# Of the sets of readings, in their order: none is an algorithm's. Each also has a marker of its own.
_COLORS = ("#1f3b73", "#b5482a", "#2a7f79", "#5a5a5a")


def counts_of(cards: Sequence[ClaimCard]) -> dict[str, dict[Verdict, int]]:
    """By set of readings: how many claims have each verdict."""
    return {
        reading: {verdict: sum(card.verdicts.get(reading) == verdict for card in cards) for verdict in VERDICTS}
        for reading in readings_of(cards)
    }


class Score(NamedTuple):
    """What an algorithm scored on a task."""

    mean: float
    diverged: float | None = None
    """The share of its rounds; None for a policy that does not learn."""
    name: str = ""
    """Which algorithm it is, where the column does not say."""

    def text(self, digits: int) -> str:
        """The score with the share of diverged rounds beside it, if any diverged or another algorithm is named.

        >>> Score(0.3182, 0.004).text(3), Score(-1.7, 0.0, "dqn-adam").text(2), Score(6.42).text(1)
        ('0.318 (0.4 %)', '−1.70 (0 %) dqn-adam', '6.4')
        """
        share = f" ({percent(self.diverged)})" if self.diverged or (self.name and self.diverged is not None) else ""
        mean = f"{self.mean:z.{digits}f}".replace("-", "−")
        return f"{mean}{share}{' ' if self.name else ''}{self.name}"


def percent(share: float) -> str:
    """A share as a reader wants it: neither 0 nor 100 % unless it is.

    >>> [percent(share) for share in (0, 0.0004, 0.004, 0.4475, 0.9996, 1)]
    ['0 %', '< 0.1 %', '0.4 %', '45 %', '> 99 %', '100 %']
    """
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{share:.1%}".replace("%", " %") if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")


def score_table(
    name: str, title: str, scores: Mapping[str, Mapping[str, Score]], digits: Mapping[str, int], note: str = ""
) -> Table:
    """The small table: a row per task, a column per algorithm.

    Args:
      name: what its files are called.
      title: what is scored, and with which readings.
      scores: by task and column; a task without a score in some column has a dash there.
      digits: decimals by task, since rewards of different tasks are of different sizes.
      note: what stands below.

    """
    columns = list(dict.fromkeys(column for row in scores.values() for column in row))
    texts: dict[str, list[str | None]] = {"task": list(scores)}
    for column in columns:
        texts[column] = [row[column].text(digits[task]) if column in row else None for task, row in scores.items()]
    return Table(name, title, pl.DataFrame(texts, schema=dict.fromkeys(texts, pl.String)), note)


class Difference(NamedTuple):
    """A row of the forest plot: ours minus another algorithm's."""

    panel: str
    """The task: what is measured in one unit."""
    unit: str
    readings: str
    against: str
    interval: Interval


def forest_chart(
    name: str, title: str, caption: str, differences: Sequence[Difference], ours: str = "SRG-DQN"
) -> Chart:
    """A panel per task, a row per algorithm compared with, a marker per set of readings.

    Rows that cannot be computed are left out, and so are panels that have none.
    """
    known = [each for each in differences if np.isfinite(each.interval).all()]
    readings = list(dict.fromkeys(each.readings for each in known))
    order = list(dict.fromkeys(each.against for each in known))
    panels = []
    for panel in dict.fromkeys(each.panel for each in known):
        mine = [each for each in known if each.panel == panel]
        rows = [against for against in order if any(each.against == against for each in mine)]
        series = tuple(
            _readings_series(reading, place, [each for each in mine if each.readings == reading], rows, len(readings))
            for place, reading in enumerate(readings)
            if any(each.readings == reading for each in mine)
        )
        label = f"{ours} minus other\n({mine[0].unit})"
        axis = {"against": "the other algorithm"}
        panels.append(Panel(panel, label, axis, series, categories=tuple(rows), horizontal=True))
    return Chart(name, title, caption, tuple(panels))


def _readings_series(
    reading: str, place: int, found: Sequence[Difference], rows: Sequence[str], several: int
) -> Series:
    values = np.array([each.interval for each in found])
    return Series(
        # Groups have markers and switches; a single one needs neither.
        label="" if several > 1 else reading,
        group=reading if several > 1 else "",
        style=Style(_COLORS[place % len(_COLORS)]),
        x={"against": np.array([rows.index(each.against) for each in found], float)},
        y=values[:, 0],
        low=values[:, 1],
        high=values[:, 2],
        kind="points",
    )
