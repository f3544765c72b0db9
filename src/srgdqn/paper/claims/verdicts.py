"""The rules by which claims are judged: contrasts, their resamples, and verdicts.

A claim comes down to *contrasts*: quantities that it says are above 0. Rounds are resampled, the same for all arms,
and every contrast t gets two p-values: p⁺ speaks for t > 0, p⁻ for t below the margin δ, which is what would matter.
Of all claims of a set of readings together, those with a small P⁺ hold and those with a small P⁻ fail (Holm's
procedure, each side at 2.5 %). A contrast that says nothing, because rounds diverged or nobody learned, is *void* and
left out; a claim that has nothing left to compare is *moot*.

These rules were fixed before any round of the seeds that they are for (40,001 on).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from srgdqn.paper.scores import Scores
from srgdqn.results.statistics import Interval

Verdict = Literal["holds", "fails", "undecided", "moot"]

RESAMPLES = 100_000
ERROR_RATE = 0.025
"""Of each side of Holm's procedure, of C9, and of the test whether some arm of a claim has learned."""
MARGINS = {"MountainCar": 0.0056, "Pendulum": 0.222, "CartPole": 0.444}
"""δ of rewards and returns, by task: the first pilot's."""
LOG_MARGIN = math.log(1.05)
"""δ of logarithms of ratios."""
GAP = 0.05
"""δ of shares: an arm that diverges more often by more than this is not the steadier one."""
MOST_DIVERGED = 0.1
"""The largest share of diverged rounds with which two arms' steadiness is compared."""
FEWEST_COMMON = 30
"""The fewest rounds, finished in both arms, with which it is."""

Statistic = Callable[[np.ndarray], np.ndarray]
"""From how often each round was drawn, an array (resamples, rounds), to a value per resample."""


class Unit(NamedTuple):
    """How a contrast is put into words."""

    words: str
    is_log: bool = False
    """Whether the contrast is the logarithm of a ratio, which is what is shown."""

    def text(self, interval: Interval) -> str:
        """The contrast with its interval.

        >>> Unit("reward per action").text(Interval(0.0204, 0.0121, 0.0283))
        '+0.0204 reward per action [+0.0121, +0.0283]'
        >>> Unit("times as steady", is_log=True).text(Interval(0.02, -0.04, 0.1))
        '1.02 times as steady [0.961, 1.11]'
        """
        if not math.isfinite(interval.estimate):
            return "cannot be computed"
        values = [_exp(each) for each in interval] if self.is_log else list(interval)
        sign = "" if self.is_log else "+"
        estimate, low, high = (f"{each:{sign}.3g}" for each in values)
        return f"{estimate} {self.words} [{low}, {high}]"


STEADY = Unit("times as steady", is_log=True)
REWARDS = {
    "MountainCar": Unit("reward per action"),
    "Pendulum": Unit("reward per action"),
    "CartPole": Unit("return per episode"),
}


@dataclass(frozen=True)
class Contrast:
    """A quantity that a claim says is above 0."""

    label: str
    rounds: int
    statistic: Statistic
    margin: float
    unit: Unit
    part: str = ""
    """The part of the claim that it speaks of (reward, speed, steadiness), where a claim has several."""
    void: str = ""
    """Why it is left out, if it is."""
    against: bool = False
    """Whether it can only speak against the claim: its statistic then is what must not be above 0."""


@dataclass(frozen=True)
class Measured:
    """A contrast with its interval at 95 % and its p-values."""

    label: str
    interval: Interval
    p_holds: float
    p_fails: float
    margin: float
    unit: Unit
    part: str = ""
    void: str = ""
    against: bool = False

    def text(self) -> str:
        """The contrast in words."""
        if self.void:
            return f"{self.label}: not compared, as {self.void}"
        return f"{self.label}: {self.unit.text(self.interval)}"

    @property
    def may_fail(self) -> bool:
        """Whether it can count against the claim: one that is above 0 at 95 % does not."""
        return self.against or not self.interval.low > 0


