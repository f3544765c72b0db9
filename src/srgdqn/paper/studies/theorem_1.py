"""Theorem 1: its inequality, its count of queries beside SVRG's, and whether the paper's own η satisfies its bound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.figures.charts import BLUE, GREEN, ORANGE, Chart, Panel, Series, Style
from srgdqn.paper.cells import MeasurementCell, StudyCell
from srgdqn.paper.claims.paper_claims import ONE_PROBLEM
from srgdqn.paper.claims.wording import ratio_text
from srgdqn.paper.experiment import Experiment, Outcomes
from srgdqn.paper.measurements import theorem_1
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.studies import figure_3_right
from srgdqn.paper.studies.figure_3_right import of_both_runs

PROBLEMS = ("convex", "network")
_STYLES = {"sgd": Style(BLUE), "svrg": Style(GREEN), "srg": Style(ORANGE)}
_NAMES = {"sgd": "SGD", "svrg": "SVRG", "srg": "SRG"}
_PRECISION = 1e-2  # of the squared gradient at the start, at which estimators are compared


CELL = "theorem-1"
"""The name of the cell: the same for all readings, as the theorem's problems have none."""


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """The smooth problems; whether η satisfies the bound is asked of the runs whose anchors are looked at."""
    quick = scale.theorem == "quick"
    plan = theorem_1.TheoremPlan.quick(scale.seed) if quick else theorem_1.TheoremPlan(seed=scale.seed)
    return [MeasurementCell(CELL, theorem_1.measure, plan), *figure_3_right.cells(scale, readings)]


def log_query_ratios(outcomes: Outcomes, problem: str, step: str) -> np.ndarray:
    """Per replication: log(queries of SVRG / queries of SRG) to the precision.

    What is never reached counts with the whole budget; where neither reaches it, nothing is compared.
    """
    rows = _centre(outcomes[CELL].tables["queries"]).filter(problem=problem, step=step, relative=_PRECISION)
    svrg, srg = (rows.filter(estimator=name).sort("replication") for name in ("svrg", "srg"))
    either = (svrg["reached"] | srg["reached"]).to_numpy()
    return np.log(svrg["queries"].to_numpy()[either] / srg["queries"].to_numpy()[either])


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """The inequality, the queries, the loop length that the proof asks for, and the bound at the paper's η."""
    tables = outcomes[CELL].tables
    at_theory = tables["inequality"].filter((pl.col("multiple") == 1.0) & pl.col("in_region"))
    outside = int((tables["inequality"]["multiple"] == 1.0).sum()) - at_theory.height
    violated = int(at_theory["violated"].sum())
    bounds = _bounds(outcomes, readings)
    exponent = float(np.mean(tables["growth"]["exponent"].to_numpy()))
    return EXPERIMENT.section(
        found=(
            f"At the theory's step size the inequality is violated in {violated} of {at_theory.height} settings and "
            f"outer loops{f' in which its constants hold (in {outside} they do not)' if outside else ''}. "
            f"{_queries_sentence(outcomes)} {ONE_PROBLEM}\n\n"
            "Solving the proof's own inequality for the loop length gives queries of order "
            f"{_power(exponent)}, not √M/ε, as M is on both of its sides. " + _eta_sentence(bounds, readings[0])
        ),
        charts=(
            Chart(
                "theorem-1-queries",
                "Gradient queries until the squared gradient is ε of that at the start",
                "Geometric mean over replications and its 95 % interval, at the theory's and at tuned step sizes; what "
                "is never reached counts with the whole budget.",
                tuple(
                    _queries_panel(tables["queries"], problem, step)
                    for problem in PROBLEMS
                    for step in ("theory", "tuned")
                ),
                columns=2,
            ),
        ),
        tables=(
            _inequality_table(tables["inequality"]),
            _queries_table(tables["queries"]),
            _growth_table(tables["growth"]),
            _bounds_table(bounds),
        ),
    )


