"""A report as Markdown, and its verdicts as Markdown, a table and JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from srgdqn.paper.report.contents import ClaimRow, Report, Section, readings_of

_LONGEST = 40  # rows of a table that are shown; the whole of it is in its file


def report_markdown(report: Report) -> str:
    """The report, with its images in the folder `figures` and links to its data in the folder `tables`."""
    parts = [
        f"# {report.title}",
        "**This is a preview: a quick run decides nothing.**" if report.preview else "",
        f"**{report.question}** {report.answer}",
        "## Verdicts",
        verdict_summary(report),
        report.claims_note,
        _evidence(report),
        *map(_section, report.sections),
        "## How this was made",
        as_markdown(pl.DataFrame({"what": list(report.facts), "value": list(report.facts.values())})).strip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdict_summary(report: Report) -> str:
    """A line per claim: what the paper says, and the verdict for each set of readings."""
    columns = {
        "claim": [row.name for row in report.claims],
        "what the paper says": [row.claim for row in report.claims],
    }
    for reading in readings_of(report.claims):
        columns[reading] = [row.verdicts.get(reading, "–") for row in report.claims]
    return as_markdown(pl.DataFrame(columns)).strip() if report.claims else ""


def _evidence(report: Report) -> str:
    lines = [
        f"- {row.name}, {reading}: {row.verdicts[reading]}. {text}."
        for row in report.claims
        for reading, text in row.evidence.items()
    ]
    return "\n".join(["The contrast that decided, or came closest:", "", *lines]) if lines else ""


def _section(section: Section) -> str:
    parts = [
        f"## {section.title}",
        f"*The paper:* {section.paper_says}",
        f"*Here:* {section.found}",
    ]
    for chart in section.charts:
        parts.append(f"![{chart.title}](figures/{chart.name}.png)")
        parts.append(f"*{chart.title}.* {chart.caption} [Data](tables/{chart.name}.csv).")
    for table in section.tables:
        cut = f"The first {_LONGEST} of {table.frame.height} rows." if table.frame.height > _LONGEST else ""
        parts += [f"**{table.title}**", as_markdown(table.frame.head(_LONGEST)).strip(), cut, table.note]
    parts.append(time_text(section))
    return "\n\n".join(part for part in parts if part)


def verdict_frame(claims: Sequence[ClaimRow]) -> pl.DataFrame:
    """The table of verdicts as data: a row per claim."""
    columns: dict[str, list[str | None]] = {
        "name": [row.name for row in claims],
        "claim": [row.claim for row in claims],
        "where": [row.where for row in claims],
    }
    for reading in readings_of(claims):
        columns[f"verdict, {reading}"] = [row.verdicts.get(reading) for row in claims]
        columns[f"evidence, {reading}"] = [row.evidence.get(reading) for row in claims]
    columns["section"] = [row.section for row in claims]
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def verdicts_markdown(report: Report) -> str:
    """Question, answer and verdicts as Markdown."""
    preview = ["Preview: a quick run decides nothing."] if report.preview else []
    parts = [
        f"# {report.title}",
        *preview,
        report.question,
        report.answer,
        as_markdown(verdict_frame(report.claims)).strip(),
        report.claims_note,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdicts_json(report: Report) -> str:
    """The same for programs."""
    content = {
        "title": report.title,
        "preview": report.preview,
        "question": report.question,
        "answer": report.answer,
        "note": report.claims_note,
        "claims": [dataclasses.asdict(row) for row in report.claims],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def time_text(section: Section) -> str:
    """What a section took to compute, beside its budget."""
    if section.seconds is None:
        return ""
    taken = f"Computed in {duration(section.seconds)}, added up over cores"
    if section.budget_seconds is None:
        return f"{taken}."
    within = "within" if section.seconds <= section.budget_seconds else "over"
    return f"{taken}: {within} its budget of {duration(section.budget_seconds)}."


def duration(seconds: float) -> str:
    """Seconds for a reader.

    >>> [duration(seconds) for seconds in (0.52, 75, 1_200, 7_380)]
    ['0.5 s', '1 min 15 s', '20 min', '2 h 3 min']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3_600, whole // 60 % 60, whole % 60
    parts = {"h": hours, "min": minutes, "s": 0 if hours else rest}
    return " ".join(f"{count} {unit}" for unit, count in parts.items() if count)


def as_markdown(frame: pl.DataFrame) -> str:
    """A data frame as a Markdown table."""
    rows = [frame.columns, ["---"] * frame.width, *([text_of(value) for value in row] for row in frame.iter_rows())]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def text_of(value: Any) -> str:
    """A value as text; a dash for a missing one.

    >>> text_of(0.25), text_of(None), text_of(float("nan"))
    ('0.25', '–', '–')
    """
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "–" if missing else str(value)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
