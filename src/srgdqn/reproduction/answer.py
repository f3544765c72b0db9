"""The answer on page one: is it variance reduction, or merely 17 updates per batch?"""

from __future__ import annotations

from srgdqn.statistics import Interval, paired_bootstrap_difference
from srgdqn.studies.controls import CHAMPION, interval_text
from srgdqn.studies.experiment import Outcomes
from srgdqn.studies.figure_2 import TASKS, cell_name, random_score, scores
from srgdqn.studies.scores import diverged_rounds

QUESTION = "Variance reduction, or merely 17 updates per batch?"

_SAME_UPDATES = "sgd-inner-adam"
_ONE_UPDATE = "dqn-sgd"


def answer_from(outcomes: Outcomes, readings: str) -> str:
    """A few sentences on every task, made from the figures."""
    sentences = [
        "The control sgd-inner-adam makes the same updates as SRG-DQN, on the same picks and with the same Adam "
        "process, along plain gradients: what separates the two is variance reduction alone. Intervals here are of "
        "95 % each."
    ]
    for task in TASKS:
        ours = scores(outcomes, task, readings, CHAMPION)
        reduction = paired_bootstrap_difference(ours, scores(outcomes, task, readings, _SAME_UPDATES))
        updates = paired_bootstrap_difference(
            scores(outcomes, task, readings, _SAME_UPDATES), scores(outcomes, task, readings, _ONE_UPDATE)
        )
        lost = diverged_rounds(outcomes[cell_name(task, readings, CHAMPION)])
        sentences.append(
            f"On {task} (random policy {random_score(outcomes, task, readings):.3f}, SRG-DQN {ours.mean():.3f}, {lost} "
            f"of {len(ours)} rounds diverged) making more updates per batch, with Adam, {_effect(updates)}; variance "
            f"reduction {_effect(reduction)}."
        )
    return " ".join(sentences)


def _effect(interval: Interval) -> str:
    if interval.low > 0:
        return f"gives {interval_text(interval)}"
    if interval.high < 0:
        return f"takes away {interval_text(Interval(-interval.estimate, -interval.high, -interval.low))}"
    return f"makes no difference that can be told ({interval_text(interval)})"