def measure(contrasts: Sequence[Contrast], seed: int, resamples: int = RESAMPLES) -> list[Measured]:
    """The contrasts of one claim with their intervals and p-values; those over equally many rounds share resamples."""
    drawn: dict[int, np.ndarray] = {}
    for rounds in sorted({contrast.rounds for contrast in contrasts if not contrast.void}):
        mine = [index for index, each in enumerate(contrasts) if each.rounds == rounds and not each.void]
        values = {index: np.empty(resamples) for index in mine}
        for start, weights in draws(rounds, resamples, seed):
            for index in mine:
                with np.errstate(divide="ignore", invalid="ignore"):
                    values[index][start : start + len(weights)] = contrasts[index].statistic(weights)
        drawn |= values
    return [_measured(contrast, drawn.get(index)) for index, contrast in enumerate(contrasts)]


def _measured(contrast: Contrast, drawn: np.ndarray | None) -> Measured:
    about = (contrast.margin, contrast.unit, contrast.part, contrast.void, contrast.against)
    if drawn is None:
        return Measured(contrast.label, Interval(math.nan, math.nan, math.nan), 1.0, 1.0, *about)
    with np.errstate(divide="ignore", invalid="ignore"):
        [estimate] = contrast.statistic(np.ones((1, contrast.rounds)))
    finite = drawn[np.isfinite(drawn)]
    low, high = np.quantile(finite, (0.025, 0.975)) if len(finite) else (math.nan, math.nan)
    interval = Interval(float(estimate), float(low), float(high))
    # A resample whose value is not finite speaks for neither side.
    missing, count = len(drawn) - len(finite), len(drawn) + 1
    not_above = (1 + missing + int((finite <= 0).sum())) / count
    if contrast.against:
        return Measured(contrast.label, interval, 1.0, not_above, *about)
    not_below = (1 + missing + int((finite >= contrast.margin).sum())) / count
    return Measured(contrast.label, interval, not_above, not_below, *about)


