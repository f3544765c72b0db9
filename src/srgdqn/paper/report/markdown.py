"""A report as Markdown: for reading where there is no browser, and for the documentation."""

from __future__ import annotations

import polars as pl

from srgdqn.paper.report.contents import Report, Section
from srgdqn.paper.report.page import time_text
from srgdqn.paper.report.tables import as_markdown
from srgdqn.paper.report.verdicts import readings_of

_LONGEST = 40  # rows of a table that are shown; the whole of it is in its file


def report_markdown(report: Report, *, images: str = "figures", data: str | None = "tables") -> str:
    """The report, with its images in the folder `images` and links to its data in the folder `data`, if any."""
    parts = [
        f"# {report.title}",
        "**This is a preview: a quick run decides nothing.**" if report.preview else "",
        f"**{report.question}** {report.answer}",
        "## Verdicts",
        verdict_summary(report),
        report.claims_note,
        _evidence(report),
        *(_section(section, images, data) for section in report.sections),
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


def _section(section: Section, images: str, data: str | None) -> str:
    parts = [
        f"## {section.title}",
        f"*The paper:* {section.paper_says}",
        f"*Here:* {section.found}",
    ]
    for chart in section.charts:
        source = f" [Data]({data}/{chart.name}.csv)." if data else ""
        parts += [f"![{chart.title}]({images}/{chart.name}.png)", f"*{chart.title}.* {chart.caption}{source}"]
    for table in section.tables:
        cut = f"The first {_LONGEST} of {table.frame.height} rows." if table.frame.height > _LONGEST else ""
        parts += [f"**{table.title}**", as_markdown(table.frame.head(_LONGEST)).strip(), cut, table.note]
    parts.append(time_text(section))
    return "\n\n".join(part for part in parts if part)
