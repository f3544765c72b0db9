"""What every claim was judged by: its arms, whether they have learned, how many rounds diverged, and its contrasts over
the rounds that finished in both arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from srgdqn.paper.arm_columns import share_text
from srgdqn.paper.claims.cases import NO_ADAM, OTHERS, OURS, SGD, SVR, Gathered, dose_name, filled_up
from srgdqn.paper.claims.verdicts import REWARDS as UNITS
from srgdqn.paper.claims.verdicts import Judgement, difference, measure, seed_of
from srgdqn.paper.experiment import interval_text
from srgdqn.paper.scale import Scale
from srgdqn.paper.scores import Scores, floor_of, scored
from srgdqn.results.statistics import Interval, bootstrap_interval

_RESAMPLES = 10_000
_TASKS = {"C2": "MountainCar", "C3": "Pendulum", "C4": "CartPole", "C5a": "MountainCar", "C5b": "Pendulum"}
_TASKS |= {"C5c": "CartPole"}


class Shown(NamedTuple):
    """What is said of an arm of a claim."""

    what: str
    scores: Scores
    beside: str = ""


def arm_rows(found: Gathered, judgements: Sequence[Judgement], readings: str) -> list[dict[str, Any]]:
    """A row per claim about performance and arm."""
    rows = []
    for judgement in judgements:
        arms = _arms(found, judgement.name)
        for arm, learned in (judgement.learned or {}).items():
            shown = arms[arm]
            lost = shown.scores.diverged
            rows.append(
                {
                    "claim": judgement.name,
                    "readings": readings,
                    "arm": arm,
                    "what": shown.what,
                    "mean [95 %]": interval_text(bootstrap_interval(shown.scores.values), ".4g"),
                    "diverged": share_text(int(lost.sum()), len(lost)),
                    "has learned": _yes(learned),
                    "beats the random policy": _yes(judgement.beats_random[arm]),
                    "beside": shown.beside,
                }
            )
    return rows


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _arms(found: Gathered, name: str) -> dict[str, Shown]:
    """By arm, as the claim's judgement names them."""
    if name == "C1" and found.exact is not None:
        filled = filled_up(found.exact)
        lost = {arm: np.isnan(values).any(1) for arm, values in found.exact.values.items()}
        last = max(1, filled["exact"].shape[1] // 5)
        what = "reward per action, last 20 %"
        return {arm: Shown(what, Scores(values[:, -last:].mean(1), lost[arm])) for arm, values in filled.items()}
    if name in _TASKS:
        what = "return" if _TASKS[name] == "CartPole" else "reward per action"
        return {arm: Shown(what, scores) for arm, scores in scored(found.final[_TASKS[name]]).items()}
    if name == "C6":
        lengths = scored(found.lengths, max)
        return {
            arm: Shown("length", scores, f"{found.cut[arm]:.0%} of the episodes were cut")
            for arm, scores in lengths.items()
        }
    if name == "C10":
        return {
            f"{task}: {arm}": Shown(
                "milliseconds",
                Scores(1e3 * each.seconds, each.diverged),
                f"{share_text(int(each.reached.sum()), len(each.reached))} reached the threshold",
            )
            for task, arms in found.reaching.items()
            for arm, each in arms.items()
        }
    if name == "C12" and found.doses is not None:
        return {
            dose_name(dose): Shown("reward per action", scores, f"error {found.doses.errors[dose]:.3g}")
            for dose, scores in _doses(found).items()
        }
    return {}


def _doses(found: Gathered) -> dict[tuple[float, int], Scores]:
    assert found.doses is not None
    floor = floor_of({name: arm.means for name, arm in found.final["MountainCar"].items()})
    return {
        dose: Scores(np.where(arm.diverged, floor, arm.means), arm.diverged)
        for dose, arm in found.doses.rewards.items()
    }


def measurement_rows(found: Gathered, readings: str, scale: Scale) -> list[dict[str, Any]]:
    """A row per run that claims about gradients were measured on: how many of its rounds diverged."""
    measured = {}
    if found.distances is not None:
        measured["C7, C11"] = (found.distances.diverged, scale.anchor_rounds)
    if found.spreads is not None:
        measured["C8"] = (found.spreads.diverged, scale.spread_rounds)
    return [
        {"claims": claims, "readings": readings, "run": run, "diverged": share_text(round(share * rounds), rounds)}
        for claims, (shares, rounds) in measured.items()
        for run, share in shares.items()
    ]


def anchor_rows(tables: Mapping[str, pl.DataFrame], readings: str) -> list[dict[str, Any]]:
    """By step: the error that the exact anchors of C1 have because they are computed on a sample of the recording."""
    found = []
    for (step,), mine in tables["anchors"].sort("step").group_by("step", maintain_order=True):
        low, median, high = np.quantile(mine["error"].to_numpy(), (0.05, 0.5, 0.95))
        found.append(
            {
                "readings": readings,
                "step": int(step),
                "median": f"{median:.1%}",
                "90 % of rounds": f"{low:.1%} to {high:.1%}",
            }
        )
    return found


def steadiness_rows(found: Gathered, readings: str) -> list[dict[str, Any]]:
    """By arm of C1: the standard deviation over rounds that its steadiness compares."""
    if found.exact is None:
        return []
    values = found.exact.values
    both = ~np.any([np.isnan(each).any(1) for each in values.values()], axis=0)
    return [
        {"readings": readings, "arm": arm, "S": _spread(each[both]), "finished in both": f"{both.sum()} of {len(both)}"}
        for arm, each in values.items()
    ]


def _spread(values: np.ndarray) -> float | None:
    """The mean of the standard deviations over rounds at the last fifth of the evaluations."""
    last = values[:, -max(1, values.shape[1] // 5) :]
    return float(last.std(0, ddof=1).mean()) if len(last) > 1 else None


def survivor_rows(found: Gathered, readings: str) -> list[dict[str, Any]]:
    """Contrasts beside those of final scores, over all rounds and over those that finished in both arms."""
    pairs: list[tuple[str, str, Scores, Scores]] = []
    for task, arms in found.first_half.items():
        early = scored(arms)
        pairs += [("C3", f"first-half reward over {arm}, {task}", early[OURS], early[arm]) for arm in OTHERS]
    if found.lengths:
        lengths = scored(found.lengths, max)
        pairs += [("C6", f"length less that of {arm}", lengths[OURS], lengths[arm]) for arm in (SVR, SGD, NO_ADAM)]
    for task, reaching in found.reaching.items():
        times = {arm: Scores(1e3 * each.seconds, each.diverged) for arm, each in reaching.items()}
        pairs += [("C10", f"milliseconds less those of {arm}, {task}", times[OURS], times[arm]) for arm in (SVR, SGD)]
    if found.doses is not None:
        doses = _doses(found)
        pairs.append(("C12", "reward of c = 1 over c = 0 at b = 1", doses[1.0, 1], doses[0.0, 1]))
    rows = []
    for claim, label, ours, theirs in pairs:
        both = ~(ours.diverged | theirs.diverged)
        apart, seed = ours.values - theirs.values, seed_of(readings, label)
        every, survivors = (interval_text(mean_interval(values, seed), "+.4g") for values in (apart, apart[both]))
        rows.append(
            {
                "claim": claim,
                "readings": readings,
                "contrast": label,
                "all rounds [95 %]": every,
                "finished in both [95 %]": survivors,
                "rounds": len(apart),
                "in both": int(both.sum()),
            }
        )
    return rows


def mean_interval(values: np.ndarray, seed: int) -> Interval:
    """The mean of one value per round and its 95 % interval; NaN of fewer than two rounds."""
    if len(values) < 2:
        return Interval(np.nan, np.nan, np.nan)
    return measure([difference("", values, 0.0, UNITS["MountainCar"])], seed, _RESAMPLES)[0].interval
