"""A report made of random numbers, with all that a real one has: axes, groups, bands, gaps and odd letters."""

import numpy as np
import polars as pl

from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.paper.report.contents import ClaimRow, Report, Section, Table

LABELS = ("dqn-sgd", "svr-dqn", "srg-dqn-no-adam", "srg-dqn", "dqn-adam")
AXES = {"steps": "environment steps", "queries": "gradient queries", "seconds": "training seconds per round"}
TASKS = ("MountainCar", "CartPole", "Pendulum")


def curves_chart(name: str = "figure-2", *, points: int = 40, labels: tuple[str, ...] = LABELS) -> Chart:
    """Three panels of curves in two sets of readings, of which the second starts hidden; one also against episodes."""
    generator = np.random.default_rng(0)
    panels = []
    for task in TASKS:
        axes = {"episodes": "episodes", **AXES} if task == "CartPole" else AXES
        series = []
        for group in ("corrected", "printed"):
            for place, label in enumerate(labels):
                steps = np.arange(1, points + 1) * 1_000.0
                y = np.cumsum(generator.normal(size=points)) / 7
                low, high = y - generator.uniform(0.1, 0.3, points), y + generator.uniform(0.1, 0.3, points)
                if place == 1:  # too few rounds are left in the end, and none at one point
                    low[-6:] = high[-6:] = y[12] = low[12] = high[12] = np.nan
                x = {"steps": steps, "queries": steps * (6 + place), "seconds": steps / 700 * (1 + place / 3)}
                x |= {"episodes": np.arange(1.0, points + 1)} if "episodes" in axes else {}
                bands = {} if place == 0 else {"low": low, "high": high}
                shown = group == "corrected" and label != "dqn-adam"
                series.append(Series(label, STYLES[label], x, y, **bands, group=group, shown=shown))
        panels.append(Panel(task, "reward per action\n(windows of 1,000 steps)", axes, tuple(series)))
    caption = "Mean over 20 rounds and one standard deviation to either side; DQN without its band."
    return Chart(name, "Learning curves", caption, tuple(panels))


def points_chart() -> Chart:
    """Points with error bars in categories."""
    series = tuple(
        Series(
            label,
            STYLES[label],
            {"task": np.arange(3.0)},
            np.array([0.5, 0.7, 0.2]) + place / 10,
            low=np.array([0.4, 0.6, 0.1]) + place / 10,
            high=np.array([0.65, 0.9, 0.3]) + place / 10,
            kind="points",
        )
        for place, label in enumerate(LABELS[:3])
    )
    panel = Panel("", "score", {"task": "task"}, series, categories=TASKS)
    return Chart("scores", "Scores at the end", "Means and their 95 % intervals.", (panel,))


def costs_chart() -> Chart:
    """Points in categories beside points and a line, along logarithmic axes."""
    costs = tuple(
        Series(
            label,
            STYLES[label],
            {"task": np.arange(3.0)},
            np.array([10.0, 200.0, 3_000.0]) * (1 + place),
            kind="points",
        )
        for place, label in enumerate(LABELS[:2])
    )
    left = Panel("Queries", "gradient queries", {"task": "task"}, costs, log_y=True, categories=TASKS)
    sizes = np.array([16.0, 64.0, 256.0, 1_024.0])
    norms = Series(
        "dqn-sgd", STYLES["dqn-sgd"], {"size": sizes}, 1 / sizes, kind="points", low=0.5 / sizes, high=2 / sizes
    )
    law = Series("1/n", STYLES["random"], {"size": sizes}, 1 / sizes)
    right = Panel("Variance & <size>", "variance", {"size": "batch size n"}, (norms, law), log_x=True, log_y=True)
    return Chart(
        "costs", "What it costs", "Queries to the first success; variance of a gradient.", (left, right), columns=2
    )


def synthetic_report(*, preview: bool = True, curves: Chart | None = None) -> Report:
    """Three sections, three charts, a table, verdicts for two sets of readings."""
    table = pl.DataFrame(
        {"algorithm": list(LABELS), "score": [0.1, 0.22, None, 0.4, 0.5], "interval": ["[0.0, 0.2]"] * 5},
    )
    claims = (
        ClaimRow(
            "C1",
            "SRG-DQN reaches a higher score than DQN on all three tasks.",
            "Figure 2",
            {"corrected": "holds", "printed": "fails"},
            {"corrected": "+0.21 [+0.10, +0.33]", "printed": "−0.05 [−0.12, −0.01]"},
            "figure-2",
        ),
        ClaimRow(
            "C2 (at their own θ)",
            "Its gradients vary less.",
            "Section 4",
            {"corrected": "undecided"},
            {"corrected": "log ratio −0.01 [−0.20, +0.19]"},
            "variance",
        ),
    )
    sections = (
        Section(
            "figure-2",
            "Figure 2: learning curves",
            "SRG-DQN learns faster than SVR-DQN and DQN.",
            "It does on one task of three.\n\nOn the others nothing can be told.",
            charts=(curves or curves_chart(), points_chart()),
            tables=(Table("table-2", "Scores & intervals", table, "Over the same rounds."),),
            seconds=754.0,
            budget_seconds=1_200.0,
        ),
        Section("variance", "Variance", "It is smaller.", "It is not.", charts=(costs_chart(),), seconds=90.0),
        Section("text", "What needs no figure", "Section 3 has a misprint.", "It has: θ < ϑ is meant."),
    )
    return Report(
        "Do recursive gradients help deep Q-learning?",
        "Does SRG-DQN learn faster than DQN?",
        "On one task of three, by 0.21 of the score.",
        claims,
        "Decided by seeds 100 to 119; rules 1a2b3c.",
        sections,
        {"version": "0.1.0", "seeds": "100–119", "machine": "two cores"},
        {"MountainCar-srg-dqn": '[task]\ntask = "MountainCar"\n' + "note = " + repr("long " * 60) + "\n"},
        preview=preview,
    )
