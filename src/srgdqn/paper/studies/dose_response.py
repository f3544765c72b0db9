"""Dose and response: does a more accurate estimate of the gradient go with a higher reward?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.figures.charts import BLACK, BLUE, GREEN, ORANGE, Chart, Panel, Series, Style
from srgdqn.paper.arm_columns import share_text
from srgdqn.paper.cells import MeasurementCell, StudyCell
from srgdqn.paper.experiment import LAST_SHARE, RANDOM, Experiment, Outcomes, measured_arm
from srgdqn.paper.measurements import dose_response
from srgdqn.paper.pilot import read_pilot
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import Scale
from srgdqn.paper.scores import floor_of

Dose = tuple[float, int]
"""The coefficient c, and b."""

_MOMENTS = 4
_WORST = (
    "A diverged round scores the worst round that finished with any dose, or the random policy's mean where that is "
    "worse."
)
_STYLES = {1: Style(ORANGE), 4: Style(GREEN), 16: Style(BLUE), 64: Style(BLACK)}


def cell_name(readings: str, dose: Dose) -> str:
    """The name of the cell of a dose."""
    return f"dose-c{dose[0]:g}-b{dose[1]}-{readings}"


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """A cell per dose: the coefficient c of the recursion, and the b transitions of an inner iteration."""
    moments = np.linspace(scale.dose_steps / _MOMENTS, scale.dose_steps, _MOMENTS).astype(int)
    listed = []
    for coefficient, batch in scale.doses:
        dose = {"coefficient": coefficient, "inner_batch": batch}
        configuration = measured_arm(scale, "srg-dqn", readings, scale.dose_rounds, scale.dose_steps, **dose)
        plan = dose_response.Plan(configuration, tuple(int(max(step, 1_100)) for step in moments))
        listed.append(MeasurementCell(cell_name(readings, (coefficient, batch)), dose_response.measure, plan))
    return listed


def doses(outcomes: Outcomes, readings: str) -> list[Dose]:
    """The doses that were given."""
    plans = [outcomes[name].about["plan"] for name in outcomes if name.startswith("dose-") and name.endswith(readings)]
    settings = [plan["configuration"]["estimator"] for plan in plans]
    return sorted((each["coefficient"], each["inner_batch"]) for each in settings)


def measured(outcomes: Outcomes, readings: str, random_score: float) -> tuple[np.ndarray, np.ndarray]:
    """(doses, rounds): the log of the mean estimator error, and the final reward per action.

    A round that diverged scores as the random policy, as in the released verdicts; its error is the mean of its dose's
    others.
    """
    errors, rewards = [], []
    for dose in doses(outcomes, readings):
        tables = outcomes[cell_name(readings, dose)].tables
        rounds = tables["rounds"].sort("round")
        last = tables["curves"].filter(pl.col("step") > (1 - LAST_SHARE) * pl.col("step").max().over("round"))
        frame = (
            rounds.join(last.group_by("round").agg(pl.col("reward").mean()), on="round", how="left")
            .join(
                tables["errors"].group_by("round").agg(pl.col("error").mean()).cast({"round": pl.Int32}),
                on="round",
                how="left",
            )
            .sort("round")
        )
        diverged = frame["diverged"].to_numpy()
        rewards.append(np.where(diverged, random_score, frame["reward"].to_numpy()))
        error = np.log(frame["error"].to_numpy().astype(float))
        errors.append(np.where(diverged, error[~diverged].mean() if not diverged.all() else np.nan, error))
    return np.array(errors), np.array(rewards)


def response(errors: np.ndarray, rewards: np.ndarray) -> float:
    """How much more reward the regression on the log error gives the most accurate dose than the least accurate one.

    Doses are the points: means over rounds. A dose of which every round diverged has no error and is left out.
    """
    x, y = errors.mean(1), rewards.mean(1)
    there = np.isfinite(x)
    if there.sum() < 2 or np.ptp(x[there]) == 0:
        return float("nan")
    slope = np.polyfit(x[there], y[there], 1)[0]
    return float(-slope * np.ptp(x[there]))


def scored(outcomes: Outcomes, readings: str, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """As `measured`, but a round that diverged scores the worst round that finished with any dose, or the random
    policy's mean (`chance`) where that is worse.
    """
    errors, rewards = measured(outcomes, readings, np.nan)
    named = {str(place): mine for place, mine in enumerate(rewards)}
    floor = floor_of({**named, RANDOM: np.array([chance])}, among=tuple(named))
    return errors, np.where(np.isnan(rewards), floor, rewards)


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """Reward against error, a point per dose."""
    chance = read_pilot().random["MountainCar"]
    series, rows, found, lost = [], [], [], 0
    for each in readings:
        given = doses(outcomes, each)
        errors, rewards = scored(outcomes, each, chance)
        for batch, style in _STYLES.items():
            chosen = [index for index, dose in enumerate(given) if dose[1] == batch]
            if not chosen:
                continue
            y, spread = rewards[chosen].mean(1), rewards[chosen].std(1, ddof=1)
            half = 1.96 * spread / np.sqrt(rewards.shape[1])
            x = {"error": np.exp(errors[chosen].mean(1))}
            series.append(Series(f"b = {batch}", style, x, y, y - half, y + half, kind="points", group=each))
        for index, (coefficient, batch) in enumerate(given):
            diverged = outcomes[cell_name(each, (coefficient, batch))].tables["rounds"]["diverged"].to_numpy()
            lost += int(diverged.sum())
            error = np.exp(errors[index].mean())
            rows.append(
                {
                    "readings": each,
                    "c": coefficient,
                    "b": batch,
                    "estimator error": f"{error:.4f}" if np.isfinite(error) else "no round left",
                    "reward per action": f"{rewards[index].mean():.4f}",
                    "diverged": share_text(int(diverged.sum()), len(diverged)),
                }
            )
        found.append(f"{each} {response(errors, rewards):+.4f}")
    panel = Panel(
        "SRG-DQN on MountainCar",
        "reward per action, last 20 %",
        {"error": "mean ‖Δ_m − exact gradient‖"},
        tuple(series),
        log_x=True,
    )
    return EXPERIMENT.section(
        found=(
            f"{scale.dose_rounds} rounds of {scale.dose_steps:,} steps. Reward that the regression gives the most "
            f"accurate dose above the least accurate one, by readings: {'; '.join(found)}."
        ),
        charts=(
            Chart(
                "dose-response",
                "Reward against the estimator's error",
                "A point per dose: coefficient c in 0, ½, 1 and b in 1, 4, 16, 64 transitions per inner iteration; "
                f"bars are 95 % intervals of the mean over rounds. {lost} of {len(rows) * scale.dose_rounds:,} rounds "
                f"diverged. {_WORST}",
                (panel,),
                columns=1,
            ),
        ),
        tables=(
            Table(
                "dose-response-doses",
                "Doses",
                pl.DataFrame(rows),
                f"{_WORST} Diverged: rounds, and the share's 95 % interval.",
            ),
        ),
    )


EXPERIMENT = Experiment(
    name="dose-response",
    place=100,
    title="Dose and response",
    paper_says="The recursive anchors' being closer to the exact ones is another reason why SRG-DQN performs better.",
    cells=cells,
    show=show,
    budget_seconds=180,
)
