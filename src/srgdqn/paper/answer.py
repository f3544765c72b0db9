"""The answer on page one: is it variance reduction, or merely 17 updates per batch?"""

from __future__ import annotations

from srgdqn.paper.experiment import Outcomes, diverged_rounds
from srgdqn.paper.studies.controls import CHAMPION, interval_text
from srgdqn.paper.studies.figure_2 import TASKS, cell_name, random_score, scores
from srgdqn.results.statistics import Interval, paired_bootstrap_difference

QUESTION = "Variance reduction, or merely 17 updates per batch?"

_SAME_UPDATES = "sgd-inner-adam"
_ONE_UPDATE = "dqn-sgd"
_OTHER = "svr-dqn"


def answer_from(outcomes: Outcomes, readings: str) -> str:
    """A conclusion for every task, then the numbers behind it."""
    reductions = {task: _reduction(outcomes, task, readings) for task in TASKS}
    first = "; ".join(f"on {task} {_conclusion(outcomes, task, readings, found)}" for task, found in reductions.items())
    sentences = [
        f"Beyond the updates themselves, SRG's variance reduction: {first}.",
        f"The control {_SAME_UPDATES} makes the same updates as SRG-DQN, on the same picks and with the same Adam "
        "process, along plain gradients; SVR-DQN makes them along SVRG's. A round that diverged scores as the random "
        "policy. Intervals are of 95 % each.",
    ]
    for task, found in reductions.items():
        arms = ", ".join(
            f"{name} {scores(outcomes, task, readings, name).mean():.3f} ({_lost(outcomes, task, readings, name)})"
            for name in (_ONE_UPDATE, _SAME_UPDATES, _OTHER, CHAMPION)
        )
        updates = _difference(outcomes, task, readings, _SAME_UPDATES, _ONE_UPDATE)
        other = _difference(outcomes, task, readings, _OTHER, _SAME_UPDATES)
        sentences.append(
            f"{task} (the random policy scores {random_score(outcomes, task, readings):.3f}): {arms}. More updates and "
            f"the Adam process, beside {_ONE_UPDATE}: {interval_text(updates)}; beyond them SVRG's variance reduction: "
            f"{interval_text(other)}, SRG's: {interval_text(found)}."
        )
    return " ".join(sentences)


def _reduction(outcomes: Outcomes, task: str, readings: str) -> Interval:
    return _difference(outcomes, task, readings, CHAMPION, _SAME_UPDATES)


def _difference(outcomes: Outcomes, task: str, readings: str, one: str, other: str) -> Interval:
    return paired_bootstrap_difference(scores(outcomes, task, readings, one), scores(outcomes, task, readings, other))


def _lost(outcomes: Outcomes, task: str, readings: str, name: str) -> str:
    result = outcomes[cell_name(task, readings, name)]
    return f"{diverged_rounds(result)} of {result.rounds.height} diverged"


def _conclusion(outcomes: Outcomes, task: str, readings: str, interval: Interval) -> str:
    for name in (CHAMPION, _SAME_UPDATES):
        result = outcomes[cell_name(task, readings, name)]
        if diverged_rounds(result) > result.rounds.height / 2:
            return f"it cannot be told, as most rounds of {name} diverge"
    if interval.low > 0:
        return "it gives more reward"
    if interval.high < 0:
        return "it gives less reward"
    return "it makes no difference that can be told"
