"""Rounds that a mean is not over because they diverged, told to whoever reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srgdqn.paper.studies.experiment import Outcomes


def kept_of(outcomes: Outcomes, cells: Sequence[str], kept: int) -> str:
    """How many of a measurement's rounds a mean is over."""
    return f"{kept} of {_rounds(outcomes, cells)}"


def told_of(outcomes: Outcomes, readings: Sequence[str], cells: Mapping[str, Sequence[str]]) -> str:
    """How many rounds diverged in measured runs, and so are left out of them: `cells` are those of each readings."""
    sentences = []
    for each in readings:
        lost = {cell: int(outcomes[cell].tables["rounds"]["diverged"].sum()) for cell in cells[each]}
        rounds = _rounds(outcomes, cells[each])
        listed = ", ".join(f"{count} of {rounds} in {cell}" for cell, count in lost.items() if count)
        sentences.append(f"{each}: {listed}" if listed else f"{each}: none of {rounds}")
    return f"Rounds that diverged, and are left out ({'; '.join(sentences)})."


def _rounds(outcomes: Outcomes, cells: Sequence[str]) -> int:
    return max(int(outcomes[cell].tables["rounds"]["rounds"][0]) for cell in cells)
