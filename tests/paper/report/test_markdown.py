import dataclasses
import re

from srgdqn.paper.report.markdown import report_markdown, verdict_summary
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
    assert "(tables/" not in report_markdown(report, data=None)


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
