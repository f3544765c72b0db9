import dataclasses
import json
import re

import polars as pl

from srgdqn.paper.report.contents import MARKS, Section, Table, readings_of
from srgdqn.paper.report.markdown import (
    as_markdown,
    cards_markdown,
    first_markdown,
    report_markdown,
    time_text,
    verdict_frame,
    verdicts_json,
    verdicts_markdown,
)
from synthetic_report import SETS, synthetic_report


def test_everything_a_reader_needs_is_there_in_order() -> None:
    report = synthetic_report(preview=False)
    assert report.first is not None
    text = report_markdown(report)
    parts = (report.first.claim, report.first.question, *report.first.answer, "## Verdicts", report.rules, "## Words")
    places = [text.index(part) for part in parts]
    places += [text.index(f"## {section.title}") for section in report.sections]
    places.append(text.index("## How this was made"))
    assert places == sorted(places)
    for section in report.sections:
        assert section.paper_says in text
        assert section.found in text
        for chart in section.charts:
            assert f"(figures/{chart.name}.png)" in text
            assert f"(tables/{chart.name}.csv)" in text
    for word, meaning in report.glossary.items():
        assert f"- *{word}*: {meaning}" in text


def test_the_first_screen_is_one_picture_one_table_and_three_sentences() -> None:
    report = synthetic_report(preview=False)
    first = report.first
    assert first is not None
    text = first_markdown(report)
    assert text.count("![") == 1
    assert f"![{first.forest.title}](figures/{first.forest.name}.png)" in text
    assert len(re.findall(r"^\| --- ", text, re.MULTILINE)) == 1
    assert f"**{first.question}** {' '.join(first.answer)}\n" in text
    assert "| Pendulum | −5.73 | −7.55 | −1.74 | −1.65 (0.8 %) | −3.51 (45 %) | −1.02 " in text
    (aside,) = first.asides
    asked = f"**{aside.question}** {' '.join(aside.answer)}\n"
    parts = (first.claim, "by set of readings:", first.counts_note, first.question, "| task |", "![", asked)
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert asked in report_markdown(report)
    for reading, counts in first.counts.items():
        (mine,) = re.findall(rf"^- `{reading}`: (.*)$", text, re.MULTILINE)
        words = {"holds": "hold", "fails": "fail"}
        expected = [
            f"{count} {verdict if count == 1 else words.get(verdict, verdict)}"
            for verdict, count in counts.items()
            if count
        ]
        assert mine == ", ".join(expected)
        assert sum(int(number) for number in re.findall(r"\d+", mine)) == sum(
            reading in card.verdicts for card in report.cards
        )


def test_the_small_table_has_a_row_per_task_and_set() -> None:
    report = synthetic_report(preview=False)
    assert report.first is not None
    one = report.first.table
    tables = [
        dataclasses.replace(one, frame=one.frame.with_columns(pl.lit(f"{each}!").alias("SRG-DQN")), note=each)
        for each in SETS
    ]
    first = dataclasses.replace(
        report.first, table=tables[0], more_tables=tuple(tables[1:]), readings={"mnih": "adds a target network"}
    )
    text = first_markdown(dataclasses.replace(report, first=first))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    assert rows[0][:2] == ["task", "readings"]
    place = rows[0].index("SRG-DQN")
    assert [(row[0], row[1], row[place]) for row in rows[2:]] == [
        (task, f"`{each}`", f"{each}!") for task in ("MountainCar", "Pendulum", "CartPole") for each in SETS
    ]
    assert "\n\nmnih\n\n" in text  # the note that speaks of no other set
    assert re.search(r"^- `mnih` \(adds a target network\): ", text, re.MULTILINE)


def test_what_took_no_time_was_computed_above() -> None:
    section = dataclasses.replace(synthetic_report().sections[0], seconds=0.0, budget_seconds=60.0)
    assert time_text(section) == "Computed with the sections above."


def test_without_a_first_screen_the_verdicts_stand_in() -> None:
    report = dataclasses.replace(synthetic_report(), first=None)
    assert first_markdown(report) == cards_markdown(report.cards) + "\n"
    bare = dataclasses.replace(report, cards=(), glossary={}, rules="")
    assert first_markdown(bare).strip() == ""
    text = report_markdown(bare)
    assert "## Words" not in text
    assert "decided, or came closest" not in text


