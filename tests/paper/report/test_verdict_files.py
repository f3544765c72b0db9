import json

import polars as pl

from srgdqn.paper.report.markdown import (
    as_markdown,
    readings_of,
    verdict_frame,
    verdicts_json,
    verdicts_markdown,
)
from synthetic_report import synthetic_report


def test_every_claim_has_a_row_and_every_set_of_readings_a_column() -> None:
    claims = synthetic_report().claims
    assert readings_of(claims) == ["corrected", "printed"]
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


def test_no_claims_are_a_table_without_rows() -> None:
    assert verdict_frame(()).height == 0


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
