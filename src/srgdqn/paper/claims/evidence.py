"""Verdicts as a small file: what was judged, on which seeds, by which rules, with what.

The results of the long commands travel with the package as such files, and reports show them until they are run again.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import polars as pl

from srgdqn.errors import InputError, shown
from srgdqn.paper.claims.verdicts import Judgement, Measured, Unit
from srgdqn.paper.report.contents import Table, Verdict
from srgdqn.results.statistics import Interval
from srgdqn.runs.destination import write_file
from srgdqn.runs.provenance import VERSIONS, provenance
from srgdqn.runs.untrusted import parse_json, read_file

_ABOUT = {"claims": (int,), "seed": (int,), "rounds": (str,), "date": (str,), "seconds": (int, float)}
_LONGEST = 2**24  # bytes


@dataclass(frozen=True, eq=False)
class Evidence:
    """The outcome of one of the long commands."""

    kind: str
    judgements: Mapping[str, Sequence[Judgement]]
    """By set of readings."""
    tables: Sequence[Table]
    about: Mapping[str, Any]
    """Version of the claims, seed, rounds, date, seconds, versions, machine."""
    released: bool = False
    """Whether it came with the package."""

    @property
    def is_current(self) -> bool:
        """Whether it was judged by the rules as they are now."""
        return bool(self.about["claims"] == VERSIONS["claims"])

    def made(self) -> str:
        """When, on which seeds and in what time it was made, as a sentence that follows another."""
        about = self.about
        seeds = f"seed {about['seed']}; rounds: {about['rounds']}"
        return f" Made on {about['date']} ({seeds}) in {about['seconds'] / 60:.0f} minutes of one core." + self.stale()

    def stale(self) -> str:
        """A sentence that follows another where the rules are others by now, and nothing otherwise."""
        if self.is_current:
            return ""
        present = VERSIONS["claims"]
        return f" Its verdicts were taken by other rules or margins than the present ones (version {present})."


def evidence_of(
    kind: str,
    judgements: Mapping[str, Sequence[Judgement]],
    tables: Sequence[Table] = (),
    *,
    seed: int,
    rounds: str,
    seconds: float,
) -> Evidence:
    """Evidence as of now."""
    here = provenance()
    about = {
        "claims": VERSIONS["claims"],
        "seed": seed,
        "rounds": rounds,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(seconds),
        "computation": here["computation"],
        "versions": here["versions"],
        "processor": here["processor"],
        "instruction_sets": here["instruction_sets"],
    }
    return Evidence(kind, judgements, tables, about)


def write_evidence(evidence: Evidence, folder: Path) -> Path:
    """Writes the file that `find_evidence` reads."""
    content = {
        "kind": evidence.kind,
        "about": dict(evidence.about),
        "judgements": {
            label: [_judgement_json(judgement) for judgement in judgements]
            for label, judgements in evidence.judgements.items()
        },
        "tables": [
            {"name": table.name, "title": table.title, "note": table.note, "rows": table.frame.to_dicts()}
            for table in evidence.tables
        ],
    }
    return write_file(
        folder / f"{evidence.kind}.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
    )


def find_evidence(kind: str, folder: Path | None = None) -> Evidence | None:
    """The evidence in a results folder, or else what the package was released with; None where there is neither."""
    if folder is not None and os.path.lexists(file := folder / f"{kind}.json"):
        try:
            return _parse(parse_json(read_file(file, _LONGEST)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, pl.exceptions.PolarsError) as error:
            raise InputError(
                f"{file} cannot be read ({type(error).__name__}: {error}). It is damaged, or of an earlier version. "
                "Move it away: what the package was released with is shown then, until the command is run again."
            ) from error
    released = resources.files("srgdqn.paper.evidence").joinpath(f"{kind}.json")
    if released.is_file():
        return dataclasses.replace(_parse(json.loads(released.read_text(encoding="utf-8"))), released=True)
    return None


def _parse(content: Mapping[str, Any]) -> Evidence:
    for needed, kind in _ABOUT.items():
        _typed(content["about"][needed], *kind)  # a KeyError names what is missing
    judgements = {label: [_judgement(entry) for entry in entries] for label, entries in content["judgements"].items()}
    tables = [
        Table(_typed(entry["name"], str), _typed(entry["title"], str), _rows(entry["rows"]), _typed(entry["note"], str))
        for entry in content["tables"]
    ]
    if not all(judgement.contrasts for entries in judgements.values() for judgement in entries):
        raise ValueError("a verdict has no contrasts")
    return Evidence(_typed(content["kind"], str), judgements, tables, content["about"])


def _judgement(entry: Mapping[str, Any]) -> Judgement:
    return Judgement(
        _typed(entry["name"], str),
        _verdict(entry["verdict"]),
        tuple(
            Measured(
                _typed(part["label"], str),
                Interval(*(_number(part[key]) for key in _BOUNDS)),
                p_holds=_typed(part["p_holds"], int, float),
                p_fails=_typed(part["p_fails"], int, float),
                margin=_typed(part["margin"], int, float),
                unit=Unit(_typed(part["unit"], str), _typed(part["is_log"], bool)),
                part=_typed(part["part"], str),
                void=_typed(part["void"], str),
                against=_typed(part["against"], bool),
            )
            for part in entry["contrasts"]
        ),
        marks=tuple(_typed(mark, str) for mark in entry["marks"]),
        p_holds=_typed(entry["p_holds"], int, float),
        p_fails=_typed(entry["p_fails"], int, float),
        reason=_typed(entry["reason"], str),
        learned=None if entry["learned"] is None else _answers(entry["learned"]),
        beats_random=_answers(entry["beats_random"]),
    )


def _answers(content: Any) -> dict[str, bool]:
    return {_typed(arm, str): _typed(answer, bool) for arm, answer in content.items()}


def _rows(content: Any) -> pl.DataFrame:
    """A table of texts and numbers."""
    for row in _typed(content, list):
        for value in row.values():
            _typed(value, str, int, float, bool, type(None))
    return pl.DataFrame(content, infer_schema_length=None)  # a column may begin with many nulls


def _typed(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise TypeError(f"{shown(value)} is not of its kind")
    return value


def _verdict(word: Any) -> Verdict:
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    for each in verdicts:
        if word == each:
            return each
    raise ValueError(f"{shown(word)} is no verdict")


_BOUNDS = ("estimate", "low", "high")
_OF_CONTRASTS = ("label", "part", "void", "against", "margin", "p_holds", "p_fails")


def _judgement_json(judgement: Judgement) -> dict[str, Any]:
    return {
        **{name: getattr(judgement, name) for name in ("name", "verdict", "p_holds", "p_fails", "reason")},
        "marks": list(judgement.marks),
        "learned": None if judgement.learned is None else dict(judgement.learned),
        "beats_random": dict(judgement.beats_random),
        "contrasts": [
            {
                **{name: getattr(each, name) for name in _OF_CONTRASTS},
                **{key: _json(getattr(each.interval, key)) for key in _BOUNDS},
                "unit": each.unit.words,
                "is_log": each.unit.is_log,
            }
            for each in judgement.contrasts
        ],
    }


def _json(value: float) -> float | str | None:
    """JSON has no infinities: they are written as words, NaN as null."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


def _number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)
