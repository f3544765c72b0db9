"""The paper's claims, and what each comes down to by the rules in `verdicts`.

`Gathered` has what was measured for one set of readings, one value per round or window; a function per claim makes a
`Case` of it. Nothing here reads files or runs: `paper.confirmation` gathers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.claims.verdicts import (
    LOG_MARGIN,
    MARGINS,
    MOST_DIVERGED,
    RESAMPLES,
    REWARDS,
    Case,
    Contrast,
    Judgement,
    Measured,
    Unit,
    Windows,
    above,
    arms_above,
    difference,
    higher,
    judge,
    measure,
    not_worse,
    seed_of,
    shorter,
    steadier,
)
from srgdqn.paper.experiment import RANDOM, UNTRAINED
from srgdqn.paper.scores import Scores, Values, floor_of, scored
from srgdqn.results.statistics import Interval

OURS = "srg-dqn"
SVR, SGD, NO_ADAM, SAME_UPDATES = "svr-dqn", "dqn-sgd", "srg-dqn-no-adam", "sgd-inner-adam"
OTHERS = (SVR, SGD, NO_ADAM)
_STEADY = (SVR, NO_ADAM)  # the paper leaves out SGD's band
CLAIMS_OF_A_SET = 17
"""The claims of a set of readings that are tested together: all but C9."""

REASON = 0.05  # the share of an error that something must have to be a reason for it
FEWEST_THERE = 0.2  # of some arm's rounds, that reach a threshold which says something
FEWEST_DOSES = 5  # that a slope is fitted to

_NEARER = Unit("times as close", is_log=True)
_LOWER = Unit("times as low", is_log=True)
_SHORTER = Unit("times as short", is_log=True)
_FASTER = Unit("times as fast", is_log=True)
_FEWER = Unit("times as few queries", is_log=True)
_SHARE = Unit("of the squared error, beyond 5 %")

Arms = Mapping[str, Values]
Dose = tuple[float, int]
"""The recursion's coefficient c, and the b transitions of an inner iteration."""


class Exact(NamedTuple):
    """Figure 1: rewards per action of both arms by evaluation, NaN from when a round has diverged on, and of the
    yardsticks, which do not change.
    """

    values: Mapping[str, np.ndarray]  # `exact` and `ordinary`: (rounds, evaluations)
    random: np.ndarray
    untrained: np.ndarray


class Distances(NamedTuple):
    """Figure 3, right: by definition, the mean of log(SRG's distance / SVRG's) of each round that finished in both."""

    ratios: Mapping[str, np.ndarray]
    diverged: Mapping[str, float]  # the share of rounds, by run


class Spreads(NamedTuple):
    """Table 2, of the rounds that finished in both runs, by algorithm."""

    vectors: Mapping[str, np.ndarray]  # (rounds, steps, elements)
    windows: Mapping[str, np.ndarray]  # (rounds, steps); NaN at steps with fewer than two outer iterations
    frozen: Mapping[str, np.ndarray]  # (runs, rounds, steps)
    diverged: Mapping[str, float]  # the share of rounds, by algorithm


class Theorem(NamedTuple):
    """Theorem 1: settings in which its inequality is violated beyond doubt, and of how many; by problem and step size,
    log(queries of SVRG / queries of SRG) of each replication in which one of them reaches ε.
    """

    violated: int
    settings: int
    ratios: Mapping[tuple[str, str], np.ndarray]


class Reaching(NamedTuple):
    """How long an arm took to a threshold: seconds of each round, and which are there by themselves."""

    seconds: np.ndarray
    reached: np.ndarray
    diverged: np.ndarray


class Doses(NamedTuple):
    """Dose and response: the rewards of each dose, and the error of its directions."""

    rewards: Mapping[Dose, Values]
    errors: Mapping[Dose, float]


