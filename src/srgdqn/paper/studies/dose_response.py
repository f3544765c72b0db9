"""Dose and response: does a more accurate estimate of the gradient go with a higher reward?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from srgdqn.figures.charts import BLACK, BLUE, GREEN, ORANGE, STYLES, Chart, Panel, Series, Style
from srgdqn.paper.arm_columns import share_text
from srgdqn.paper.cells import MeasurementCell, RunCell, StudyCell
from srgdqn.paper.claims.cases import Dose, Doses, dose_name
from srgdqn.paper.experiment import RANDOM, YARDSTICKS, Experiment, Outcomes, configured, measured_arm
from srgdqn.paper.measurements import dose_errors
from srgdqn.paper.measurements.dose_errors import errors_of
from srgdqn.paper.report.contents import Section, Table
from srgdqn.paper.scale import CONFIRMATION, Scale
from srgdqn.paper.scores import Scores, Values, scored, values_of
from srgdqn.results.statistics import bootstrap_interval

_ERROR_ROUNDS, _ERROR_MOMENTS = 20, 6  # of the runs on which the errors of doses are measured
_MOST_B = 16  # the largest b that the claim is judged by; b = N is shown only
_WORST = (
    "A diverged round scores the worst round that finished with any dose, or the random policy's mean where that is "
    "worse."
)
_STYLES = {1: Style(ORANGE), 4: Style(GREEN), 16: Style(BLUE), 64: Style(BLACK)}


def cell_name(readings: str, dose: Dose) -> str:
    """The name of the cell of a dose."""
    return f"dose-c{dose[0]:g}-b{dose[1]}-{readings}"


def errors_name(readings: str) -> str:
    """The name of the cell with the errors of all doses."""
    return f"dose-errors-{readings}"


def dose_cells(scale: Scale, readings: str) -> list[StudyCell]:
    """A run of every dose, and the errors of all from the same θ_0 and D."""
    listed: list[StudyCell] = [
        _run(scale, readings, cell_name(readings, (c, b)), "srg-dqn", coefficient=c, inner_batch=b)
        for c, b in scale.doses
    ]
    recorded = measured_arm(scale, "sgd-inner-adam", readings, min(_ERROR_ROUNDS, scale.dose_rounds), scale.dose_steps)
    steps = np.linspace(scale.dose_steps / _ERROR_MOMENTS, scale.dose_steps, _ERROR_MOMENTS).astype(int)
    plan = dose_errors.Plan(recorded, tuple(int(max(step, 1_100)) for step in steps), tuple(scale.doses))
    return [*listed, MeasurementCell(errors_name(readings), dose_errors.measure, plan)]


def cells(scale: Scale, readings: str) -> Sequence[StudyCell]:
    """The doses, and both yardsticks over the same budget."""
    return [
        *dose_cells(scale, readings),
        *(_run(scale, readings, _yardstick_name(readings, name), name) for name in YARDSTICKS),
    ]


def _yardstick_name(readings: str, yardstick: str) -> str:
    return f"dose-{yardstick}-{readings}"


def _run(scale: Scale, readings: str, name: str, arm: str, **dose: float) -> RunCell:
    budget = {"rounds": scale.dose_rounds, "steps": scale.dose_steps, "evaluation_interval": None}
    return RunCell(name, configured(scale, "MountainCar", arm, readings, **dose, **budget))


def doses_of(outcomes: Outcomes, readings: str, most_b: int = _MOST_B) -> Doses:
    """The doses' rewards and errors, as far as b goes; by default those that the claim is judged by."""
    errors = errors_of(outcomes[errors_name(readings)].tables["errors"])
    rewards: dict[Dose, Values] = {
        dose: values_of(outcomes[cell_name(readings, dose)], "final") for dose in errors if dose[1] <= most_b
    }
    return Doses(rewards, {dose: errors[dose] for dose in rewards})


