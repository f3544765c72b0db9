"""Verdicts as a small file: what was judged, on which seeds, by which rules, with what.

The results of the long commands travel with the package as such files, and reports show them until they are run again.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from srgdqn.claims.digest import claims_digest
from srgdqn.claims.judgement import Judgement
from srgdqn.claims.rules import Measured
from srgdqn.errors import InputError
from srgdqn.report.contents import Table
from srgdqn.statistics import Interval
from srgdqn.store.destination import write_file
from srgdqn.store.provenance import provenance

_ABOUT = ("claims", "seed", "rounds", "date", "seconds")


@dataclass(frozen=True, eq=False)
class Evidence:
    """The outcome of one of the long commands."""

    kind: str
    judgements: Mapping[str, Sequence[Judgement]]
    """By set of readings, or by what else was varied."""
    tables: Sequence[Table]
    about: Mapping[str, Any]
    """Hash of the claims, seed, rounds, date, seconds, versions, machine."""
    released: bool = False
    """Whether it came with the package."""

    @property
    def is_current(self) -> bool:
        """Whether it was judged by the rules as they are now."""
        return self.about["claims"] == claims_digest()


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
        "claims": claims_digest(),
        "seed": seed,
        "rounds": rounds,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(seconds),
        "source": here["source"],
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
    released = resources.files("srgdqn.evidence")
    for place in (released,) if folder is None else (folder, released):
        file = place.joinpath(f"{kind}.json")
        if file.is_file():
            try:
                parsed = _parse(json.loads(file.read_text(encoding="utf-8")))
                return dataclasses.replace(parsed, released=place is released)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(
                    f"{file} cannot be read ({type(error).__name__}: {error}). Move it away, or run the command that "
                    "wrote it again."
                ) from error
    return None


def _parse(content: Mapping[str, Any]) -> Evidence:
    for needed in _ABOUT:
        content["about"][needed]  # what is missing is told by its name
    judgements = {
        label: [
            Judgement(
                entry["name"],
                entry["verdict"],
                tuple(
                    Measured(
                        part["label"],
                        Interval(*(_number(part[key]) for key in _BOUNDS)),
                        part["margin"],
                        part["unit"],
                    )
                    for part in entry["contrasts"]
                ),
            )
            for entry in entries
        ]
        for label, entries in content["judgements"].items()
    }
    tables = [
        Table(entry["name"], entry["title"], pl.DataFrame(entry["rows"]), entry["note"]) for entry in content["tables"]
    ]
    return Evidence(content["kind"], judgements, tables, content["about"])


_BOUNDS = ("estimate", "low", "high")


def _judgement_json(judgement: Judgement) -> dict[str, Any]:
    return {
        "name": judgement.name,
        "verdict": judgement.verdict,
        "contrasts": [
            {
                "label": contrast.label,
                **{key: _json(getattr(contrast.interval, key)) for key in _BOUNDS},
                "margin": contrast.margin,
                "unit": contrast.unit,
            }
            for contrast in judgement.contrasts
        ],
    }


def _json(value: float) -> float | str | None:
    """JSON has no infinities: they are told apart from what cannot be told."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


def _number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)
