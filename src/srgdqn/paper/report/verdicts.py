"""The verdicts on the paper's claims: the table that the page starts with, and the same as files."""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars as pl

from srgdqn.paper.report.contents import ClaimRow, Report
from srgdqn.paper.report.markup import Markup, anchor, join, tag
from srgdqn.paper.report.tables import as_markdown, scrolling

_CAPTION = "Verdicts on the paper’s claims"


def verdict_table(claims: Sequence[ClaimRow], section_titles: dict[str, str]) -> Markup:
    """A row per claim, with a column for each set of readings."""
    readings = readings_of(claims)
    heads = ("Name", "Claim", "In the paper", *readings, "Shown in")
    rows = (
        tag(
            "tr",
            tag("th", row.name, scope="row"),
            tag("td", row.claim, class_="claim"),
            tag("td", row.where),
            (_verdict(row, reading) for reading in readings),
            tag("td", _link(row.section, section_titles)),
        )
        for row in claims
    )
    table = tag(
        "table",
        tag("caption", _CAPTION),
        tag("thead", tag("tr", (tag("th", head, scope="col") for head in heads))),
        tag("tbody", rows),
        class_="verdicts",
    )
    return scrolling(_CAPTION, table)


def readings_of(claims: Sequence[ClaimRow]) -> list[str]:
    """The sets of readings that any claim has a verdict for, each once."""
    return list(dict.fromkeys(reading for row in claims for reading in row.verdicts))


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
        "claims": [
            {
                "name": row.name,
                "claim": row.claim,
                "where": row.where,
                "verdicts": dict(row.verdicts),
                "evidence": dict(row.evidence),
                "section": row.section,
            }
            for row in report.claims
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _verdict(row: ClaimRow, reading: str) -> Markup:
    if reading not in row.verdicts:
        return tag("td", "–")
    verdict, evidence = row.verdicts[reading], row.evidence.get(reading, "")
    said = join(" ", tag("span", evidence, class_="evidence")) if evidence else Markup()
    return tag("td", tag("strong", verdict, class_=f"verdict {verdict}"), said)


def _link(section: str, titles: dict[str, str]) -> Markup:
    # A claim may belong to a part that this report leaves out.
    return tag("a", titles[section], href=f"#{anchor(section)}") if section in titles else join(section)