def dose_scores(outcomes: Outcomes, readings: str, rewards: dict[Dose, Values]) -> dict[Dose | str, Scores]:
    """The scores of all doses and of both yardsticks."""
    arms = {dose_name(dose): each for dose, each in rewards.items()}
    still = {name: values_of(outcomes[_yardstick_name(readings, name)], "final") for name in YARDSTICKS}
    found = scored(arms | still, among=tuple(arms))
    return {dose: found[dose_name(dose)] for dose in rewards} | {name: found[name] for name in YARDSTICKS}


def response(errors: np.ndarray, rewards: np.ndarray) -> float:
    """How much more reward a straight line over the log error gives the most accurate dose than the least accurate one.

    One value per dose.
    """
    x = np.log(errors)
    if len(x) < 2 or np.ptp(x) == 0:
        return float("nan")
    return float(-np.polyfit(x, rewards, 1)[0] * np.ptp(x))


def show(scale: Scale, readings: Sequence[str], outcomes: Outcomes) -> Section:
    """Reward against error, a point per dose."""
    series, rows, found, lost = [], [], [], 0
    for each in readings:
        rewards, errors = doses_of(outcomes, each, most_b=max(b for _, b in scale.doses))
        scores = dose_scores(outcomes, each, dict(rewards))
        for b in dict.fromkeys(b for _, b in errors):
            chosen = sorted((dose for dose in errors if dose[1] == b), key=lambda dose: errors[dose])
            bounds = [bootstrap_interval(scores[dose].values) for dose in chosen]
            estimates, lows, highs = (np.array([getattr(one, key) for one in bounds]) for key in _BOUNDS)
            x = {"error": np.array([errors[dose] for dose in chosen])}
            series.append(Series(f"b = {b}", _STYLES[b], x, estimates, lows, highs, kind="points", group=each))
        ends = np.array([min(errors.values()), max(errors.values())])
        for name in YARDSTICKS:
            level = np.full(2, scores[name].values.mean())
            series.append(Series(name, STYLES[name], {"error": ends}, level, group=each))
        for (c, b), error in errors.items():
            mine = scores[c, b]
            lost += int(mine.diverged.sum())
            rows.append(
                {
                    "readings": each,
                    "c": c,
                    "b": b,
                    "error of the direction": f"{error:.3g}",
                    "reward per action": f"{mine.values.mean():.4f}",
                    "diverged": share_text(int(mine.diverged.sum()), len(mine.diverged)),
                }
            )
        means = np.array([scores[dose].values.mean() for dose in errors])
        chance = scores[RANDOM].values.mean()
        found.append(
            f"{each} {response(np.array(list(errors.values())), means):+.3f} (best dose {means.max():.3f}, random "
            f"policy {chance:.3f})"
        )
    panel = Panel(
        "SRG-DQN on MountainCar",
        "reward per action, last 20 %",
        {"error": "‖Δ_m − ∇F_D(θ_m)‖² / ‖∇F_D(θ_m)‖²"},
        tuple(series),
        log_x=True,
    )
    return EXPERIMENT.section(
        found=(
            f"{scale.dose_rounds} rounds of {scale.dose_steps:,} steps. Reward that a straight line gives the most "
            f"accurate dose above the least accurate one, by readings: {'; '.join(found)}. That is too little to "
            f"decide: claim C12 is judged on {CONFIRMATION.dose_rounds} rounds of {CONFIRMATION.dose_steps:,} steps."
        ),
        charts=(
            Chart(
                "dose-response",
                "Reward against the estimator's error",
                "A point per dose: coefficient c in 0, ½, 1 and b in 1, 4, 16, 64 transitions per inner iteration; "
                "errors are measured for all doses from the same θ_0 and D; bars are 95 % intervals of the mean over "
                f"rounds. {lost} of {len(rows) * scale.dose_rounds:,} rounds diverged. {_WORST}",
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


_BOUNDS = ("estimate", "low", "high")

EXPERIMENT = Experiment(
    name="dose-response",
    place=100,
    title="Dose and response",
    paper_says="The recursive anchors' being closer to the exact ones is another reason why SRG-DQN performs better.",
    cells=cells,
    show=show,
    budget_seconds=60,
)
