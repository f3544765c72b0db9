"""The section of the report on all readings: specification curves, main effects and shares, from the evidence alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from srgdqn.figures.charts import BLACK, BLUE, GREY, ORANGE, Chart, Panel, Series, Style
from srgdqn.paper.claims.evidence import Evidence
from srgdqn.paper.claims.verdicts import REWARDS
from srgdqn.paper.experiment import RANDOM
from srgdqn.paper.factorial.arms import CONTRASTS, LEARNING, OURS
from srgdqn.paper.factorial.design import FACTORS, reading_of
from srgdqn.paper.report.contents import Aside, Section, Table
from srgdqn.paper.report.first_screen import percent
from srgdqn.paper.studies.figure_2 import TASKS

_WORDS = {"svr": "SVR-DQN", "sgd": "the same updates along plain gradients"}
"""What SRG-DQN is compared with, in words."""
_EVERYWHERE = "all"


def section(evidence: Evidence) -> Section:
    """What came of all readings: whether anybody learned, then how the contrasts and shares spread over them."""
    tables = {table.name.removeprefix("factorial-"): table.frame for table in evidence.tables}
    return Section(
        name="factorial",
        title="Over all readings",
        paper_says="Nothing: where the paper is silent or contradicts itself, there are readings.",
        found=f"{_found(tables)} {_WORST}{evidence.made()}",
        charts=tuple(_curves(tables["readings"], name) for name in CONTRASTS),
        tables=(
            _shares(tables["shares"]),
            _best(tables["shares"]),
            *(_effects(tables["effects"], name) for name in CONTRASTS),
            _arms(tables["arms"]),
        ),
    )


_WORST = (
    "A diverged round scores the worst round that finished in any arm of the reading, yardsticks included, or the "
    "random policy's mean where that is worse."
)

# In words


def in_brief(evidence: Evidence) -> Aside:
    """The answer for the first screen: in how many readings variance reduction adds reward, and in how many less."""
    tables = {table.name.removeprefix("factorial-"): table.frame for table in evidence.tables}
    sides = {task: _sides(tables["readings"].filter(task=task), "sgd") for task in TASKS}
    gains = [f"{more} of {total} on {task}" for task, (more, _, total) in sides.items()]
    losses = _listed([str(less) for _, less, _ in sides.values()])
    learned = _listed([str(int((tables["readings"].filter(task=task)["learned"] > 0).sum())) for task in TASKS])
    best = _listed([percent(_share(tables["shares"], task, "best", OURS)["estimate"]) for task in TASKS])
    answer = (
        "Over all combinations of what the paper leaves open, variance reduction adds reward to the same updates "
        f"(95 %, each by itself) in {_listed(gains)}; it costs reward in {losses}. Some algorithm has learned "
        f"at all in {learned} of them.",
        f"SRG-DQN is the best of six algorithms in {best} of them; if all were alike, it would be in 17 %.",
    )
    return Aside("And with other readings?", answer, "factorial")


def _sides(own: pl.DataFrame, name: str) -> tuple[int, int, int]:
    """Readings of a task in which a contrast is above 0 at 95 %, those in which it is below, and all."""
    left = own.filter(~pl.col(f"{name} void"))
    return int((left[f"{name} low"] > 0).sum()), int((left[f"{name} high"] < 0).sum()), own.height


def _listed(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _found(tables: Mapping[str, pl.DataFrame]) -> str:
    readings, shares = tables["readings"], tables["shares"]
    learners = tables["arms"].filter(pl.col("algorithm").is_in(LEARNING))
    lost, rounds = int(learners["diverged"].sum()), int(learners["rounds"].sum())
    first = [
        f"Some algorithm has learned anything at all in {_counted(readings, 'learned')}, and some algorithm beats the "
        f"random policy in {_counted(readings, 'beat random')}. Of {rounds:,} rounds of the six algorithms {lost:,} "
        f"({percent(lost / rounds)}) diverged."
    ]
    by_task = ", ".join(f"{_percent(_share(shares, task, 'best', OURS))} of the readings of {task}" for task in TASKS)
    everywhere = _share(shares, _EVERYWHERE, "best", OURS)
    others = [_share(shares, _EVERYWHERE, "best", arm)["estimate"] for arm in LEARNING if arm != OURS]
    second = (
        f"SRG-DQN has the highest mean of the six in {by_task}, and on all three tasks at once in "
        f"{_percent(everywhere)} (the other five: {_spaced(min(others))} to {_spaced(max(others))}). If all six "
        "were alike, each would be best in 17 % of the readings of a task, and on all three in 0.5 %."
    )
    third = []
    for name, words in _WORDS.items():
        sides = []
        for task in TASKS:
            higher, lower, total = _sides(readings.filter(task=task), name)
            sides.append(f"{task} {higher} above and {lower} below 0, of {total}")
        third.append(f"SRG-DQN minus {words}: {'; '.join(sides)}.")
    return "\n\n".join(
        [
            *first,
            second,
            "Readings whose 95 % interval is clear of 0, each by itself and not corrected for their number. "
            + " ".join(third),
        ]
    )


def _counted(readings: pl.DataFrame, column: str) -> str:
    parts = []
    for task in TASKS:
        own = readings.filter(task=task)
        parts.append(f"{int((own[column] > 0).sum())} of {own.height} readings of {task}")
    return _listed(parts)


# Charts


def _curves(readings: pl.DataFrame, contrast: str) -> Chart:
    """The specification curve of a contrast on every task, with the options of every reading below it."""
    sorted_ = {task: readings.filter(task=task).sort(contrast, "reading") for task in TASKS}
    panels = [_curve(task, own, contrast) for task, own in sorted_.items()]
    panels += [_options(task, own) for task, own in sorted_.items()]
    caption = (
        f"SRG-DQN minus {_WORDS[contrast]}: a point for each reading, in the order of the estimates, with its 95 % "
        "interval over rounds, each by itself. Grey: more than half of each arm's rounds diverged, so that the "
        "difference says nothing. Below, a dot shows the option that a reading has."
    )
    return Chart(f"factorial-{contrast}", f"SRG-DQN minus {_WORDS[contrast]}, every reading", caption, tuple(panels))


def _curve(task: str, own: pl.DataFrame, contrast: str) -> Panel:
    void, place = own[f"{contrast} void"].to_numpy(), np.arange(own.height)

    def points(label: str, style: Style, chosen: np.ndarray) -> Series:
        columns = (own[name].to_numpy()[chosen] for name in (contrast, f"{contrast} low", f"{contrast} high"))
        y, low, high = columns
        return Series(label, style, {"reading": place[chosen]}, y, low, high, kind="points")

    both = own[f"{contrast} finished"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    ends = np.array([0.0, max(own.height - 1, 1)])
    series = (
        points("all rounds", Style(ORANGE), ~void),
        points("most rounds diverged", Style(GREY), void),
        Series("rounds that finished in both", Style(BLUE), {"reading": place}, both, kind="points", shown=False),
        Series("no difference", Style(BLACK, ":"), {"reading": ends}, np.zeros(2)),
    )
    return Panel(task, REWARDS[task].words, {"reading": "readings, sorted"}, series)


def _options(task: str, own: pl.DataFrame) -> Panel:
    """Which option each reading has, a row for each that some reading has."""
    names = [f"{factor.name}: {level.name}" for factor in FACTORS for level in factor.levels]
    starts = np.cumsum([0, *(len(factor.levels) for factor in FACTORS)])[:-1]
    levels = np.array([reading_of(code) for code in own["reading"]])
    rows = (levels + starts).ravel()
    if task == "CartPole":
        names = ["time limit: 500" if name == "time limit: none" else name for name in names]
    used = np.unique(rows)[::-1]  # from below
    x, y = np.repeat(np.arange(own.height), len(FACTORS)), len(used) - 1 - np.searchsorted(used[::-1], rows)
    dots = Series("options", Style(BLACK), {"reading": x}, y, kind="points")
    shown = tuple(names[row] for row in used)
    return Panel(f"{task}: options", "", {"reading": "readings, sorted"}, (dots,), y_categories=shown)


# Tables


def _shares(shares: pl.DataFrame) -> Table:
    names = {arm: arm for arm in LEARNING} | {"": "some algorithm"}
    rows = [
        {"in how many readings": f"{names[arm]} {words}"}
        | {task: _percent(_share(shares, task, what, arm)) for task in TASKS}
        for what, words in (("learned", "has learned"), ("beats random", "beats the random policy"))
        for arm in ("", *LEARNING)
    ]
    note = (
        "An algorithm has learned in a reading if it is above the untrained agent beyond doubt: p⁺ at most 2.5 % "
        "divided by the six algorithms. Intervals are over rounds: the same round numbers are drawn for all readings, "
        "algorithms and tasks, and the test is made again, in its normal form, in every resample. That meets the noise "
        "of rounds twice, which moves shares: the resamples are moved back, to have the estimate as their mean."
    )
    return Table("factorial-shares", "In what share of the readings anybody learned", pl.DataFrame(rows), note)


def _best(shares: pl.DataFrame) -> Table:
    rows = [
        {"algorithm": arm}
        | {task: _percent(_share(shares, task, "best", arm)) for task in TASKS}
        | {"all three tasks": _percent(_share(shares, _EVERYWHERE, "best", arm))}
        for arm in (OURS, *(arm for arm in LEARNING if arm != OURS))
    ]
    note = (
        "Best: the highest mean of the six algorithms; a tie is nobody's. For all three tasks, each reading of "
        "CartPole, whose limit is always 500 steps, stands for both time limits of the others. Intervals as above."
    )
    return Table("factorial-best", "In what share of the readings each algorithm is best", pl.DataFrame(rows), note)


def _effects(effects: pl.DataFrame, contrast: str) -> Table:
    own = effects.filter(contrast=contrast)
    rows = []
    for option, level, first in own.select("option", "level", "first").unique(maintain_order=True).rows():
        row = {"option": f"{option}: {level} instead of {first}"}
        for task in TASKS:
            found = own.filter(task=task, option=option, level=level).to_dicts()
            row[task] = _effect(found[0]) if found else "–"
        rows.append(row)
    note = (
        f"How much an option adds to SRG-DQN minus {_WORDS[contrast]}: the mean of that difference over all readings "
        "with the option, minus the mean over those with the other. In units of reward (per action; on CartPole per "
        "episode); the two rewards of a task have units of their own. 95 % intervals over rounds."
    )
    title = f"Main effects of the options on SRG-DQN minus {_WORDS[contrast]}"
    return Table(f"factorial-effects-{contrast}", title, pl.DataFrame(rows), note)


def _arms(arms: pl.DataFrame) -> Table:
    rows = [
        {
            "task": row["task"],
            "algorithm": row["algorithm"],
            "diverged": f"{row['diverged']:,} of {row['rounds']:,}",
            "share [95 %]": _percent(row),
            "score": row["score"],
            **_greedy(row),
        }
        for row in arms.to_dicts()
    ]
    note = (
        "Means over all readings. A diverged round scores as the worst finished one of its reading, of these eight. "
        "Greedy return (on the raw task) and success are those of the rounds that finished."
    )
    return Table("factorial-arms", "Every algorithm over all readings", pl.DataFrame(rows), note)


def _greedy(row: Mapping[str, Any]) -> dict[str, str]:
    if row["algorithm"] == RANDOM:
        return dict.fromkeys(("greedy return", "success"), "never greedy")
    forms = {"greedy return": ".1f", "success": ".1%"}
    return {name: "–" if row[name] is None else f"{row[name]:{form}}" for name, form in forms.items()}


def _share(shares: pl.DataFrame, task: str, what: str, algorithm: str) -> dict[str, Any]:
    return shares.filter(task=task, what=what, algorithm=algorithm).row(0, named=True)


def _percent(found: Mapping[str, Any]) -> str:
    return f"{_spaced(found['estimate'])} [{_spaced(found['low'])}, {_spaced(found['high'])}]"


def _spaced(share: float) -> str:
    return f"{100 * share:.1f} %"


def _effect(found: Mapping[str, Any]) -> str:
    return f"{found['estimate']:+.3g} [{found['low']:+.3g}, {found['high']:+.3g}]"
