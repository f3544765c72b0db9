"""A report made of random numbers, with all that a real one has: axes, groups, bands, gaps and odd letters."""

import numpy as np
import polars as pl

from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.paper.report.contents import Aside, ClaimCard, FirstScreen, Part, Report, Section, Table
from srgdqn.paper.report.first_screen import Difference, Score, counts_of, forest_chart, score_table
from srgdqn.results.statistics import Interval

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


SETS = ("corrected", "printed", "mnih")


def synthetic_first_screen(cards: tuple[ClaimCard, ...]) -> FirstScreen:
    """A first screen like a real one: three tasks, three sets of readings, an arm that diverges."""
    columns = ("random policy", "SGD", "same updates, no reduction", "SVR-DQN", "SRG-DQN", "best control")
    means = {
        "MountainCar": (0.311, 0.280, 0.298, 0.314, 0.318, 0.352),
        "Pendulum": (-5.73, -7.55, -1.74, -1.65, -3.51, -1.02),
        "CartPole": (6.4, 4.0, 5.9, 6.3, 6.2, 41.7),
    }
    shares = {"Pendulum": (None, 0, 0, 0.0075, 0.4475, 0), "CartPole": (None, 0, 0.87, 0.98, 0.95, 0)}
    controls = ("dqn-adam", "dqn-gd-adam", "dqn-adam-repeated")
    scores = {
        task: {
            column: Score(mean, share, control if column == "best control" else "")
            for column, mean, share in zip(columns, row, shares.get(task, (None, *[0] * 5)), strict=True)
        }
        for (task, row), control in zip(means.items(), controls, strict=True)
    }
    generator = np.random.default_rng(1)
    sizes = {"MountainCar": 0.02, "Pendulum": 1.0, "CartPole": 2.0}
    differences = []
    for task, size in sizes.items():
        for against in ("SGD", "same updates", "SVR-DQN", "best control"):
            for reading in SETS:
                middle, half = generator.normal(scale=size), size * generator.uniform(0.3, 0.9)
                unit = "return per episode" if task == "CartPole" else "reward per action"
                interval = Interval(middle, middle - half, middle + half)
                differences.append(Difference(task, unit, reading, against, interval))
    return FirstScreen(
        claim="Recursive gradients reduce the variance of deep Q-learning's gradients, so that SRG-DQN learns faster, "
        "better and more steadily than SVR-DQN and DQN with SGD.",
        counts=counts_of(cards),
        question="Variance reduction, or merely 17 updates per batch?",
        answer=(
            "Mostly the updates: beside the same updates along plain gradients, SRG's reduction adds 0.020 reward per "
            "action on MountainCar and costs 1.8 on Pendulum, where 45 % of its rounds diverge.",
            "With the target network and the clipped errors of the DQN that the paper adopts no round diverges, and it "
            "adds 0.61 on Pendulum.",
            "On MountainCar and CartPole none of the paper's four algorithms does much better than the random policy.",
        ),
        table=score_table(
            "first-scores",
            "Final score with the readings corrected (rounds that diverged)",
            scores,
            {"MountainCar": 3, "Pendulum": 2, "CartPole": 1},
            "Reward per action; on CartPole return per episode.",
        ),
        forest=forest_chart(
            "first-contrasts",
            "SRG-DQN beside the others",
            "To the right of 0 SRG-DQN is better. Intervals of 95 % over rounds.",
            differences,
        ),
        forest_table=Table(
            "first-differences", "The same as a table", pl.DataFrame({"task": ["Pendulum"], "corrected": ["+1"]}), "So."
        ),
        counts_note="In 2 verdicts nobody beats the random policy.",
        more_tables=(
            score_table(
                "first-scores-mnih", "Final score with the readings mnih", scores, dict.fromkeys(scores, 2), "So."
            ),
        ),
        asides=(Aside("And if every step is Adam's?", ("It pays on two tasks.", "Not on the third."), "variance"),),
    )


PARTS = (
    Part("reward", "for the claim", "+0.09 reward per action [+0.05, +0.12]"),
    Part("steadiness", "against it", "0.38 times as steady [0.29, 0.46]"),
)


def synthetic_cards() -> tuple[ClaimCard, ...]:
    """Eighteen claims: one with marks, notes and several contrasts, one for a single set, one that is moot,
    one with parts, others.
    """
    cards = [
        ClaimCard(
            "C1",
            "SRG-DQN reaches a higher score than DQN on all three tasks.",
            "Figure 2",
            "figure-2",
            {"corrected": "holds", "printed": "fails", "mnih": "moot"},
            {"corrected": ("small", "below random"), "mnih": ("below random",)},
            {
                "corrected": (
                    "final reward over svr-dqn: +0.0204 reward per action [+0.0121, +0.0283]",
                    "steadiness beside svr-dqn: 1.02 times as steady [0.961, 1.11]",
                    "final reward over dqn-sgd: +0.037 reward per action [+0.023, +0.051]",
                ),
                "printed": ("final reward over svr-dqn: -0.05 reward per action [-0.12, -0.01]",),
                "mnih": ("none of its arms has learned",),
            },
            ("Depends on the target's period.", "Was undecided in the last release: divergence was rewarded then."),
        ),
        ClaimCard(
            "C2 (at their own θ)",
            "Its gradients vary less.",
            "Section 4",
            "variance",
            {"corrected": "undecided"},
            {},
            {"corrected": ("0.99 times as close [0.82, 1.21]",)},
        ),
    ]
    cycle = ("fails", "undecided", "holds", "fails", "fails", "undecided", "moot")
    for number in range(3, 19):
        verdicts = {reading: cycle[(number * (2 + place) + place) % 7] for place, reading in enumerate(SETS)}
        cards.append(
            ClaimCard(
                f"C{number}",
                "On MountainCar SRG-DQN has the highest average reward and lower variance.",
                "Figure 2, left",
                "figure-2",
                verdicts,  # type: ignore[arg-type]
                {},
                dict.fromkeys(SETS, ("final reward: +0.02 [+0.01, +0.03]", "steadiness: 1.1 [0.9, 1.3]", "speed: 2")),
                parts={"corrected": PARTS} if number == 18 else {},
            )
        )
    return tuple(cards)


def synthetic_report(*, preview: bool = True, curves: Chart | None = None) -> Report:
    """A first screen, eighteen cards, three sections, three charts, a table."""
    table = pl.DataFrame(
        {"algorithm": list(LABELS), "score": [0.1, 0.22, None, 0.4, 0.5], "interval": ["[0.0, 0.2]"] * 5},
    )
    cards = synthetic_cards()
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
        title="Do recursive gradients help deep Q-learning?",
        first=synthetic_first_screen(cards),
        cards=cards,
        rules="Decided by seeds 100 to 119; rules 1a2b3c.",
        glossary={"round": "One run of training with its own seed.", "moot": "Nothing was left to compare."},
        sections=sections,
        facts={"version": "0.1.0", "seeds": "100–119", "machine": "two cores"},
        configurations={
            "MountainCar-srg-dqn": '[task]\ntask = "MountainCar"\n' + "note = " + repr("long " * 60) + "\n"
        },
        preview=preview,
    )
