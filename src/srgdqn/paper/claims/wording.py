"""Contrasts and parts of claims in words: what a reader sees of a verdict.

Rules know labels and statistics. A statistic may have a margin added to it (C4: "not below by δ") or a threshold taken
off (C11: "beyond 5 %"); a reader wants the quantity itself, which is what is told here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from srgdqn.paper.arm_columns import ARM_NAMES
from srgdqn.paper.claims.cases import REASON
from srgdqn.paper.claims.verdicts import ERROR_RATE, MARGINS, Judgement, Measured
from srgdqn.paper.report.contents import Part, PartState
from srgdqn.results.statistics import Interval


class _Words(NamedTuple):
    """How contrasts with a label are told."""

    label: str
    """A regular expression for the whole of it; `arm` and others are filled in."""
    text: str
    part: str = ""
    """What it speaks of, where the rule does not name a part."""
    added: float = 0.0
    """What the rule has added to the quantity."""
    scale: float = 1.0
    budget: bool = False
    """Whether a count is cut short where it would exceed a budget."""


_PERCENT = 100.0
_ROUNDING = 1e-9  # of logarithms
_WORDS = (
    _Words("area under the evaluation curve", "{value} {unit} over the whole run {bounds}"),
    _Words("mean of the last 20 %", "{value} {unit} in the last fifth {bounds}"),
    _Words("steadiness over rounds", "{value} times as steady {bounds}"),
    _Words("final reward over (?P<arm>.+)", "{value} {unit} beside {arm} {bounds}"),
    _Words("first-half reward over (?P<arm>.+)", "{value} {unit} in the first half beside {arm} {bounds}"),
    _Words("return not below that of (?P<arm>.+)", "{value} {unit} beside {arm} {bounds}", added=MARGINS["CartPole"]),
    _Words(
        "steadiness beside (?P<arm>.+): diverged rounds",
        "{value} points more of its rounds diverge than of {arm}'s {bounds}",
        scale=_PERCENT,
    ),
    _Words("steadiness beside (?P<arm>.+)", "{value} times as steady as {arm} {bounds}"),
    _Words("reward that (?P<arm>.+) adds", "{value} {unit} {bounds}", part="what {arm} adds"),
    _Words("shorter episodes than (?P<arm>.+)", "{arm}'s are {value} times as long {bounds}"),
    _Words("SRG's anchors beside SVRG's", "SRG's are {value} times as close as SVRG's {bounds}"),
    _Words("SRG-DQN's standard deviation beside SVR-DQN's", "SVR-DQN's is {value} times SRG-DQN's {bounds}"),
    _Words(
        "queries of SVRG beside SRG's, convex, (?P<arm>theory|tuned) η",
        "convex problem: SVRG needs {value} times SRG's queries {bounds}",
        part="at {arm} η",
        budget=True,
    ),
    _Words(
        "queries of SVRG beside SRG's, network, (?P<arm>theory|tuned) η",
        "small network: SVRG needs {value} times SRG's queries {bounds}",
        part="at {arm} η",
        budget=True,
    ),
    _Words("time to the threshold beside (?P<arm>.+), .+", "{arm} takes {value} times as long {bounds}"),
    _Words(
        "share of (?P<arm>.+)",
        "{value} % of the squared error {bounds}",
        part="{arm}",
        added=-REASON,
        scale=_PERCENT,
    ),
    _Words(
        "reward that the most accurate dose has over the least, by a straight line",
        "{value} {unit} from the least to the most accurate estimate {bounds}",
        part="all doses",
    ),
    _Words(
        "reward of c = 1 over c = 0 at b = 1",
        "{value} {unit} with the whole correction over none {bounds}",
        part="SRG's own dose",
    ),
)
_NAMES = {**ARM_NAMES, "theory": "the theory's", "tuned": "the tuned"}


def effect_text(contrast: Measured) -> str:
    """The contrast in words and units, with its 95 % interval; or why it was not compared."""
    part, text = _told(contrast)
    if part and not contrast.part:
        return f"{part}: {text}"
    return text


def _told(contrast: Measured) -> tuple[str, str]:
    """What it speaks of, and the effect."""
    for words in _WORDS:
        if match := re.fullmatch(words.label, contrast.label):
            filled = {name: _NAMES.get(value, value) for name, value in match.groupdict().items()}
            part = words.part.format(**filled)
            if contrast.void:
                return part, f"not compared{_beside(filled)}: {contrast.void.replace('%', ' %')}"
            value, bounds = numbers(contrast, words.added, words.scale)
            if words.budget and _same_everywhere(contrast):
                # Where all replications agree, SVRG may have spent its whole budget in each, as the section says of
                # its own: what is known is a lower bound, and an interval without width would pretend otherwise.
                value, bounds = f"at least {value}", "in every replication"
            return part, words.text.format(value=value, bounds=bounds, unit=contrast.unit.words, **filled)
    return "", contrast.text() if math.isfinite(contrast.interval.estimate) or contrast.void else contrast.label


def _same_everywhere(contrast: Measured) -> bool:
    """Whether all resamples of a ratio above 1 are equal but for rounding."""
    interval = contrast.interval
    return interval.estimate > 0 and interval.high - interval.low < _ROUNDING


def _beside(filled: Mapping[str, str]) -> str:
    return f" with {filled['arm']}" if filled.get("arm") in ARM_NAMES.values() else ""


def numbers(contrast: Measured, added: float = 0.0, scale: float = 1.0) -> tuple[str, str]:
    """The quantity, and its interval in brackets."""
    interval = contrast.interval
    if not all(map(math.isfinite, interval)):
        return "an unknown", "[not known]"
    if contrast.unit.is_log:
        ratios = [math.exp(min(each, 700.0)) for each in interval]
        texts = [ratio_text(each, of=ratios[0]) for each in ratios]
    elif scale == _PERCENT:
        texts = [f"{(each - added) * scale:z.0f}" for each in interval]
    else:
        texts = list(differences(Interval(*(each - added for each in interval))))
    estimate, low, high = (each.replace("-", "−") for each in texts)
    return estimate, f"[{low}, {high}]"


def ratio_text(ratio: float, of: float | None = None) -> str:
    """A ratio, with the digits that one of a size, its own by default, needs.

    >>> ratio_text(0.9946), ratio_text(21.6), ratio_text(3.2, of=12.0)
    ('0.99', '22', '3')
    """
    return f"{ratio:.2f}" if (ratio if of is None else of) < 10 else f"{ratio:,.0f}"


def differences(interval: Interval) -> tuple[str, str, str]:
    """A difference and its bounds, with two digits of the interval's half width.

    >>> differences(Interval(0.0460446, 0.02913, 0.0633)), differences(Interval(-3.173, -4.3317, -2.0338))
    (('+0.046', '+0.029', '+0.063'), ('-3.2', '-4.3', '-2.0'))
    """
    half = (interval.high - interval.low) / 2
    decimals = min(6, max(0, 1 - math.floor(math.log10(half)))) if half > 0 else 3
    estimate, low, high = (f"{each:+z,.{decimals}f}" for each in interval)
    return estimate, low, high


def parts_of(judgement: Judgement) -> tuple[Part, ...]:
    """The parts of a claim, each with what it speaks for, and with what speaks least for the claim.

    A part speaks against the claim only if the claim fails. What parts speak for is not corrected for the number of
    claims, as the verdict is; hence words other than the verdicts'.
    """
    grouped: dict[str, list[Measured]] = {}
    for contrast in judgement.contrasts:
        grouped.setdefault(contrast.part or _told(contrast)[0], []).append(contrast)
    left = sum(not contrast.void for contrast in judgement.contrasts)
    found = []
    for name, contrasts in grouped.items():
        state = _part_state(judgement, contrasts, left)
        # Parts that only readers have, such as C9's step sizes, are told in full.
        shown = [weakest(contrasts, fails=state == "against it")] if contrasts[0].part else contrasts
        found.append(Part(name, state, "; ".join(_told(each)[1] for each in shown)))
    return tuple(found)


def _part_state(judgement: Judgement, contrasts: Sequence[Measured], left: int) -> PartState:
    known = [each for each in contrasts if not each.void]
    if not known:
        return "not compared"
    if judgement.verdict == "fails" and any(each.may_fail and left * each.p_fails <= ERROR_RATE for each in known):
        return "against it"
    return "for the claim" if all(each.p_holds <= ERROR_RATE for each in known) else "unclear"


def weakest(contrasts: Sequence[Measured], *, fails: bool) -> Measured:
    """The contrast that speaks least for a claim or, if it `fails`, most against it."""
    known = [each for each in contrasts if not each.void]
    if not known:
        return contrasts[0]
    if fails:
        return min((each for each in known if each.may_fail), key=lambda each: (each.p_fails, -each.p_holds))
    return max(known, key=lambda each: (each.p_holds, -each.interval.estimate))


def p_text(value: float) -> str:
    """A p-value for a reader.

    >>> p_text(0.0312), p_text(1e-05), p_text(1.0)
    ('0.031', '< 0.0001', '1')
    """
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"
