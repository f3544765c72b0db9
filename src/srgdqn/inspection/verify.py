"""`srgdqn.verify`: a saved run held against what its configuration gives here."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import numpy as np
from gymnasium.experimental.functional import FuncEnv

from srgdqn.adapters.environments import Environment
from srgdqn.errors import InputError
from srgdqn.inspection.conditions import Condition, differing, only_sources
from srgdqn.inspection.saved_run import Subject, subject_of
from srgdqn.inspection.segments import SegmentCheck, check_segments
from srgdqn.inspection.whole_rounds import RoundCheck, check_rounds
from srgdqn.integrations.progress import reporting
from srgdqn.learner.networks import NetworkFactory

How = Literal["auto", "whole", "segments"]
Verdict = Literal["identical", "agrees", "differs", "undecided"]


@dataclass(frozen=True)
class Verification:
    """What came of it."""

    run: str
    conditions: tuple[Condition, ...]
    """What is other here than when the run was made; equal bits are promised only where nothing is."""
    seed: int | None
    """By which the round was chosen, where it was chosen at random."""
    rounds: tuple[RoundCheck, ...]
    """Rounds that were recomputed to be compared to the bit."""
    segments: tuple[SegmentCheck, ...]
    """Segments that were recomputed to be compared within a bound."""

    @property
    def verdict(self) -> Verdict:
        """Identical to the bit; agreeing within the bound of every segment; differing; or undecided, as of some segment
        nothing can be told. Where no condition is another, whatever is not identical differs.
        """
        if self.rounds:
            return "identical" if all(check.identical for check in self.rounds) else "differs"
        if all(check.identical for check in self.segments):
            return "identical"
        findings = {check.finding for check in self.segments}
        return "differs" if "differs" in findings else "undecided" if "undecided" in findings else "agrees"

    @property
    def holds(self) -> bool:
        """Whether the run was verified."""
        return self.verdict in ("identical", "agrees")


def verify(
    folder: str | os.PathLike[str],
    round: int | str | None = None,  # noqa: A002, as the paper's word is a builtin's name
    *,
    steps: int | None = None,
    how: How = "auto",
    seed: int | None = None,
    network: eqx.Module | NetworkFactory | None = None,
    environment: FuncEnv | Environment | None = None,
    progress: bool | None = None,
) -> Verification:
    """Recomputes a round of a saved run with its stored configuration, and tells whether it is the same.

    Args:
      folder: where the run was saved.
      round: the number of the round; `"all"` of them; by default one chosen at random.
      steps: recompute the first so many environment steps only.
      how: `whole` rounds to the bit; `segments` between kept checkpoints, within a bound (to the bit where conditions
        are as when the run was made); or `auto`: the latter only where versions, the compiler or the instruction set
        are others than the run was made with.
      seed: chooses the round at random, in the same way every time.
      network: the user's own, where the run was trained with one.
      environment: likewise.
      progress: show a progress bar (by default where there is a terminal).

    Returns:
      What was compared, and the verdict.

    """
    subject = subject_of(folder, network=network, environment=environment)
    numbers, seed = _chosen(subject, round, seed)
    if steps is not None and steps < subject.block:
        raise InputError(f"steps is {steps}, but the first outer iteration comes after {subject.block}. Give more.")
    conditions = differing(subject)
    in_segments = how == "segments" or (how == "auto" and not only_sources(conditions))
    if in_segments and steps is not None:
        raise InputError(
            "steps was given, but segments from checkpoint to checkpoint are recomputed, as the run was made under "
            "other conditions. Leave it out, or ask for whole rounds (--how whole, or how='whole' in Python)."
        )
    named = f"verifying {', '.join(map(str, numbers)) if len(numbers) < 4 else f'{len(numbers)} rounds'}"
    with reporting(subject.configuration, progress, title=named) as listener:
        exact = not conditions
        segments = [each for number in numbers if in_segments for each in check_segments(subject, number, exact=exact)]
        rounds = [] if in_segments else list(check_rounds(subject, numbers, steps, listener))
    return Verification(str(folder), tuple(conditions), seed, tuple(rounds), tuple(segments))


def _chosen(subject: Subject, asked: int | str | None, seed: int | None) -> tuple[Sequence[int], int | None]:
    known = subject.result.rounds["round"].to_list()
    if asked == "all":
        return known, None
    if isinstance(asked, str):
        raise InputError(f"round is {asked!r}. Give a number, or 'all'.")
    if asked is not None:
        subject.row_of(asked)
        return [asked], None
    if not known:
        raise InputError("this run has no rounds: it was interrupted before any had begun. There is nothing to verify.")
    seed = secrets.randbelow(2**31) if seed is None else seed
    return [known[int(np.random.default_rng(seed).integers(len(known)))]], seed
