"""Figure 2 with the controls that the paper does not have: is it variance reduction, or merely 17 updates per batch?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.config.algorithms import ALGORITHMS, PAPER
from srgdqn.figures.charts import Chart
from srgdqn.paper.arm_columns import WORST, share_text
from srgdqn.paper.cells import StudyCell
from srgdqn.paper.equal_cost import COSTS_NOTE, cost_rows
from srgdqn.paper.experiment import Experiment, Outcomes, interval_text, mean_text
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.scores import Scores, floor_of, values_of
from srgdqn.paper.studies import figure_2
from srgdqn.paper.studies.figure_2 import TASKS, cell_name, task_scores
from srgdqn.paper.studies.training_time import seconds_per_step, timed, times_cells
from srgdqn.results.statistics import log_sd_ratio_interval, paired_bootstrap_difference

CHAMPION = "srg-dqn"
_MOST_LISTED = 6


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """The controls of each task, beside Figure 2's own cells."""
    own = [cell for task, names in scale.controls.items() for cell in figure_2.task_cells(scale, readings, task, names)]
    return [*figure_2.cells(scale, readings), *own, *times_cells(scale, readings, timed(scale))]


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """All algorithms; contrasts of SRG-DQN with each."""
    present = [each for each in readings if _controls(outcomes, each)]
    names = tuple(name for name in ALGORITHMS if any(name in (*PAPER, *_controls(outcomes, each)) for each in present))
    chart = Chart(
        "figure-2-controls",
        "Average reward with all controls",
        "As Figure 2, with every control. Each algorithm can be switched on and off, and shown against gradient "
        f"queries (by their formula) and a round's share of the wall clock. {figure_2.ALL_ROUNDS} Against costs a "
        "curve ends where no round is left. Some controls have dashes of their own, which shorten where fewer than "
        "four fifths of their rounds are left. Grey: the random policy, and the untrained agent. "
        f"{figure_2.left_text(outcomes, present[0], names)}",
        figure_2.merged([figure_2.panels(outcomes, each, names, band="none") for each in present]),
    )
    interaction = interaction_table(outcomes, present)
    return EXPERIMENT.section(
        found=_found(outcomes, present[0], names),
        charts=(chart,),
        tables=(
            contrast_table(outcomes, present, names),
            cost_table(outcomes, present, names),
            *([interaction] if interaction.frame.height else []),
            figure_2.score_table(outcomes, present, names, "controls-scores"),
        ),
    )


def contrast_table(outcomes: Outcomes, readings: Sequence[str], algorithms: Sequence[str]) -> Table:
    """SRG-DQN against every other algorithm on every task, paired by round."""
    rows = []
    for task in TASKS:
        for each in readings:
            found = task_scores(outcomes, task, each)
            champion = found[CHAMPION]
            for name in (name for name in algorithms if name != CHAMPION and name in found):
                other = found[name]
                rows.append(
                    {
                        "task": task,
                        "readings": each,
                        "against": name,
                        "SRG-DQN": f"{champion.values.mean():.3f}",
                        "the other": f"{other.values.mean():.3f}",
                        "difference [95 %]": _difference_text(champion, other),
                        **_finished_in_both(champion, other),
                        "SRG-DQN diverged": share_text(int(champion.diverged.sum()), len(champion.diverged)),
                        "the other diverged": share_text(int(other.diverged.sum()), len(other.diverged)),
                    }
                )
    note = (
        "Differences of final scores above 0 are in favour of SRG-DQN, log ratios of standard deviations over rounds "
        f"below 0. Percentile bootstrap over rounds, not corrected for their number. {WORST} Beside the difference of "
        "all rounds stands that of the rounds that finished in both, whose standard deviations are compared as well. "
        "Diverged: rounds, and the share's 95 % interval."
    )
    return Table("controls-contrasts", "SRG-DQN against every other algorithm.", pl.DataFrame(rows), note)


def _difference_text(ours: Scores, theirs: Scores) -> str:
    if min(ours.share, theirs.share) > 0.5:
        return "not compared: most rounds of both diverged"
    return interval_text(paired_bootstrap_difference(ours.values, theirs.values))


def _finished_in_both(ours: Scores, theirs: Scores) -> dict[str, str]:
    both = ~(ours.diverged | theirs.diverged)
    names = "finished in both: difference [95 %]", "log sd ratio [95 %]"
    if both.sum() < 2:
        return dict.fromkeys(names, f"{both.sum() or 'no'} round finished in both")
    pair = ours.values[both], theirs.values[both]
    intervals = paired_bootstrap_difference(*pair), log_sd_ratio_interval(*pair)
    return dict(zip(names, map(interval_text, intervals), strict=True))