def _queries_sentence(outcomes: Outcomes) -> str:
    """How many times SRG's queries SVRG needs, by problem and step size."""
    told = []
    for step, words in (("theory", "At that step size"), ("tuned", "with tuned step sizes")):
        logs = {problem: log_query_ratios(outcomes, problem, step) for problem in PROBLEMS}
        ratios = [
            f"{_at_least(outcomes, problem, step)}{ratio_text(float(np.exp(values.mean())))} ({problem})"
            for problem, values in logs.items()
            if len(values)
        ]
        if ratios:
            told.append(f"{words} SVRG needs {' and '.join(ratios)} times SRG's queries")
    return f"{'; '.join(told)}." if told else ""


def _at_least(outcomes: Outcomes, problem: str, step: str) -> str:
    """Whether a ratio is cut short: SVRG has spent its whole budget without getting there."""
    rows = _centre(outcomes[CELL].tables["queries"]).filter(problem=problem, step=step, relative=_PRECISION)
    return "" if rows.filter(estimator="svrg")["reached"].all() else "at least "


def _power(exponent: float) -> str:
    """A power of 1/ε.

    >>> _power(2.004), _power(1.75)
    ('1/ε²', '1/ε^1.75')
    """
    return "1/ε²" if round(exponent, 2) == 2 else f"1/ε^{exponent:.2f}"


def _centre(queries: pl.DataFrame) -> pl.DataFrame:
    """The counts at the middle sizes: those that were held while the other was varied."""
    sizes = queries.select("n", "M").unique()
    return queries.filter(n=int(sizes["n"].mode().sort()[0]), M=int(sizes["M"].mode().sort()[0]))


def _queries_panel(queries: pl.DataFrame, problem: str, step: str) -> Panel:
    rows = _centre(queries).filter(problem=problem, step=step)
    series = []
    for estimator, style in _STYLES.items():
        logs = (
            rows.filter(estimator=estimator)
            .group_by("relative")
            .agg(mean=pl.col("queries").log().mean(), error=pl.col("queries").log().std() / pl.len().sqrt())
            .sort("relative")
        )
        mean, half = logs["mean"].to_numpy(), 1.96 * logs["error"].fill_null(0.0).to_numpy()
        series.append(
            Series(
                _NAMES[estimator],
                style,
                {"epsilon": logs["relative"].to_numpy()},
                np.exp(mean),
                np.exp(mean - half),
                np.exp(mean + half),
            )
        )
    titles = {"theory": "the theory's step size", "tuned": "tuned step size"}
    return Panel(
        f"{problem}, {titles[step]}",
        "gradient queries",
        {"epsilon": "ε as a share of the start's"},
        tuple(series),
        log_x=True,
        log_y=True,
    )


_HUGE = 1e4  # of a mean squared gradient that starts near 1: the steps have diverged


def _three_digits(name: str) -> pl.Expr:
    return pl.col(name).map_elements(lambda value: f"{value:.3g}", return_dtype=pl.String)


def _inequality_table(inequality: pl.DataFrame) -> Table:
    diverged = ~(pl.col("left").abs() < _HUGE)
    rows = (
        inequality.group_by("problem", "multiple", "n", "M", "S", maintain_order=True)
        .agg(
            left=pl.col("left").mean(),
            right=pl.col("right").mean(),
            loops=pl.len(),
            violated=pl.col("violated").sum(),
            weaker=pl.col("paper_violated").sum(),
        )
        .select(
            "problem",
            pl.col("multiple").alias("η / theory's"),
            "n",
            "M",
            "S",
            *(
                pl.when(diverged).then(pl.lit("diverged")).otherwise(_three_digits(side)).alias(f"{side} side")
                for side in ("left", "right")
            ),
            pl.when(diverged).then(pl.lit("–")).otherwise(pl.format("{} of {}", "violated", "loops")).alias("violated"),
            pl.when(diverged)
            .then(pl.lit("–"))
            .otherwise(pl.format("{} of {}", "weaker", "loops"))
            .alias("paper's weaker bound violated"),
        )
    )
    note = (
        "Left: mean squared gradient over an outer loop; right: 2/(η(M + 1)) times the decrease of F; means over "
        "replications and outer loops. Violated: beyond sampling error, corrected for the rows at the theory's η. "
        f"Diverged: the squared gradient has grown beyond {_HUGE:,.0f}, where the inequality says nothing."
    )
    return Table("theorem-1-inequality", "Is the inequality violated?", rows, note)


