"""Figure 1: SVR-DQN without the Adam process, with its own anchors and with exact ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.config import Configuration
from srgdqn.figures.charts import BLUE, GREEN, ORANGE, Chart, Panel, Series, Style
from srgdqn.figures.charts import STYLES as CHART_STYLES
from srgdqn.figures.learning_panels import ScoredRounds, scored_series
from srgdqn.paper.arm_columns import share_text
from srgdqn.paper.cells import MeasurementCell, StudyCell
from srgdqn.paper.experiment import RANDOM, YARDSTICKS, Experiment, Outcomes, configured, mean_text
from srgdqn.paper.measurements import exact_anchors
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.scores import filled_windows, matrix_of

_EVALUATIONS = 20  # over the budget
_EPISODES = 10  # of one evaluation
_LANES = 5  # anchors over all transitions are so much work per lane that spare lanes would cost more than they save

STYLES = {"ordinary": Style(GREEN), "exact": Style(BLUE), "oracle": Style(ORANGE, "--")}
_DIVERGED = (
    "A round that has diverged counts, at every evaluation from then on, with the worst there of any round that "
    "finished, or with the random policy where that is worse."
)
_MEANING = {
    "ordinary": "SVR-DQN",
    "exact": "SVR-DQN with exact anchors (same batches)",
    "oracle": "acting for itself with the oracle's anchors",
}


def cell_name(readings: str) -> str:
    """The name of the cell."""
    return f"exact-anchors-{readings}"


def configuration_of(scale: Scale, readings: str) -> Configuration:
    """Of all arms."""
    return configured(
        scale,
        "MountainCar",
        "svr-dqn-no-adam",
        readings,
        rounds=scale.exact_rounds,
        steps=scale.exact_steps,
        lanes=min(_LANES, scale.exact_rounds),
        evaluation_interval=scale.exact_steps // _EVALUATIONS,
        evaluation_episodes=_EPISODES,
    )


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """The three arms as one cell, as the second and third need the first's recording; and the yardsticks."""
    plan = exact_anchors.Plan(configuration_of(scale, readings))
    return [
        MeasurementCell(cell_name(readings), exact_anchors.measure, plan),
        MeasurementCell(_yardsticks_name(readings), exact_anchors.measure_yardsticks, plan),
    ]


def _yardsticks_name(readings: str) -> str:
    return f"exact-yardsticks-{readings}"


def yardsticks(outcomes: Outcomes, readings: str) -> dict[str, float]:
    """The mean reward per action of what does not learn, in the arms' own evaluations."""
    means = outcomes[_yardsticks_name(readings)].tables["yardsticks"].group_by("arm").agg(pl.col("reward").mean())
    return dict(means.iter_rows())


def evaluation_steps(outcomes: Outcomes, readings: str) -> np.ndarray:
    """The steps at which rounds that did not diverge were evaluated: the last evaluation of others is at one of their
    own. Where all diverged in every arm, one step stands for all.
    """
    tables = outcomes[cell_name(readings)].tables
    whole = tables["rounds"].filter(~pl.col("diverged")).select("arm", "round")
    steps = tables["evaluations"].join(whole, on=["arm", "round"], how="semi")["step"]
    return np.sort(steps.unique().to_numpy()) if len(steps) else np.zeros(1, int)