def cost_table(outcomes: Outcomes, readings: Sequence[str], algorithms: Sequence[str]) -> Table:
    """What every algorithm comes to after as many steps, queries and seconds as SRG-DQN spends."""
    rows = []
    for task in TASKS:
        for each in readings:
            runs = figure_2.task_runs(outcomes, task, each)
            floor = floor_of({name: values_of(run, "final").means for name, run in runs.items()})
            costs = {name: seconds_per_step(outcomes, each, task, name) for name in algorithms if name in runs}
            mine = cost_rows({name: runs[name] for name in costs}, costs, CHAMPION, floor)
            rows += [{"task": task, "readings": each, **row} for row in mine]
    title = "At equal steps, gradient queries and seconds"
    return Table("controls-costs", title, pl.DataFrame(rows), f"{COSTS_NOTE} {WORST}")


def interaction_table(outcomes: Outcomes, readings: Sequence[str]) -> Table:
    """What the Adam process and variance reduction add alone and together: the factorial of Algorithm 1's skeleton."""
    rows = []
    factorial = ("sgd-inner", "sgd-inner-adam", "srg-dqn-no-adam", CHAMPION)
    for task in TASKS:
        for each in readings:
            if any(cell_name(task, each, name) not in outcomes for name in factorial):
                continue
            found = task_scores(outcomes, task, each)
            neither, adam, reduction, both = (found[name].values for name in factorial)
            effects = {
                "Adam alone": adam - neither,
                "variance reduction alone": reduction - neither,
                "both": both - neither,
                "interaction": both - adam - reduction + neither,
            }
            lost = [found[name].diverged for name in factorial]
            # As a contrast of two arms says nothing if most rounds of both diverged.
            told = min(np.mean(each) for each in lost) <= 0.5
            rows.append(
                {"task": task, "readings": each, "neither": f"{neither.mean():.3f}"}
                | {
                    name: mean_text(values) if told else "most rounds of all diverged"
                    for name, values in effects.items()
                }
                | {"diverged": share_text(int(np.sum(lost)), np.size(lost))}
            )
    note = (
        "Differences of final scores from plain gradients in the same skeleton without the Adam process (sgd-inner), "
        "with 95 % intervals. Interaction above 0: together they add more than the sum of each alone. Diverged: of all "
        f"four algorithms' rounds, and the share's 95 % interval. {WORST}"
    )
    return Table("controls-interaction", "Do the Adam process and variance reduction add up?", pl.DataFrame(rows), note)


def _controls(outcomes: Outcomes, readings: str, task: str = "MountainCar") -> list[str]:
    return [name for name in ALGORITHMS if name not in PAPER and cell_name(task, readings, name) in outcomes]


def _found(outcomes: Outcomes, readings: str, algorithms: Sequence[str]) -> str:
    sentences = []
    for task in TASKS:
        scores = task_scores(outcomes, task, readings)
        champion = scores[CHAMPION]
        others = [name for name in algorithms if name != CHAMPION and name in scores]
        # Of two arms most of whose rounds diverged nothing is said.
        told = [name for name in others if min(champion.share, scores[name].share) <= 0.5]
        found = {name: paired_bootstrap_difference(champion.values, scores[name].values) for name in told}
        behind = [name for name, interval in found.items() if interval.high < 0]
        ahead = [name for name, interval in found.items() if interval.low > 0]
        rest = [name for name in others if name not in told]
        even = [name for name in told if name not in (*ahead, *behind)]
        parts = [
            f"{what} {_listed(names, len(others))}"
            for what, names in (("ahead of", ahead), ("behind", behind), ("not clearly apart from", even))
            if names
        ]
        apart = f" Most of its rounds diverge, as do those of {_listed(rest, len(others))}." if rest else ""
        where = f" SRG-DQN is {'; '.join(parts)}." if parts else ""
        sentences.append(f"{task}:{where}{apart}")
    return "\n\n".join([*sentences, "Ahead, behind: differences of final scores at 95 %, not corrected."])


def _listed(names: Sequence[str], of: int) -> str:
    """The names, or how many there are if they are more than a reader would read."""
    return ", ".join(names) if len(names) <= _MOST_LISTED else f"{len(names)} of the {of} others"


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
    budget_seconds=110,
)
