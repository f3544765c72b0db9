"""Figure 2 with the controls that the paper does not have: is it variance reduction, or merely 17 updates per batch?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from srgdqn.config.algorithms import ALGORITHMS, PAPER
from srgdqn.figures.charts import Chart
from srgdqn.paper.cells import StudyCell
from srgdqn.paper.experiment import Experiment, Outcomes, diverged_rounds, interval_text, mean_text
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.studies import figure_2
from srgdqn.paper.studies.figure_2 import TASKS, cell_name, scores
from srgdqn.results.statistics import log_sd_ratio_interval, paired_bootstrap_difference

CHAMPION = "srg-dqn"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """The controls of each task, beside Figure 2's own cells."""
    own = [cell for task, names in scale.controls.items() for cell in figure_2.task_cells(scale, readings, task, names)]
    return [*figure_2.cells(scale, readings), *own]


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """All algorithms; contrasts of SRG-DQN with each."""
    present = [each for each in readings if _controls(outcomes, each)]
    names = tuple(name for name in ALGORITHMS if any(name in (*PAPER, *_controls(outcomes, each)) for each in present))
    chart = Chart(
        "figure-2-controls",
        "Average reward with all controls",
        "As Figure 2, with every control. Each algorithm can be switched on and off, and shown against gradient "
        "queries (by their formula) and a round's share of the wall clock.",
        figure_2.merged([figure_2.panels(outcomes, each, names, band="none") for each in present]),
    )
    interaction = interaction_table(outcomes, present)
    return EXPERIMENT.section(
        found=_found(outcomes, present[0], names),
        charts=(chart,),
        tables=(
            contrast_table(outcomes, present, names),
            *([interaction] if interaction.frame.height else []),
            figure_2.score_table(outcomes, present, names, "controls-scores"),
        ),
    )


def contrast_table(outcomes: Outcomes, readings: Sequence[str], algorithms: Sequence[str]) -> Table:
    """SRG-DQN against every other algorithm on every task, paired by round."""
    rows = []
    for task in TASKS:
        for each in readings:
            champion = scores(outcomes, task, each, CHAMPION)
            for name in algorithms:
                if name == CHAMPION or cell_name(task, each, name) not in outcomes:
                    continue
                other = scores(outcomes, task, each, name)
                rows.append(
                    {
                        "task": task,
                        "readings": each,
                        "against": name,
                        "SRG-DQN": f"{champion.mean():.3f}",
                        "it": f"{other.mean():.3f}",
                        "difference [95 %]": interval_text(paired_bootstrap_difference(champion, other)),
                        "log sd ratio [95 %]": interval_text(log_sd_ratio_interval(champion, other)),
                        "diverged": " and ".join(
                            f"{diverged_rounds(outcomes[cell_name(task, each, arm)])}" for arm in (CHAMPION, name)
                        ),
                    }
                )
    note = (
        "Differences of final scores above 0 are in favour of SRG-DQN, log ratios of standard deviations over rounds "
        "below 0. Percentile bootstrap over rounds, not corrected for their number. Diverged: of SRG-DQN's and of its "
        "rounds; they score as the random policy."
    )
    return Table("controls-contrasts", "SRG-DQN against every other algorithm.", pl.DataFrame(rows), note)


def interaction_table(outcomes: Outcomes, readings: Sequence[str]) -> Table:
    """What the Adam process and variance reduction add alone and together: the factorial of Algorithm 1's skeleton."""
    rows = []
    factorial = ("sgd-inner", "sgd-inner-adam", "srg-dqn-no-adam", CHAMPION)
    for task in TASKS:
        for each in readings:
            if any(cell_name(task, each, name) not in outcomes for name in factorial):
                continue
            neither, adam, reduction, both = (scores(outcomes, task, each, name) for name in factorial)
            effects = {
                "Adam alone": adam - neither,
                "variance reduction alone": reduction - neither,
                "both": both - neither,
                "interaction": both - adam - reduction + neither,
            }
            intervals = {name: mean_text(values) for name, values in effects.items()}
            lost = sum(diverged_rounds(outcomes[cell_name(task, each, name)]) for name in factorial)
            rows.append(
                {"task": task, "readings": each, "neither": f"{neither.mean():.3f}", **intervals}
                | {"diverged": f"{lost} of {4 * len(neither)}"}
            )
    note = (
        "Differences of final scores from plain gradients in the same skeleton without the Adam process (sgd-inner), "
        "with 95 % intervals. Interaction above 0: together they add more than the sum of each alone. Diverged: of all "
        "four algorithms' rounds; they score as the random policy."
    )
    return Table("controls-interaction", "Do the Adam process and variance reduction add up?", pl.DataFrame(rows), note)


def _controls(outcomes: Outcomes, readings: str, task: str = "MountainCar") -> list[str]:
    return [name for name in ALGORITHMS if name not in PAPER and cell_name(task, readings, name) in outcomes]


def _found(outcomes: Outcomes, readings: str, algorithms: Sequence[str]) -> str:
    sentences = []
    for task in TASKS:
        others = [name for name in algorithms if name != CHAMPION and cell_name(task, readings, name) in outcomes]
        champion = scores(outcomes, task, readings, CHAMPION)
        found = {name: paired_bootstrap_difference(champion, scores(outcomes, task, readings, name)) for name in others}
        behind = [name for name, interval in found.items() if interval.high < 0]
        ahead = [name for name, interval in found.items() if interval.low > 0]
        sentences.append(
            f"{task}: SRG-DQN is ahead of {_listed(ahead)} and behind {_listed(behind)} (95 %, not corrected)."
        )
    return " ".join(sentences)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


EXPERIMENT = Experiment(
    name="controls",
    place=30,
    title="Figure 2 with all controls",
    paper_says=(
        "Nothing: SRG-DQN makes M + 2 = 18 parameter updates per batch where DQN with SGD makes one, and no algorithm "
        "in the paper makes as many updates without variance reduction."
    ),
    cells=cells,
    show=show,
    budget_seconds=420,
)
