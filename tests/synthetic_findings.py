"""A made-up confirmatory run: verdicts, scores and contrasts, and the evidence with them."""

from __future__ import annotations

from typing import Any

import polars as pl

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.claims.evidence import Evidence, evidence_of
from srgdqn.paper.claims.paper_claims import CLAIMS
from srgdqn.paper.claims.verdicts import REWARDS, STEADY, Judgement, Measured, Verdict
from srgdqn.paper.findings import SHOWN_SETS
from srgdqn.paper.report.contents import Table
from srgdqn.results.statistics import Interval

TASKS = ("MountainCar", "Pendulum", "CartPole")
ARMS = (*PAPER, "sgd-inner", "sgd-inner-adam", "random", "untrained", "dqn-adam")


def contrast(label: str, estimate: float, **about: Any) -> Measured:
    unit = about.pop("unit", REWARDS["Pendulum"])
    return Measured(label, Interval(estimate, estimate - 0.1, estimate + 0.1), 0.01, 0.9, 0.2, unit, **about)


def judgements(verdict: Verdict = "holds", **others: Verdict) -> dict[str, list[Judgement]]:
    """All claims with one verdict in every set, but for some."""
    one = (contrast("reward over svr-dqn", 0.5), contrast("steadiness", 0.1, unit=STEADY))
    found = {
        each: [Judgement(name, others.get(f"{each}_{name}", verdict), one) for name in CLAIMS]
        for each in SHOWN_SETS  # type: ignore[arg-type]
    }
    found["mnih-20"] = [each for each in found["mnih"] if each.name in ("C2", "C3")]
    return found


def scores(best: float = 5.0, lost: float = 0.0) -> pl.DataFrame:
    """Of every set, the one with the other period included."""
    means = {"random": 1.0, "untrained": 0.5, "srg-dqn": best, "dqn-adam": 2.25, "sgd-inner": 2.0}
    return pl.DataFrame(
        [
            {
                "readings": each,
                "task": task,
                "arm": arm,
                "mean": means.get(arm, 0.75),
                "share diverged": lost if arm == "srg-dqn" else 0.0,
            }
            for each in (*SHOWN_SETS, "mnih-20")
            for task in TASKS
            for arm in ARMS
        ]
    )


def contrasts(**signs: float) -> pl.DataFrame:
    """Estimates by set; the interval is narrower than 1. With the other period they are as with mnih unless told."""
    signs = {"mnih_20": signs.get("mnih", 2.0), **signs}
    return pl.DataFrame(
        [
            {
                "readings": each,
                "task": task,
                "against": arm,
                "estimate": signs.get(each.replace("-", "_"), 2.0),
                "low": signs.get(each.replace("-", "_"), 2.0) - 0.5,
                "high": signs.get(each.replace("-", "_"), 2.0) + 0.5,
            }
            for each in (*SHOWN_SETS, "mnih-20")
            for task in TASKS
            for arm in ("sgd-inner-adam", "svr-dqn", "dqn-sgd", "srg-dqn-no-adam")
        ]
    )


def evidence(found: dict[str, list[Judgement]]) -> Evidence:
    tables = [Table("confirmation-scores", "", scores()), Table("confirmation-contrasts", "", contrasts())]
    return evidence_of("confirmation", found, tables, seed=1, rounds="2 on CartPole", seconds=60.0)