def test_cards_are_lines_with_their_verdicts_and_marks() -> None:
    cards = synthetic_report(preview=False).cards
    table, meanings = cards_markdown(cards).split("\n\n")
    lines = table.splitlines()[2:]
    assert len(lines) == len(cards)
    for line, card in zip(lines, cards, strict=True):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        assert cells[:2] == [card.name, card.claim]
        assert [cell.split(" (")[0] for cell in cells[2:]] == [card.verdicts.get(each, "–") for each in SETS]
    assert "| holds (small, below random) | fails | moot (below random) |" in lines[0]
    assert meanings == f"*small*: {MARKS['small']}; *below random*: {MARKS['below random']}."
    assert "\n\n" not in cards_markdown(cards[1:])


def test_effects_and_notes_stand_below_the_verdicts() -> None:
    text = report_markdown(synthetic_report(preview=False))
    assert (
        "- C1, corrected: holds (small, below random). final reward over svr-dqn: +0.0204 reward per action "
        "[+0.0121, +0.0283].\n" in text
    )
    assert "- C1, mnih: moot (below random). none of its arms has learned.\n" in text
    assert "times as steady" not in text  # not what decided
    assert "- C1: Depends on the target's period.\n" in text


def test_a_preview_says_so() -> None:
    report = synthetic_report(preview=False)
    assert "preview" in report_markdown(dataclasses.replace(report, preview=True))
    assert "preview" not in report_markdown(dataclasses.replace(report, preview=False))


def test_every_claim_has_a_row_and_every_set_of_readings_its_columns() -> None:
    cards = synthetic_report().cards
    assert readings_of(cards) == list(SETS)
    assert verdict_frame(()).height == 0
    first, second, *_ = verdict_frame(cards).rows(named=True)
    assert first["marks, corrected"] == "small, below random"
    assert first["effect, corrected"] == "final reward over svr-dqn: +0.0204 reward per action [+0.0121, +0.0283]"
    assert first["notes"].startswith("Depends on the target's period. Was undecided")
    assert second == {
        "name": "C2 (at their own θ)",
        "claim": "Its gradients vary less.",
        "where": "Section 4",
        "verdict, corrected": "undecided",
        "marks, corrected": None,
        "effect, corrected": "0.99 times as close [0.82, 1.21]",
        **{f"{what}, {reading}": None for reading in SETS[1:] for what in ("verdict", "marks", "effect")},
        "notes": None,
        "section": "variance",
    }


def test_programs_and_readers_get_the_same() -> None:
    report = synthetic_report()
    assert report.first is not None
    read = json.loads(verdicts_json(report))
    assert read["preview"] is True
    assert read["answer"] == list(report.first.answer)
    assert read["counts"] == report.first.counts
    assert [claim["verdicts"] for claim in read["claims"]] == [dict(card.verdicts) for card in report.cards]
    text = verdicts_markdown(report)
    assert text.startswith(f"# {report.title}\n\nPreview")
    assert "| C1 | SRG-DQN reaches a higher score than DQN on all three tasks. | Figure 2 | holds |" in text
    bare = dataclasses.replace(report, first=None)
    assert json.loads(verdicts_json(bare)) == read | {"paper": None, "question": None, "answer": [], "counts": {}}
    assert report.first.question not in verdicts_markdown(bare)


def test_markdown_keeps_its_columns() -> None:
    frame = pl.DataFrame({"a|b": ["one\ntwo", "x|y"], "n": [1, None]})
    assert as_markdown(frame) == "| a\\|b | n |\n| --- | --- |\n| one two | 1 |\n| x\\|y | – |\n"


def test_long_tables_are_folded_and_whole() -> None:
    rows = pl.DataFrame({"place": range(31), "value": [-0.5] * 31})
    section = Section("one", "One", "Nothing.", "Something.", tables=(Table("t", "A & B", rows, "A note."),))
    report = dataclasses.replace(synthetic_report(), sections=(section,))
    text = report_markdown(report)
    folded = text[text.index("<details>") : text.index("</details>")]
    assert "<summary>A &amp; B (31 rows)</summary>\n\n| place | value |" in folded
    assert folded.count("| −0.5 |") == 31
    short = dataclasses.replace(section, tables=(Table("t", "A & B", rows.head(30), "A note."),))
    assert "<details>" not in report_markdown(dataclasses.replace(report, sections=(short,)))
