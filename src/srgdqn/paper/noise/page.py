"""The section of the noise map: what a practitioner should do, and six figures at most."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from srgdqn.figures.charts import (
    BLACK,
    BLUE,
    BROWN,
    GREEN,
    GREY,
    OLIVE,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    Chart,
    Panel,
    Series,
    Style,
)
from srgdqn.paper.claims.evidence import Evidence
from srgdqn.paper.noise.results import ALONE, CEILING, DIFFERENCE_ALONE, ERRORS, LEARNED, OVER_TRAINING, rows_of
from srgdqn.paper.noise.rules import CONTROLS, KIND, MARGIN, OUTCOMES, PACES
from srgdqn.paper.report.contents import Section, Table

_NAMES = {"area": "area under the evaluation curve", "final": "final greedy return"}
_PACES = {"updates": "one update per 8 environment steps", "queries": "8 gradient queries per environment step"}
_OUTCOME_STYLES = {"area": Style(BLUE), "final": Style(ORANGE, "--")}
_CONTROLS = {each.name for each in CONTROLS}
_COLORS = (BLUE, GREEN, PURPLE, ORANGE, RED, SKY, OLIVE, BROWN, BLACK, GREY)


# In words


def headline(learners: Sequence[Mapping[str, Any]]) -> str:
    """Whether an estimator beats tuned Adam by the rule that was fixed, and where; whether a control does, which is
    plain Adam itself; and whom the Adam that is best by an outcome alone is not behind, which decides nothing.
    """
    if not learners:
        return "No learner was compared with tuned Adam."
    known = _learned_on(learners)
    if not known:
        return f"Nothing was learned on {_listed(_in_order(row['task'] for row in learners))}: no comparison is told."
    holding = [row for row in learners if row["verdict"] == "holds"]
    estimators, controls = _apart_from_controls(holding)
    shown = "beats" if _verdicts_on_estimators(learners) == {"fails"} else "was shown to beat"
    found = f"No estimator {shown} tuned Adam at equal gradient queries on {_listed(known)}."
    if estimators:
        found = f"By the rule fixed beforehand, tuned Adam is beaten at equal gradient queries by {_told(estimators)}."
    if controls:
        found += f" Plain Adam tuned further gains as well: {_told(controls)}."
    doubtful = [row for row in holding if not _is_above_both(row)]
    if doubtful:
        found += (
            " Seen afterwards, and deciding nothing: that Adam has the batch size that is best by both outcomes "
            "together, and with the one that is best by the same outcome alone it is not behind "
            f"{'; '.join(map(_told_alone, doubtful))}."
        )
    return found


def winners(learners: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The rows of estimators and those of controls that are above tuned Adam, also the one that is best by an outcome
    alone.
    """
    return _apart_from_controls([row for row in learners if row["verdict"] == "holds" and _is_above_both(row)])


def _is_above_both(row: Mapping[str, Any]) -> bool:
    return bool(row[f"{DIFFERENCE_ALONE}_low"] > 0)