@dataclass(frozen=True)
class Gathered:
    """What was measured for one set of readings. What is missing is judged by no claim."""

    final: Mapping[str, Arms] = field(default_factory=dict)
    """By task: the final score's windows or episodes."""
    first_half: Mapping[str, Arms] = field(default_factory=dict)
    lengths: Arms = field(default_factory=dict)
    cut: Mapping[str, float] = field(default_factory=dict)
    """The share of an arm's episodes that were cut at the cap."""
    exact: Exact | None = None
    distances: Distances | None = None
    spreads: Spreads | None = None
    theorem: Theorem | None = None
    reaching: Mapping[str, Mapping[str, Reaching]] = field(default_factory=dict)
    """By task and arm."""
    shares: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The share of each reason in the anchors' squared error, one value per round; `unseen` and `drift`."""
    doses: Doses | None = None


class Judging(NamedTuple):
    """The set of readings that is judged, and how many resamples."""

    readings: str
    resamples: int = RESAMPLES

    def case(self, name: str, contrasts: Sequence[Contrast], **about: object) -> Case:
        """The claim with its contrasts measured."""
        measured = measure(contrasts, seed_of(self.readings, name), self.resamples)
        return Case(name, tuple(measured), **about)  # type: ignore[arg-type]


def judged(
    found: Gathered, readings: str, resamples: int = RESAMPLES, only: Collection[str] | None = None
) -> list[Judgement]:
    """The verdicts on all claims that something was measured for, or on some of them (C5 is all three of its own)."""
    how = Judging(readings, resamples)
    cases = [case for name, make in _CASES.items() if only is None or name in only for case in make(found, how)]
    return judge(cases, {"set": CLAIMS_OF_A_SET})


# Claims about performance


def _learned(how: Judging, name: str, scores: Mapping[str, Scores], arms: Sequence[str]) -> dict[str, dict[str, bool]]:
    """Which arms have learned, and which beat the random policy: they are above the yardsticks."""
    mine = {arm: scores[arm] for arm in arms}
    return {
        what: arms_above(mine, scores[yardstick].values, seed_of(how.readings, name, yardstick), how.resamples)
        for what, yardstick in (("learned", UNTRAINED), ("beats_random", RANDOM))
    }


def _steadiness(
    how: Judging, name: str, arms: Arms, others: Sequence[str], learned: Mapping[str, bool], cut: Mapping[str, float]
) -> list[Contrast]:
    windows = {
        arm: Windows(arms[arm].windows, arms[arm].diverged, learned[arm], cut.get(arm, 0.0)) for arm in (OURS, *others)
    }
    seed = seed_of(how.readings, name, "diverged")
    return [
        steadier(f"steadiness beside {arm}", windows[OURS], windows[arm], seed, resamples=how.resamples)
        for arm in others
    ]