def scored_rounds(outcomes: Outcomes, readings: str, chance: float) -> dict[str, ScoredRounds]:
    """By arm: each round's mean reward per action at every evaluation. A round that has diverged by then has the worst
    there of any round that finished in some arm, or the random policy's (`chance`) where that is worse.
    """
    tables, steps = outcomes[cell_name(readings)].tables, evaluation_steps(outcomes, readings)
    last = dict(tables["evaluations"].group_by("arm", "round").agg(pl.col("step").max()).rows_by_key(("arm", "round")))
    values, diverged = {RANDOM: np.full((1, len(steps)), chance)}, {RANDOM: np.zeros(1, bool)}
    for arm in exact_anchors.ARMS:
        rounds = tables["rounds"].filter(pl.col("arm") == arm).sort("round")
        rows = tables["evaluations"].filter(pl.col("arm") == arm)
        values[arm] = matrix_of(rows, "step", "reward", rounds["round"], steps)
        diverged[arm] = rounds["diverged"].to_numpy()
        for row, number in enumerate(rounds["round"].to_list()):
            if diverged[arm][row]:
                # Its last evaluation is where it diverged; one whose recording ended earlier cannot be replayed on.
                ends = [step for each in (arm, "ordinary") for (step,) in last.get((each, number), [])]
                values[arm][row, steps >= min(ends, default=0)] = np.nan
    filled = filled_windows(values, diverged, among=exact_anchors.ARMS)
    return {arm: ScoredRounds(values[arm], diverged[arm], filled[arm]) for arm in exact_anchors.ARMS}


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """Evaluation curves of the three arms, and what does not learn as grey lines."""
    series, rows = [], []
    for each in readings:
        steps, still = evaluation_steps(outcomes, each), yardsticks(outcomes, each)
        for name in YARDSTICKS:
            level = np.full(len(steps), still[name])
            series.append(Series(name, CHART_STYLES[name], {"steps": steps}, level, group=each))
        arms = scored_rounds(outcomes, each, still[RANDOM])
        whole = ~np.any([rounds.diverged for rounds in arms.values()], axis=0)
        for arm, rounds in arms.items():
            series += scored_series(_MEANING[arm], STYLES[arm], {"steps": steps}, rounds, group=each)
            last = rounds.filled[:, -max(1, len(steps) // 5) :].mean(1)
            rows.append(
                {
                    "readings": each,
                    "arm": _MEANING[arm],
                    "area [95 %]": mean_text(rounds.filled.mean(1), ".3f"),
                    "last 20 % [95 %]": mean_text(last, ".3f"),
                    "S": _spread_text(rounds.values[whole]),
                    "diverged": share_text(int(rounds.diverged.sum()), len(rounds.diverged)),
                }
            )
    panel = Panel("MountainCar", "reward per action", {"steps": "environment steps"}, tuple(series))
    table = pl.DataFrame(rows)
    means = {row["arm"]: row["last 20 % [95 %]"] for row in rows if row["readings"] == readings[0]}
    return EXPERIMENT.section(
        found=(
            f"{scale.exact_rounds} rounds of {scale.exact_steps:,} steps, of which the paper gives neither. Reward per "
            f"action over the last fifth, readings {readings[0]}: "
            + "; ".join(f"{arm} {value}" for arm, value in means.items())
            + ". With an anchor over all transitions a direction hardly depends on the batch, so that the arm that is "
            "served another's batches and the one that draws its own may agree in every digit shown. The random policy "
            f"has {yardsticks(outcomes, readings[0])[RANDOM]:.3f}."
        ),
        charts=(
            Chart(
                "figure-1",
                "SVR-DQN without the Adam process, with its own and with exact anchors",
                f"Mean over all rounds and one standard deviation. {_DIVERGED} All arms are evaluated by the same "
                f"separate greedy roll-outs ({_EPISODES} episodes of at most 1,000 steps from the same starts), as the "
                "arm that replays a recording does not live on what it does itself.",
                (panel,),
                columns=1,
            ),
        ),
        tables=(
            Table(
                "figure-1-arms",
                "The three arms",
                table,
                "Area: mean over all evaluations. S, by which steadiness is judged: the standard deviation over the "
                f"rounds that finished in all arms, averaged over the last fifth of the evaluations. {_DIVERGED} "
                "Diverged: rounds, and the share's 95 % interval; a round that diverged in the recorded run cannot be "
                "replayed, and counts in every arm.",
            ),
        ),
    )


def _spread_text(values: np.ndarray) -> str:
    """The mean of the standard deviations over rounds at the last fifth of the evaluations."""
    last = values[:, -max(1, values.shape[1] // 5) :]
    return f"{last.std(0, ddof=1).mean():.3f}" if len(last) > 1 else "–"


EXPERIMENT = Experiment(
    name="figure-1",
    place=10,
    title="Figure 1: exact anchors",
    paper_says=(
        "Compared with SVR-DQN, SVR-DQN with exact anchors (over all transitions of a recorded run) converged faster, "
        "better, and with lower variance: inaccurate anchors hurt the power of SVRG."
    ),
    cells=cells,
    show=show,
    budget_seconds=80,
)