def _apart_from_controls(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The rows of estimators, and those of controls."""
    estimators = [row for row in rows if row["learner"] not in _CONTROLS]
    return estimators, [row for row in rows if row["learner"] in _CONTROLS]


def _verdicts_on_estimators(learners: Sequence[Mapping[str, Any]]) -> set[str]:
    """Those on estimators, not on controls, where something was learned."""
    return {row["verdict"] for row in learners if row["learner"] not in _CONTROLS} - {"moot"}


def _learned_on(learners: Sequence[Mapping[str, Any]]) -> list[str]:
    """The tasks on which something was learned."""
    return _in_order(row["task"] for row in learners if row["verdict"] != "moot")


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> _listed(["CartPole", "Pendulum", "Acrobot"])
    'CartPole, Pendulum and Acrobot'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _told(rows: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{row['learner']} on {row['task']} ({row['outcome']}) {_with_interval(row, 'difference', '+')}" for row in rows
    )


def _told_alone(row: Mapping[str, Any]) -> str:
    """A learner beside the Adam that is best by its outcome alone."""
    beside = f"{_with_interval(row, DIFFERENCE_ALONE, '+')} beside B = {row[ALONE]:,}"
    return f"{row['learner']} on {row['task']} ({row['outcome']}, {beside})"


def advice(ceilings: Sequence[Mapping[str, Any]], learners: Sequence[Mapping[str, Any]]) -> str:
    """What a practitioner should do, in one paragraph that follows from the tables."""
    parts = [headline(learners), _where_noise_limits(ceilings)]
    parts += [_where_one_could(ceilings, learners)] if learners else []
    parts += [_do(ceilings, learners)]
    return " ".join(part for part in parts if part)


def limit_states(ceilings: Sequence[Mapping[str, Any]], task: str, pace: str = "updates") -> dict[int, str]:
    """Of each batch size whether noise limits a task: `limits` if it does by either outcome, `does not` if by neither,
    else `unclear`; `not compared` from `AGAINST` on.
    """
    found: dict[int, set[str]] = {}
    for row in ceilings:
        if (row["task"], row["pace"]) == (task, pace):
            found.setdefault(row["B"], set()).add(row["noise"])
    return {batch: _state(verdicts) for batch, verdicts in sorted(found.items())}


def _state(verdicts: set[str]) -> str:
    if "" in verdicts:
        return "not compared"
    if "limits" in verdicts:
        return "limits"
    return verdicts.pop() if len(verdicts) == 1 else "unclear"


def _where_noise_limits(ceilings: Sequence[Mapping[str, Any]]) -> str:
    told = []
    for task in _in_order(row["task"] for row in ceilings):
        states = limit_states(ceilings, task)
        sizes = {state: [f"{b:,}" for b in states if states[b] == state] for state in _in_order(states.values())}
        if "nothing learned" in sizes:
            told.append(f"on {task} nothing is learned")
            continue
        parts = []
        if "limits" in sizes:
            parts.append(f"limits at B = {_listed(sizes['limits'])}")
        if "does not" in sizes:
            parts.append(f"does not at {'' if parts else 'B = '}{_listed(sizes['does not'])}")
        if "unclear" in sizes:
            parts.append(f"is unclear at {'' if parts else 'B = '}{_listed(sizes['unclear'])}")
        if parts:
            told.append(f"on {task} noise {', '.join(parts)}")
    return f"With one update per 8 steps, {'; '.join(told)}.{_edges(ceilings)}" if told else ""


def _edges(ceilings: Sequence[Mapping[str, Any]]) -> str:
    """Where plain Adam might be better than it is shown, as its α lies at an edge of what was tried."""
    at_edges = [row for row in ceilings if row["at an edge"] and row["pace"] == "updates"]
    sizes = {
        task: _in_order(f"{row['B']:,}" for row in at_edges if row["task"] == task)
        for task in _in_order(row["task"] for row in at_edges)
    }
    if not sizes:
        return ""
    told = "; ".join(f"B = {_listed(batches)} on {task}" for task, batches in sizes.items())
    return f" There α lies at an edge of its grid for {told}, which might do better with another."


def _where_one_could(ceilings: Sequence[Mapping[str, Any]], learners: Sequence[Mapping[str, Any]]) -> str:
    """What is left to gain at the batch size that tuned Adam chooses."""
    known = _learned_on(learners)
    batches = {row["task"]: row["Adam's B"] for row in learners if row["task"] in known}
    tasks: dict[str, list[str]] = {}
    for task, batch in batches.items():
        state = limit_states(ceilings, task).get(batch, "not compared")
        tasks.setdefault(state, []).append(f"{task} (B = {batch:,})")
    said = []
    if "limits" in tasks:
        said.append(f"noise limits on {_listed(tasks['limits'])}, where an estimator could still win")
    if "does not" in tasks:
        said.append(f"it does not on {_listed(tasks['does not'])}, where next to nothing is left to win")
    unknown = [*tasks.get("unclear", []), *tasks.get("not compared", [])]
    if unknown:
        said.append(f"it is not known on {_listed(unknown)}")
    return f"At the batch size that is best for Adam at 8 queries per step, {'; '.join(said)}." if said else ""


def _do(ceilings: Sequence[Mapping[str, Any]], learners: Sequence[Mapping[str, Any]]) -> str:
    chosen = {row["task"]: row["Adam's B"] for row in learners if row["task"] in _learned_on(learners)}
    if not chosen:
        return ""
    sizes = ", ".join(f"{batch:,} on {task}{_apart(learners, task)}" for task, batch in chosen.items())
    said = f"Spend gradient queries on the batch size and tune α with it: Adam was best with B = {sizes}."
    estimators, controls = winners(learners)
    if controls:
        said += f" Then tune what {' and '.join(_in_order(row['learner'] for row in controls))} changed."
    if estimators:
        return (
            f"{said} Where that is done, {' and '.join(_in_order(row['learner'] for row in estimators))} may be tried."
        )
    if _verdicts_on_estimators(learners) == {"fails"}:
        return f"{said} Do not spend them on variance reduction."
    return f"{said} Whether variance reduction gains anything beside that was not decided."


def _apart(learners: Sequence[Mapping[str, Any]], task: str) -> str:
    """Adam's batch sizes by single outcomes, where they are others, in brackets."""
    mine = [row for row in learners if row["task"] == task and row[ALONE] != row["Adam's B"]]
    told = _in_order(f"{row[ALONE]:,} by {row['outcome']} alone" for row in mine)
    return f" ({_listed(told)})" if told else ""


def _in_order(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


# In pictures


def charts_of(tables: Mapping[str, Table]) -> list[Chart]:
    """The figures for which there are numbers."""
    ceilings, learners = rows_of(tables, CEILING), rows_of(tables, LEARNED)
    found = [_ceiling_chart(ceilings, pace) for pace in PACES]
    if ERRORS in tables:
        errors, training = tables[ERRORS].frame, tables[OVER_TRAINING].frame
        found += [_errors_chart(errors), _axes_chart(errors), _training_chart(errors, training)]
    found.append(_learners_chart(learners))
    return [chart for chart in found if chart.panels]


def _ceiling_chart(rows: Sequence[Mapping[str, Any]], pace: str) -> Chart:
    panels = []
    for task in _in_order(row["task"] for row in rows if row["pace"] == pace):
        series = []
        for outcome in OUTCOMES:
            mine = [row for row in rows if (row["task"], row["pace"], row["outcome"]) == (task, pace, outcome)]
            x = {"batch": _column(mine, "B")}
            mean, low, high = (_column(mine, name) for name in ("mean", "mean_low", "mean_high"))
            series.append(Series(_NAMES[outcome], _OUTCOME_STYLES[outcome], x, mean, low, high))
        chance = _column(mine, "random")
        series.append(Series("random policy", Style(GREY, ":"), x, chance))
        panels.append(Panel(task, "return", {"batch": "batch size"}, tuple(series), log_x=True))
    return Chart(
        f"noise-{pace}",
        f"Plain Adam by batch size, {_PACES[pace]}",
        f"Plain Adam with tuned α, {_PACES[pace]}: means over confirmatory rounds with 95 % intervals.",
        tuple(panels),
        columns=2,
    )


def _styles(names: Sequence[str]) -> dict[str, Style]:
    return {name: Style(_COLORS[place % len(_COLORS)]) for place, name in enumerate(sorted(set(names)))}


def _errors_chart(errors: pl.DataFrame) -> Chart:
    own = errors.filter(pl.col("axis").is_in(["own", "queries"])).drop_nulls("ratio")
    styles = _styles(errors["arm"].to_list())
    panels = []
    for [task], mine in own.group_by("task", maintain_order=True):
        series = tuple(
            Series(
                name,
                styles[name],
                {"queries": rows["queries"].to_numpy()},
                rows["ratio"].to_numpy(),
                kind="points",
            )
            for [name], rows in mine.group_by("arm", maintain_order=True)
        )
        panels.append(Panel(str(task), "error ratio", {"queries": "queries per batch"}, series, log_y=True))
    return Chart(
        "noise-ratios",
        "Estimators as estimators",
        "The squared error of a direction divided by that of the plain gradient on as many transitions as a "
        "batch of it queries, of every variant and with larger and smaller batches. Below 1 the estimator pays.",
        tuple(panels),
        columns=2,
    )


def _axes_chart(errors: pl.DataFrame) -> Chart:
    labels = {"coefficient": "coefficient c", "horizon": "target's period, as a factor"}
    styles = _styles(errors["arm"].to_list())
    panels = []
    for axis, label in labels.items():
        mine = errors.filter(pl.col("axis") == axis).drop_nulls("ratio")
        means = mine.group_by("arm", "value").agg(pl.col("ratio").log().mean().exp()).sort("arm", "value")
        series = tuple(
            Series(name, styles[name], {axis: rows["value"].to_numpy()}, rows["ratio"].to_numpy())
            for [name], rows in means.group_by("arm", maintain_order=True)
        )
        if series:
            panels.append(Panel(label, "error ratio", {axis: label}, series, log_x=axis == "horizon", log_y=True))
    return Chart(
        "noise-axes",
        "Errors against the coefficient and the target's horizon",
        "The same ratio, a geometric mean over tasks, for directions with other coefficients, and with targets copied "
        "more or less often.",
        tuple(panels),
    )


def _training_chart(errors: pl.DataFrame, training: pl.DataFrame) -> Chart:
    own = errors.filter(pl.col("axis") == "own").drop_nulls("ratio")
    styles = _styles(errors["arm"].to_list())
    panels = []
    for [task], mine in own.group_by("task", maintain_order=True):
        best = mine.sort("ratio").unique("arm", keep="first", maintain_order=True).select("arm", "variant")
        rows = training.filter(pl.col("task") == task).join(best, on=["arm", "variant"])
        series = tuple(
            Series(name, styles[name], {"steps": part["step"].to_numpy()}, part["ratio"].to_numpy())
            for [name], part in rows.sort("arm", "step").group_by("arm", maintain_order=True)
        )
        panels.append(Panel(str(task), "error ratio", {"steps": "environment steps"}, series, log_y=True))
    return Chart(
        "noise-training",
        "Errors over training",
        "The same ratio at every evaluation, of each estimator's best variant.",
        tuple(panels),
        columns=2,
    )


def _learners_chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    labels = _in_order(f"{row['task']}: {row['learner']}" for row in rows)
    panels = []
    for outcome in OUTCOMES:
        mine = [row for row in rows if row["outcome"] == outcome and row["margin"]]
        if not mine:
            continue
        # The margin is MARGIN · (best − random).
        gaps = np.array([row["margin"] / MARGIN for row in mine])
        place = np.array([labels.index(f"{row['task']}: {row['learner']}") for row in mine], float)
        columns = ("difference", "difference_low", "difference_high")
        mean, low, high = (_column(mine, name) / gaps for name in columns)
        series = Series(_NAMES[outcome], _OUTCOME_STYLES[outcome], {"learner": place}, mean, low, high, "points")
        panel = Panel(
            _NAMES[outcome],
            "difference / (best − random)",
            {"learner": ""},
            (series,),
            categories=tuple(labels),
            horizontal=True,
        )
        panels.append(panel)
    return Chart(
        "noise-contrasts",
        "Estimators as learners",
        "Differences to the best tuned Adam, as shares of (best − random), at 8 gradient queries per environment step, "
        "with 95 % intervals; right of 0 the learner is ahead.",
        tuple(panels),
        columns=2,
    )


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    return np.array([math.nan if row[name] is None else row[name] for row in rows], float)


def section(evidence: Evidence) -> Section:
    """The noise map as a section of a report."""
    tables = {table.name: table for table in evidence.tables}
    paragraphs = [advice(rows_of(tables, CEILING), rows_of(tables, LEARNED)), *evidence.about.get("notes", ())]
    return Section(
        name=KIND,
        title="The noise map",
        paper_says="Nothing of this: it promises that variance-reduced gradients make learning better.",
        found="\n\n".join([*paragraphs, evidence.made().strip()]),
        charts=tuple(charts_of(tables)),
        tables=tuple(
            _for_readers(part)
            for table in evidence.tables
            if table.name != OVER_TRAINING
            for part in (_split(table) if table.name == LEARNED else (table,))
        ),
    )


_DECIDING = ["mean", "best Adam", "random", "difference", "difference_low", "difference_high", "verdict"]


def _split(table: Table) -> tuple[Table, Table]:
    """The table of learners as two: what decides, and what else is known of each."""
    whose, rest = ["task", "outcome", "learner"], ["margin", "p⁺", "p⁻", "small"]
    told = pl.when("small").then(pl.col("verdict") + ", small").otherwise("verdict").alias("verdict")
    deciding = table.frame.with_columns(told).select(*whose, *_DECIDING).sort(*whose, maintain_order=True)
    known = table.frame.select(*whose, pl.exclude(*whose, *_DECIDING, *rest), *rest)
    return (
        dataclasses.replace(table, frame=deciding),
        Table(f"{table.name}-more", "The same learners: how they were set, and what else is known of them", known),
    )


def _for_readers(table: Table) -> Table:
    """The table with three digits, and an interval beside what it is of."""
    frame = table.frame
    bounded = [name for name in frame.columns if {f"{name}_low", f"{name}_high"} <= set(frame.columns)]
    texts = {name: [_with_interval(row, name) for row in frame.iter_rows(named=True)] for name in bounded}
    shown = frame.with_columns(pl.Series(name, cells, pl.String) for name, cells in texts.items())
    shown = shown.drop(f"{name}_{side}" for name in bounded for side in ("low", "high"))
    floats = [pl.col(name).round_sig_figs(3) for name, kind in shown.schema.items() if kind == pl.Float64]
    return Table(table.name, table.title, shown.with_columns(floats), table.note)


def _with_interval(row: Mapping[str, Any], name: str, sign: str = "") -> str | None:
    estimate, low, high = (row[f"{name}{side}"] for side in ("", "_low", "_high"))
    if estimate is None:
        return None
    told = [f"{each:{sign}.3g}".replace("-", "−") for each in (estimate, low, high) if each is not None]
    return f"{told[0]} [{told[1]}, {told[2]}]" if len(told) == 3 else told[0]