def _queries_table(queries: pl.DataFrame) -> Table:
    keys = ["problem", "n", "M", "step", "relative"]
    means = queries.group_by(*keys, "estimator", maintain_order=True).agg(
        queries=pl.col("queries").log().mean().exp(), missed=(~pl.col("reached")).sum(), eta=pl.col("eta").first()
    )
    text = pl.format(
        "{} (η {}, {} missed)", pl.col("queries").round(0).cast(pl.Int64), pl.col("eta").round_sig_figs(2), "missed"
    )
    wide = means.with_columns(text.alias("text")).pivot("estimator", index=keys, values="text", maintain_order=True)
    named = {name: _NAMES[name] for name in _STYLES if name in wide.columns}
    return Table(
        "theorem-1-queries-by-size",
        "Queries to reach ε (geometric mean), their step size, and how many replications missed it",
        wide.rename({**named, "relative": "ε / start", "step": "step size"}),
    )


def _growth_table(growth: pl.DataFrame) -> Table:
    columns = ["problem", "relative", "eta", "loop_length", "queries", "root_length_by_epsilon", "exponent"]
    rows = growth.select(pl.col(name).round_sig_figs(3) if growth[name].dtype.is_float() else name for name in columns)
    return Table(
        "theorem-1-growth",
        "The loop length that the proof asks for",
        rows.rename(
            {
                "relative": "ε / start",
                "loop_length": "M",
                "root_length_by_epsilon": "√M/ε",
                "exponent": "exponent of 1/ε",
            }
        ),
        "M solves M + 1 = 4 B_max/(ηε) at the largest step size allowed for that M.",
    )


def _bounds(outcomes: Outcomes, readings: Sequence[str]) -> pl.DataFrame:
    frames = {each: of_both_runs(outcomes, each, "bounds").rename({"trajectory": "run"}) for each in readings}
    return pl.concat([rows.with_columns(pl.lit(each).alias("readings")) for each, rows in frames.items()])


def _bounds_table(bounds: pl.DataFrame) -> Table:
    rows = (
        bounds.group_by("readings", "run", "step")
        .agg(
            pl.col("eta").first(),
            pl.col("bound").median().round_sig_figs(3).alias("bound (median)"),
            pl.col("satisfied").mean().alias("share"),
        )
        .sort("readings", "run", "step")
        .with_columns(pl.format("{} %", (100 * pl.col("share")).round(0).cast(pl.Int64)).alias("η within the bound"))
        .drop("share")
    )
    note = (
        "At snapshots of MountainCar's runs, with the curvature at θ itself; ReLU is not smooth, so that the true "
        "bound can only be smaller."
    )
    return Table("theorem-1-bound", "Does the paper's own η satisfy the bound?", rows, note)


def _eta_sentence(bounds: pl.DataFrame, readings: str) -> str:
    mine = bounds.filter(readings=readings)
    return (
        f"The paper's η of {float(mine['eta'][0]):g} satisfies the bound at "
        f"{100 * np.mean(mine['satisfied'].to_numpy()):.0f} % of {mine.height} snapshots of MountainCar "
        f"(readings {readings}), where the bound's median is {np.median(mine['bound'].to_numpy()):.3g}."
    )


EXPERIMENT = Experiment(
    name="theorem-1",
    place=70,
    title="Theorem 1",
    paper_says=(
        "Within an outer loop, SRG-DQN attains an ε-optimal point with Ω(√M/ε) queries at η ≤ 2/(√μ(√(4M+1)+1)), "
        "lower than SVRG's Õ(M + M^(2/3)/ε)."
    ),
    cells=cells,
    show=show,
    budget_seconds=60,
)