def _c1(found: Gathered, how: Judging) -> list[Case]:
    if found.exact is None:
        return []
    lost = {arm: np.isnan(values).any(1) for arm, values in found.exact.values.items()}
    filled = filled_up(found.exact)
    tail = max(1, filled["exact"].shape[1] // 5)
    whole = {arm: Scores(values.mean(1), lost[arm]) for arm, values in filled.items()}
    last = {arm: Scores(values[:, -tail:].mean(1), lost[arm]) for arm, values in filled.items()}
    yardsticks = {
        name: Scores(values, np.zeros(len(values), bool))
        for name, values in ((RANDOM, found.exact.random), (UNTRAINED, found.exact.untrained))
    }
    about = _learned(how, "C1", {**last, **yardsticks}, ("exact", "ordinary"))
    ours, theirs = (
        Windows(np.where(lost[arm][:, None], np.nan, filled[arm][:, -tail:]), lost[arm], about["learned"][arm])
        for arm in ("exact", "ordinary")
    )
    delta, unit = MARGINS["MountainCar"], REWARDS["MountainCar"]
    contrasts = [
        higher("area under the evaluation curve", whole["exact"], whole["ordinary"], delta, unit, "speed"),
        higher("mean of the last 20 %", last["exact"], last["ordinary"], delta, unit, "reward"),
        steadier(
            "steadiness over rounds", ours, theirs, seed_of(how.readings, "C1", "diverged"), resamples=how.resamples
        ),
    ]
    return [how.case("C1", contrasts, parts=("speed", "reward", "steadiness"), **about)]


def filled_up(exact: Exact) -> dict[str, np.ndarray]:
    """The values of both arms, with what a round scores at each evaluation since it diverged: the worst there among the
    rounds that finished, or the random policy's mean where that is worse.
    """
    finished = np.concatenate([values[~np.isnan(values).any(1)] for values in exact.values.values()])
    chance = float(exact.random.mean())
    floor = np.minimum(finished.min(0), chance) if len(finished) else chance
    return {arm: np.where(np.isnan(values), floor, values) for arm, values in exact.values.items()}


def _figure_2(name: str, task: str, found: Gathered, how: Judging) -> list[Case]:
    """C2 to C4."""
    if task not in found.final:
        return []
    arms, delta, unit = found.final[task], MARGINS[task], REWARDS[task]
    scores = scored(arms)
    about = _learned(how, name, scores, PAPER)
    compare, what = (not_worse, "return not below that of") if name == "C4" else (higher, "final reward over")
    contrasts = [compare(f"{what} {arm}", scores[OURS], scores[arm], delta, unit, "reward") for arm in OTHERS]
    parts = ["reward"]
    if name == "C3":
        early = scored(found.first_half[task])
        contrasts += [
            higher(f"first-half reward over {arm}", early[OURS], early[arm], delta, unit, "speed") for arm in OTHERS
        ]
        parts.append("speed")
    contrasts += _steadiness(how, name, arms, _STEADY, about["learned"], {})
    return [how.case(name, contrasts, parts=(*parts, "steadiness"), **about)]


_C5_TASKS = {"C5a": "MountainCar", "C5b": "Pendulum", "C5c": "CartPole"}


def _c5(found: Gathered, how: Judging) -> list[Case]:
    cases = []
    for name, task in _C5_TASKS.items():
        if task not in found.final:
            continue
        scores = scored(found.final[task])
        about = _learned(how, name, scores, (OURS, NO_ADAM, SAME_UPDATES))
        contrasts = [
            higher(f"reward that {what} adds", scores[OURS], scores[arm], MARGINS[task], REWARDS[task])
            for what, arm in (("the Adam process", NO_ADAM), ("variance reduction", SAME_UPDATES))
        ]
        cases.append(how.case(name, contrasts, **about))
    return cases


def _c6(found: Gathered, how: Judging) -> list[Case]:
    if not found.lengths:
        return []
    scores = scored(found.lengths, max)
    about = {
        what: above(
            [shorter(arm, scores[arm], scores[yardstick], _SHORTER) for arm in PAPER],
            seed_of(how.readings, "C6", yardstick),
            how.resamples,
        )
        for what, yardstick in (("learned", UNTRAINED), ("beats_random", RANDOM))
    }
    contrasts = [
        shorter(f"shorter episodes than {arm}", scores[OURS], scores[arm], _SHORTER, "length") for arm in OTHERS
    ]
    contrasts += _steadiness(how, "C6", found.lengths, OTHERS, about["learned"], found.cut)
    return [how.case("C6", contrasts, parts=("length", "steadiness"), **about)]


def _c10(found: Gathered, how: Judging) -> list[Case]:
    if not found.reaching:
        return []
    arms, contrasts, counting = (OURS, SVR, SGD), list[Contrast](), list[str]()
    about: dict[str, dict[str, bool]] = {"learned": {}, "beats_random": {}}
    for task, reaching in found.reaching.items():
        tested = _learned(how, f"C10 {task}", scored(found.final[task]), arms)
        for what, answers in tested.items():
            about[what] |= {f"{task}: {arm}": answer for arm, answer in answers.items()}
        void = _no_threshold(tested["learned"], reaching)
        if not void:
            counting.append(task)
        seconds = {arm: Scores(reaching[arm].seconds, reaching[arm].diverged) for arm in arms}
        for arm in (SVR, SGD):
            contrast = shorter(
                f"time to the threshold beside {arm}, {task}", seconds[OURS], seconds[arm], _FASTER, task
            )
            contrasts.append(replace(contrast, void=void or contrast.void))
    return [how.case("C10", contrasts, parts=tuple(counting or found.reaching), **about)]


def _no_threshold(learned: Mapping[str, bool], reaching: Mapping[str, Reaching]) -> str:
    """Why a task does not count, if it does not."""
    if not any(learned.values()):
        return "no arm has learned"
    if max(each.reached.mean() for each in reaching.values()) < FEWEST_THERE:
        return "fewer than a fifth of any arm's rounds reach the threshold"
    return ""


def _c12(found: Gathered, how: Judging) -> list[Case]:
    if found.doses is None:
        return []
    rewards, errors = found.doses
    arms = found.final["MountainCar"]
    floor = floor_of({name: arm.means for name, arm in arms.items()})
    scores = {dose: Scores(np.where(arm.diverged, floor, arm.means), arm.diverged) for dose, arm in rewards.items()}
    rounds = len(next(iter(scores.values())).values)
    yardsticks = {name: Scores(arms[name].means[:rounds], arms[name].diverged[:rounds]) for name in (RANDOM, UNTRAINED)}
    named = {dose_name(dose): each for dose, each in scores.items()}
    about = _learned(how, "C12", {**named, **yardsticks}, list(named))
    delta, unit = MARGINS["MountainCar"], REWARDS["MountainCar"]
    contrasts = [
        _slope(scores, errors),
        higher("reward of c = 1 over c = 0 at b = 1", scores[1.0, 1], scores[0.0, 1], delta, unit),
    ]
    return [how.case("C12", contrasts, **about)]


def dose_name(dose: Dose) -> str:
    """A dose in words.

    >>> dose_name((0.5, 4))
    'c = 0.5, b = 4'
    """
    return f"c = {dose[0]:g}, b = {dose[1]}"


def _slope(scores: Mapping[Dose, Scores], errors: Mapping[Dose, float]) -> Contrast:
    """Minus the slope of the doses' mean rewards on the log of their errors, times its range: as errors are fixed, a
    sum over doses for every round.
    """
    label = "reward that the most accurate dose has over the least, by a straight line"
    delta, unit = MARGINS["MountainCar"], REWARDS["MountainCar"]
    used = [dose for dose, each in scores.items() if each.share <= 0.5]
    x = np.log([errors[dose] for dose in used])
    if len(used) < FEWEST_DOSES or np.ptp(x) == 0:
        empty = difference(label, np.zeros(0), delta, unit)
        return replace(empty, void=f"more than half of the rounds diverged in all but {len(used)} doses")
    centred = x - x.mean()
    weights = -centred / (centred @ centred) * np.ptp(x)
    return difference(label, sum(w * scores[dose].values for w, dose in zip(weights, used, strict=True)), delta, unit)


# Claims about gradients, and the theorem

_DEFINITIONS = {"C7": ("own", "present", "estimate"), "C8": ("across", "window", "frozen")}


def _c7(found: Gathered, how: Judging) -> list[Case]:
    if found.distances is None:
        return []
    ratios, diverged = found.distances
    cases = []
    for letter, definition in zip("abc", _DEFINITIONS["C7"], strict=True):
        contrast = difference("SRG's anchors beside SVRG's", -ratios[definition], LOG_MARGIN, _NEARER)
        cases.append(how.case(f"C7{letter}", [replace(contrast, void=_none_left(contrast.rounds, diverged))]))
    return cases


def _none_left(rounds: int, diverged: Mapping[str, float]) -> str:
    if min(diverged.values()) > 0.5:
        return f"{' and '.join(f'{share:.0%}' for share in diverged.values())} of the rounds diverged"
    return "" if rounds else "no round finished in both runs"


def _c8(found: Gathered, how: Judging) -> list[Case]:
    if found.spreads is None:
        return []
    spreads = found.spreads
    rounds = len(spreads.windows[OURS])
    void = "more than a tenth of a run's rounds diverged" if max(spreads.diverged.values()) > MOST_DIVERGED else ""
    cases = []
    for letter, definition in zip("abc", _DEFINITIONS["C8"], strict=True):
        statistic = functools.partial(_log_spread_ratio, spreads, definition)
        contrast = Contrast("SRG-DQN's standard deviation beside SVR-DQN's", rounds, statistic, LOG_MARGIN, _LOWER)
        cases.append(how.case(f"C8{letter}", [replace(contrast, void=void)]))
    return cases


def _log_spread_ratio(spreads: Spreads, definition: str, weights: np.ndarray) -> np.ndarray:
    """−mean over steps of log(S_SRG / S_SVR), without steps that have fewer than two outer iterations."""
    counted = ~np.any([np.isnan(each).any(0) for each in spreads.windows.values()], axis=0)
    logs = {name: np.log(spread_at(spreads, definition, name, weights)[:, counted]) for name in (OURS, SVR)}
    return np.asarray((logs[SVR] - logs[OURS]).mean(1))


def spread_at(spreads: Spreads, definition: str, name: str, weights: np.ndarray) -> np.ndarray:
    """S at every step, for rounds drawn so often: (resamples, steps)."""
    rounds = weights.shape[1]
    if definition == "window":
        return np.asarray(weights @ spreads.windows[name] / rounds)
    if definition == "frozen":
        return np.asarray(weights @ spreads.frozen[name].mean(0) / rounds)
    columns = []
    for values in np.moveaxis(spreads.vectors[name], 1, 0):
        centred = values - np.median(values, 0)  # so that a single huge one costs other resamples no digits
        variances = weights @ centred**2 / rounds - (weights @ centred / rounds) ** 2
        columns.append(np.sqrt(np.maximum(variances, 0.0) * rounds / (rounds - 1)).sum(1))
    return np.stack(columns, 1)


def _c9(found: Gathered, how: Judging) -> list[Case]:
    if found.theorem is None:
        return []
    violated, settings, ratios = found.theorem
    contrasts = []
    for (problem, step), values in ratios.items():
        contrast = difference(f"queries of SVRG beside SRG's, {problem}, {step} η", values, LOG_MARGIN, _FEWER)
        void = "" if len(values) else "neither reaches the precision in any replication"
        contrasts.append(replace(contrast, void=void))
    case = how._replace(readings="all").case("C9", contrasts, family="C9")  # the same in all sets
    if violated:
        label = f"the inequality is violated in {violated} of {settings} settings"
        nothing = Interval(np.nan, np.nan, np.nan)
        case = replace(
            case, contrasts=(Measured(label, nothing, 1.0, 0.0, 0.0, Unit(""), against=True), *case.contrasts)
        )
    return [case]


def _c11(found: Gathered, how: Judging) -> list[Case]:
    if not found.shares:
        return []
    contrasts = [
        difference(f"share of {what}", found.shares[reason] - REASON, 0.0, _SHARE)
        for reason, what in (("unseen", "unseen transitions"), ("drift", "the policy's drift"))
    ]
    return [how.case("C11", [replace(each, void="" if each.rounds else "no round finished") for each in contrasts])]


_CASES: dict[str, Callable[[Gathered, Judging], list[Case]]] = {
    "C1": _c1,
    "C2": functools.partial(_figure_2, "C2", "MountainCar"),
    "C3": functools.partial(_figure_2, "C3", "Pendulum"),
    "C4": functools.partial(_figure_2, "C4", "CartPole"),
    "C5": _c5,
    "C6": _c6,
    "C7": _c7,
    "C8": _c8,
    "C9": _c9,
    "C10": _c10,
    "C11": _c11,
    "C12": _c12,
}
