import dataclasses
import json
import re

import polars as pl

from srgdqn.paper.report.contents import readings_of
from srgdqn.paper.report.markdown import (
    as_markdown,
    report_markdown,
    verdict_frame,
    verdict_summary,
    verdicts_json,
    verdicts_markdown,
)
from synthetic_report import synthetic_report


def test_everything_a_reader_needs_is_there_in_order() -> None:
    report = synthetic_report(preview=False)
    text = report_markdown(report)
    places = [text.index(part) for part in (report.question, report.answer, "## Verdicts", report.claims_note)]
    places += [text.index(f"## {section.title}") for section in report.sections]
    places.append(text.index("## How this was made"))
    assert places == sorted(places)
    for section in report.sections:
        assert section.paper_says in text
        assert section.found in text
        for chart in section.charts:
            assert f"(figures/{chart.name}.png)" in text
            assert f"(tables/{chart.name}.csv)" in text


def test_the_summary_has_a_line_per_claim_with_its_verdicts() -> None:
    report = synthetic_report(preview=False)
    lines = verdict_summary(report).splitlines()[2:]
    assert len(lines) == len(report.claims)
    for line, row in zip(lines, report.claims, strict=True):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        assert cells[0] == row.name
        assert set(row.verdicts.values()) <= set(cells[2:])


def test_a_preview_says_so() -> None:
    report = synthetic_report(preview=False)
    assert "preview" in report_markdown(dataclasses.replace(report, preview=True))
    assert "preview" not in report_markdown(dataclasses.replace(report, preview=False))


def test_every_claim_has_a_row_and_every_set_of_readings_a_column() -> None:
    claims = synthetic_report().claims
    assert readings_of(claims) == ["corrected", "printed"]
    assert verdict_frame(()).height == 0
    frame = verdict_frame(claims)
    assert frame.rows(named=True)[1] == {
        "name": "C2 (at their own θ)",
        "claim": "Its gradients vary less.",
        "where": "Section 4",
        "verdict, corrected": "undecided",
        "evidence, corrected": "log ratio −0.01 [−0.20, +0.19]",
        "verdict, printed": None,
        "evidence, printed": None,
        "section": "variance",
    }


def test_programs_and_readers_get_the_same() -> None:
    report = synthetic_report()
    read = json.loads(verdicts_json(report))
    assert read["preview"] is True
    assert [claim["verdicts"] for claim in read["claims"]] == [dict(claim.verdicts) for claim in report.claims]
    text = verdicts_markdown(report)
    assert text.startswith(f"# {report.title}\n\nPreview")
    assert "| C1 | SRG-DQN reaches a higher score than DQN on all three tasks. | Figure 2 | holds |" in text


def test_markdown_keeps_its_columns() -> None:
    frame = pl.DataFrame({"a|b": ["one\ntwo", "x|y"], "n": [1, None]})
    assert as_markdown(frame) == "| a\\|b | n |\n| --- | --- |\n| one two | 1 |\n| x\\|y | – |\n"