def draws(rounds: int, resamples: int, seed: int) -> Iterator[tuple[int, np.ndarray]]:
    """Resamples of rounds in batches: the number of the first, and how often each has drawn each round."""
    rng = np.random.default_rng(seed)
    most = max(1, min(resamples, 2_000_000 // rounds))
    for start in range(0, resamples, most):
        count = min(most, resamples - start)
        picks = rng.integers(0, rounds, (count, rounds), dtype=np.int32)
        picks += (np.arange(count, dtype=np.int32) * rounds)[:, None]
        weights = np.bincount(picks.ravel(), minlength=count * rounds)
        yield start, weights.reshape(count, rounds).astype(float)


def seed_of(*names: str) -> int:
    """The seed of the resamples of a set of readings and a claim.

    >>> seed_of("corrected", "C2") == seed_of("corrected", "C2") != seed_of("mnih", "C2")
    True
    """
    return int.from_bytes(hashlib.sha256("/".join(names).encode()).digest()[:8], "little")


# Verdicts


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim."""

    name: str
    verdict: Verdict
    contrasts: tuple[Measured, ...]
    marks: tuple[str, ...] = ()
    """`small`: some effect is smaller than what would matter. `below random`: no arm beats the random policy."""
    p_holds: float = 1.0
    p_fails: float = 1.0
    reason: str = ""
    """Why it is moot, if it is."""
    learned: Mapping[str, bool] | None = None
    """By arm, of a claim about performance: whether it is above the untrained agent,"""
    beats_random: Mapping[str, bool] = field(default_factory=dict)
    """and above the random policy."""

    @property
    def deciding(self) -> Measured | None:
        """The contrast that a reader should see first: the one that speaks most against the claim or, where it holds,
        least for it. None if all are void.
        """
        left = [each for each in self.contrasts if not each.void]
        if self.verdict == "fails":
            return min((each for each in left if each.may_fail), key=lambda each: each.p_fails)
        return max(left, key=lambda each: each.p_holds, default=None)


@dataclass(frozen=True)
class Case:
    """What one claim has come down to: its measured contrasts, and whether its arms have learned."""

    name: str
    contrasts: tuple[Measured, ...]
    parts: tuple[str, ...] = ("",)
    """The parts of the claim, each of which needs a contrast that is not void."""
    learned: Mapping[str, bool] | None = None
    """By arm; None where the claim is not about performance."""
    beats_random: Mapping[str, bool] = field(default_factory=dict)
    family: str = "set"
    """The claims of one family are tested together."""

    @property
    def nobody_learned(self) -> bool:
        """Whether it is about performance, and no arm has any to compare."""
        return self.learned is not None and not any(self.learned.values())

    def p_values(self) -> tuple[float, float]:
        """P⁺ and P⁻: all contrasts must be above 0, and any of them may be below its margin."""
        left = [each for each in self.contrasts if not each.void]
        if self.nobody_learned or not left:
            return 1.0, 1.0
        against = [each.p_fails for each in left if each.may_fail]
        p_fails = min(1.0, len(left) * min(against)) if against else 1.0
        p_holds = 1.0 if self._missing() else max(each.p_holds for each in left)
        return p_holds, p_fails

    def _missing(self) -> list[str]:
        """The parts of the claim of which no contrast is left."""
        return [part for part in self.parts if all(each.void for each in self.contrasts if each.part == part)]

    def judged(self, holds: bool, fails: bool) -> Judgement:
        """The verdict, given whether P⁺ and P⁻ were rejected."""
        verdict, reason = self._verdict(holds, fails)
        marks = []
        small = any(
            each.margin > 0 and each.interval.estimate < each.margin for each in self.contrasts if not each.void
        )
        if verdict == "holds" and small:
            marks.append("small")
        if self.learned is not None and not any(self.beats_random.values()):
            marks.append("below random")
        about = (self.learned, self.beats_random)
        return Judgement(self.name, verdict, self.contrasts, tuple(marks), *self.p_values(), reason, *about)

    def _verdict(self, holds: bool, fails: bool) -> tuple[Verdict, str]:
        if self.nobody_learned:
            return "moot", "none of its arms has learned"
        if fails:
            return "fails", ""
        if missing := self._missing():
            reasons = {each.void for each in self.contrasts if each.part in missing}
            of_what = f" of {' and '.join(missing)}" if any(missing) else ""
            return "moot", f"no contrast{of_what} is left: {'; '.join(sorted(reasons))}"
        return ("holds" if holds else "undecided"), ""


def judge(cases: Sequence[Case], sizes: Mapping[str, int] = MappingProxyType({})) -> list[Judgement]:
    """The verdicts on all claims of a set of readings, each family corrected for the number of its claims; `sizes` are
    those of families of which not all claims are there.
    """
    rejected: dict[str, tuple[bool, bool]] = {}
    for family in {case.family for case in cases}:
        mine = [case for case in cases if case.family == family]
        absent = [1.0] * max(0, sizes.get(family, 0) - len(mine))
        sides = zip(*(case.p_values() for case in mine), strict=True)
        for_, against = (holm([*side, *absent], ERROR_RATE)[: len(mine)] for side in sides)
        rejected |= {case.name: pair for case, pair in zip(mine, zip(for_, against, strict=True), strict=True)}
    return [case.judged(*rejected[case.name]) for case in cases]


def holm(p_values: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses Holm's procedure rejects.

    >>> holm([0.01, 0.04, 0.03], 0.05)
    [True, False, False]
    >>> holm([0.01, 0.02, 0.03], 0.05)
    [True, True, True]
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    rejected = [False] * len(p_values)
    for rank, index in enumerate(order):
        if p_values[index] > level / (len(p_values) - rank):
            break
        rejected[index] = True
    return rejected


def above(contrasts: Sequence[Contrast], seed: int, resamples: int = RESAMPLES) -> dict[str, bool]:
    """Which arms are above a yardstick (the untrained agent, the random policy) beyond doubt. There is a contrast for
    each arm of a claim, under its name.
    """
    measured = measure(contrasts, seed, resamples)
    return {each.label: each.p_holds <= ERROR_RATE / len(contrasts) for each in measured}


def arms_above(
    scores: Mapping[str, Scores], yardstick: np.ndarray, seed: int, resamples: int = RESAMPLES
) -> dict[str, bool]:
    """Which arms score above a yardstick, which has one value per round."""
    contrasts = [difference(name, arm.values - yardstick, 0.0, Unit("")) for name, arm in scores.items()]
    return above(contrasts, seed, resamples)


# Kinds of contrast


def difference(label: str, values: np.ndarray, margin: float, unit: Unit, part: str = "") -> Contrast:
    """The mean of one value per round is above 0."""
    return Contrast(label, len(values), lambda weights: weights @ values / len(values), margin, unit, part)


def higher(label: str, ours: Scores, theirs: Scores, margin: float, unit: Unit, part: str = "") -> Contrast:
    """Our mean is above theirs."""
    return replace(difference(label, ours.values - theirs.values, margin, unit, part), void=_too_few(ours, theirs))


def not_worse(label: str, ours: Scores, theirs: Scores, delta: float, unit: Unit, part: str = "") -> Contrast:
    """Our mean is not below theirs by δ, which is added."""
    return replace(difference(label, ours.values - theirs.values + delta, 0.0, unit, part), void=_too_few(ours, theirs))


def shorter(label: str, ours: Scores, theirs: Scores, unit: Unit, part: str = "") -> Contrast:
    """Our mean is below theirs: minus the log of the ratio of means."""

    def statistic(weights: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(weights @ theirs.values) - np.log(weights @ ours.values))

    return Contrast(label, len(ours.values), statistic, LOG_MARGIN, unit, part, void=_too_few(ours, theirs))


def _too_few(ours: Scores, theirs: Scores) -> str:
    if ours.share > 0.5 and theirs.share > 0.5:
        return f"{ours.share:.0%} and {theirs.share:.0%} of the rounds diverged"
    return ""


class Windows(NamedTuple):
    """What steadiness is measured on: the values of the final score's windows or episodes, (rounds, windows)."""

    values: np.ndarray
    diverged: np.ndarray
    learned: bool
    cut: float = 0.0
    """The share of episodes that were cut at the longest length allowed."""


MOST_CUT = 0.2


def steadier(
    label: str, ours: Windows, theirs: Windows, seed: int, part: str = "steadiness", resamples: int = RESAMPLES
) -> Contrast:
    """Our standard deviation over rounds is smaller: minus the log of the ratio of S, its mean over windows.

    S is over the rounds that finished in both arms. If we diverge more often than they do by more than 5 points, that
    alone decides: the contrast can then only speak against the claim.
    """
    apart = ours.diverged.astype(float) - theirs.diverged.astype(float)
    unit = Unit("more of the rounds diverged")
    gap = difference(f"{label}: diverged rounds", apart, GAP, unit, part)
    if apart.mean() > GAP:
        [shown] = measure([gap], seed, resamples)
        if shown.interval.low > 0:
            return replace(gap, against=True)
    common = ~(ours.diverged | theirs.diverged)
    spreads = [_spread(arm.values[common]) for arm in (ours, theirs)]

    def statistic(weights: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(spreads[1](weights)) - np.log(spreads[0](weights)))

    void = _no_steadiness(ours, theirs, common, spreads)
    return Contrast(label, int(common.sum()), statistic, LOG_MARGIN, STEADY, part, void=void)


def _no_steadiness(ours: Windows, theirs: Windows, common: np.ndarray, spreads: Sequence[Statistic]) -> str:
    """Why two arms' steadiness says nothing, if it does not."""
    if not (ours.learned and theirs.learned):
        return "an arm has not learned"
    if max(ours.diverged.mean(), theirs.diverged.mean()) > MOST_DIVERGED:
        return "more than a tenth of an arm's rounds diverged"
    if common.sum() < FEWEST_COMMON:
        return f"fewer than {FEWEST_COMMON} rounds finished in both arms"
    if max(ours.cut, theirs.cut) > MOST_CUT:
        return "more than a fifth of an arm's episodes were cut"
    if any(spread(np.ones((1, int(common.sum()))))[0] == 0 for spread in spreads):
        return "an arm has no spread at all"
    return ""


def _spread(values: np.ndarray) -> Statistic:
    """From weights to S: the standard deviation over rounds, averaged over windows."""
    centred = values - values.mean(0) if len(values) else values
    squares, count = centred**2, len(values)
    constant = np.ptp(values, axis=0) == 0 if count else np.ones(values.shape[1], bool)

    def spread(weights: np.ndarray) -> np.ndarray:
        variances = (weights @ squares / count - (weights @ centred / count) ** 2) * count / (count - 1)
        return np.asarray(np.where(constant, 0.0, np.sqrt(np.maximum(variances, 0.0))).mean(1))

    return spread


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0)) if math.isfinite(value) else value
