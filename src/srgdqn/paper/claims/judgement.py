"""Claims judged: every contrast's interval at the level that all of them together need, and the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from srgdqn.paper.claims.rules import (
    Contrast,
    MeasuredContrast,
    Verdict,
    deciding,
    level_for,
    verdict_on,
)
from srgdqn.paper.claims.statements import CLAIMS
from srgdqn.paper.experiment import Outcomes
from srgdqn.paper.pilot import Pilot


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim."""

    name: str
    verdict: Verdict
    contrasts: tuple[MeasuredContrast, ...]

    @property
    def deciding(self) -> MeasuredContrast:
        """The contrast that a reader should see first."""
        return deciding(self.contrasts)


def judge(
    outcomes: Outcomes,
    readings: str,
    pilot: Pilot,
    *,
    only: Sequence[str] | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> list[Judgement]:
    """The verdicts for one set of readings; `only` judges some claims, with the correction for these alone."""
    pending: Mapping[str, Sequence[Contrast]] = {
        claim.name: claim.contrasts(outcomes, readings, pilot) for claim in CLAIMS if only is None or claim.name in only
    }
    count = sum(len(contrasts) for contrasts in pending.values())
    level = level_for(count)
    judgements, done = [], 0
    for name, contrasts in pending.items():
        measured = []
        for contrast in contrasts:
            measured.append(
                MeasuredContrast(contrast.label, contrast.interval_at(level), contrast.margin, contrast.unit)
            )
            done += 1
            report(done / count)
        judgements.append(Judgement(name, verdict_on(measured), tuple(measured)))
    return judgements
