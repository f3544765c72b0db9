"""The claims, the contrasts that each comes down to, and the verdicts on them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from srgdqn.paper.claims.rules import (
    Contrast,
    Judgement,
    beyond,
    higher,
    known,
    level_for,
    not_worse,
    positive,
    resampled,
    shorter,
    steadier,
    verdict_on,
)
from srgdqn.paper.experiment import Outcomes, first_half_scores
from srgdqn.paper.pilot import Pilot
from srgdqn.paper.studies import (
    anatomy,
    dose_response,
    figure_1,
    figure_2,
    figure_3_left,
    figure_3_right,
    table_2,
    theorem_1,
)
from srgdqn.paper.studies.figure_2 import scores
from srgdqn.paper.studies.training_time import seconds_to_threshold

OURS = "srg-dqn"
OTHERS = ("svr-dqn", "dqn-sgd", "srg-dqn-no-adam")

_REASON = 0.05  # the share of an error that something must have to be a reason for it

Contrasts = Callable[[Outcomes, str, Pilot], Sequence[Contrast]]
"""From outcomes, a set of readings and the pilot to what must be above 0."""


@dataclass(frozen=True)
class Claim:
    """What the paper claims, where, and what must be above 0 for it to hold."""

    name: str
    statement: str
    where: str
    section: str
    """The experiment that shows it."""
    contrasts: Contrasts


CLAIMS: list[Claim] = []


def judge(
    outcomes: Outcomes,
    readings: str,
    pilot: Pilot,
    *,
    only: Sequence[str] | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> list[Judgement]:
    """The verdicts for one set of readings; `only` judges some claims, with the correction for these alone."""
    pending = {
        claim.name: claim.contrasts(outcomes, readings, pilot) for claim in CLAIMS if only is None or claim.name in only
    }
    count = sum(map(len, pending.values()))
    judgements, done = [], 0
    for name, contrasts in pending.items():
        measured = []
        for contrast in contrasts:
            measured.append(contrast.measured(level_for(count)))
            done += 1
            report(done / count)
        judgements.append(Judgement(name, verdict_on(measured), tuple(measured)))
    return judgements


def _claim(name: str, statement: str, where: str, section: str) -> Callable[[Contrasts], Contrasts]:
    """Lists a function as the contrasts of a claim."""

    def listed(contrasts: Contrasts) -> Contrasts:
        CLAIMS.append(Claim(name, statement, where, section, contrasts))
        return contrasts

    return listed


def _ahead_and_steadier(outcomes: Outcomes, readings: str, task: str, pilot: Pilot) -> list[Contrast]:
    ours = scores(outcomes, task, readings, OURS)
    found: list[Contrast] = []
    for name in OTHERS:
        theirs = scores(outcomes, task, readings, name)
        found.append(higher(f"final reward over {name}", ours, theirs, pilot.margins[task]))
        found.append(steadier(f"steadiness beside {name}", ours, theirs))
    return found


@_claim(
    "C1",
    "Exact anchors make SVR-DQN (without Adam) converge faster, better and with less variance.",
    "Figure 1",
    "figure-1",
)
def _c1(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    margin, chance = pilot.margins["MountainCar"], pilot.random["MountainCar"]
    exact, ordinary = (figure_1.evaluation_matrix(outcomes, readings, arm, chance) for arm in ("exact", "ordinary"))
    tail = max(1, exact.shape[1] // 5)
    ends = exact[:, -tail:].mean(1), ordinary[:, -tail:].mean(1)
    return [
        higher("area under the evaluation curve", exact.mean(1), ordinary.mean(1), margin),
        higher("mean of the last 20 %", *ends, margin),
        steadier("steadiness over rounds", *ends),
    ]


@_claim("C2", "On MountainCar SRG-DQN has the highest average reward and lower variance.", "Figure 2, left", "figure-2")
def _c2(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    return _ahead_and_steadier(outcomes, readings, "MountainCar", pilot)


@_claim("C3", "On Pendulum SRG-DQN is the fastest and best, with less variance.", "Figure 2, middle", "figure-2")
def _c3(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    task = "Pendulum"
    chance = figure_2.random_score(outcomes, task, readings)

    def early(algorithm: str) -> np.ndarray:
        return first_half_scores(outcomes[figure_2.cell_name(task, readings, algorithm)], chance)

    ours = early(OURS)
    faster = [higher(f"first-half area over {name}", ours, early(name), pilot.margins[task]) for name in OTHERS]
    return [*_ahead_and_steadier(outcomes, readings, task, pilot), *faster]


@_claim(
    "C4", "On CartPole SRG-DQN has an excellent reward and significantly less variance.", "Figure 2, right", "figure-2"
)
def _c4(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    task = "CartPole"
    ours = scores(outcomes, task, readings, OURS)
    # Where most rounds diverge, scores like the random policy's are steady and not worse than each other.
    found = [beyond("return over the pilot's threshold", ours, pilot.thresholds[task], pilot.margins[task])]
    for name in OTHERS:
        theirs = scores(outcomes, task, readings, name)
        found.append(not_worse(f"return not below that of {name} by δ", ours, theirs, pilot.margins[task]))
        found.append(steadier(f"steadiness beside {name}", ours, theirs))
    return found


def _c5(task: str, outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    found: list[Contrast] = []
    for what, name in (("the Adam process", "srg-dqn-no-adam"), ("variance reduction", "sgd-inner-adam")):
        mine = [scores(outcomes, task, readings, each) for each in (OURS, name)]
        found.append(higher(f"reward that {what} adds", mine[0], mine[1], pilot.margins[task]))
        if task == figure_3_left.TASK:
            lengths = [figure_3_left.lengths(outcomes, readings, each) for each in (OURS, name)]
            found.append(shorter(f"how much {what} shortens episodes", lengths[0], lengths[1]))
    return found


for _letter, _task in zip("abc", figure_2.TASKS, strict=True):
    _claim(
        f"C5{_letter}",
        f"The Adam process and variance reduction complement each other ({_task}).",
        "Figures 2 and 3, left" if _task == figure_3_left.TASK else "Figure 2",
        "controls",
    )(functools.partial(_c5, _task))


@_claim("C6", "On MountainCar SRG-DQN has the shortest and most stable episodes.", "Figure 3, left", "figure-3-left")
def _c6(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    ours = figure_3_left.lengths(outcomes, readings, OURS)
    found: list[Contrast] = []
    for name in OTHERS:
        theirs = figure_3_left.lengths(outcomes, readings, name)
        found += [
            shorter(f"shorter episodes than {name}", ours, theirs),
            steadier(f"steadiness beside {name}", ours, theirs),
        ]
    return found


def _c7(definition: str, outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    ratios = figure_3_right.log_ratios(outcomes, readings, definition)
    return [positive("−mean log(d_SRG / d_SVR)", -ratios)]


for _letter, (_definition, _meaning) in zip("abc", figure_3_right.DEFINITIONS.items(), strict=True):
    _statement = f"Recursive anchors lie closer to the exact ones ({_meaning})."
    _claim(f"C7{_letter}", _statement, "Figure 3, right", "figure-3-right")(functools.partial(_c7, _definition))


def _c8(definition: str, outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    spreads = table_2.Spreads(outcomes, readings)
    mine = [scores(outcomes, "MountainCar", readings, name) for name in (OURS, "svr-dqn")]
    return [
        resampled("−mean log(S_SRG / S_SVR)", len(spreads.rounds), lambda picks: -spreads.log_ratio(definition, picks)),
        not_worse("reward not below SVR-DQN's by δ", mine[0], mine[1], pilot.margins["MountainCar"]),
    ]


for _letter, (_definition, _meaning) in zip("abc", table_2.DEFINITIONS.items(), strict=True):
    _statement = f"SRG-DQN's gradient has a lower standard deviation than SVR-DQN's ({_meaning})."
    _claim(f"C8{_letter}", _statement, "Table 2", "table-2")(functools.partial(_c8, _definition))


@_claim("C9", "SRG needs of the order of √M/ε gradient queries, fewer than SVRG.", "Theorem 1", "theorem-1")
def _c9(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    tables = outcomes[theorem_1.CELL].tables
    found: list[Contrast] = []
    for problem in theorem_1.PROBLEMS:
        least = theorem_1.least_slack(tables["inequality"], problem)
        found.append(known(f"the inequality's least slack, {problem}", least))
    for problem in theorem_1.PROBLEMS:
        for step in ("theory", "tuned"):
            label = f"log(queries SVRG / SRG), {problem}, {step} η"
            found.append(positive(label, theorem_1.log_query_ratios(outcomes, problem, step)))
    return found


@_claim("C10", "SRG-DQN needs less training time.", "introduction", "training-time")
def _c10(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    found = []
    for task in figure_2.TASKS:
        threshold = pilot.thresholds[task]
        ours, we_did = seconds_to_threshold(outcomes, readings, task, OURS, threshold)
        for name in ("dqn-sgd", "svr-dqn"):
            theirs, they_did = seconds_to_threshold(outcomes, readings, task, name, threshold)
            either = we_did | they_did  # where neither is ever there, nothing is compared
            ratios = np.log(theirs[either] / ours[either])
            found.append(positive(f"log(seconds {name} / SRG-DQN), {task}", ratios))
    return found


@_claim(
    "C11",
    "Anchors are inaccurate because of unseen transitions and of the policy's drift.",
    "problem analysis",
    "anatomy",
)
def _c11(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    return [
        beyond(
            f"share of {what} in the three parts together, beyond {_REASON:.0%}",
            anatomy.shares(outcomes, readings, reason),
            _REASON,
            _REASON,
        )
        for reason, what in (("unseen", "unseen transitions"), ("drift", "the policy's drift"))
    ]


@_claim("C12", "More accurate anchors are why SRG-DQN performs better.", "experimental analysis", "dose-response")
def _c12(outcomes: Outcomes, readings: str, pilot: Pilot) -> Sequence[Contrast]:
    errors, rewards = dose_response.measured(outcomes, readings, pilot.random["MountainCar"])

    def gain(picks: np.ndarray | None) -> float:
        chosen = slice(None) if picks is None else picks
        return dose_response.response(errors[:, chosen], rewards[:, chosen])

    label = "reward of the most over the least accurate dose"
    return [resampled(label, errors.shape[1], gain, pilot.margins["MountainCar"])]
