"""A report as Markdown, and its verdicts as Markdown, a table and JSON."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from srgdqn.paper.report.contents import MARKS, ClaimCard, FirstScreen, Report, Section, Verdict, readings_of

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LONGEST = 30  # rows of a table that is not folded


def report_markdown(report: Report) -> str:
    """The report, with its images in the folder `figures` and links to its data in the folder `tables`."""
    parts = [
        f"# {report.title}",
        "**This is a preview: a quick run decides nothing.**" if report.preview else "",
        *(_whole_first(report.first) if report.first else ()),
        "## Verdicts",
        report.cards_note,
        cards_markdown(report.cards),
        _effects(report.cards),
        report.rules,
        _glossary(report.glossary),
        *map(_section, report.sections),
        "## How this was made",
        as_markdown(pl.DataFrame({"what": list(report.facts), "value": list(report.facts.values())})).strip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def first_markdown(report: Report) -> str:
    """The first screen in short: three sentences, a small table over all sets of readings, one picture, and what other
    studies answer. Without a first screen, the table of verdicts.
    """
    first = report.first
    if first is None:
        return f"{cards_markdown(report.cards)}\n"
    parts = [
        *_claimed(first),
        " ".join([f"**{first.question}**", *first.answer]),
        *_scores(first, without=["untrained agent"]),
        _forest(first),
        *_asides(first),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _whole_first(first: FirstScreen) -> list[str]:
    """The first screen with all that it says."""
    return [
        *_claimed(first),
        " ".join([f"**{first.question}**", *first.answer]),
        *_asides(first),
        *_scores(first),
        _forest(first),
    ]


def _claimed(first: FirstScreen) -> list[str]:
    """What the paper claims, and a line for each set of readings with how its claims fare."""
    lines = [
        f"- `{reading}`{f' ({first.readings[reading]})' if reading in first.readings else ''}: {counts_text(counts)}"
        for reading, counts in first.counts.items()
    ]
    claimed = [f"The paper claims: {first.claim}"]
    if lines:
        total = max(sum(counts.values()) for counts in first.counts.values())
        claimed += [f"How its {total} claims fare, by set of readings:", "\n".join(lines), first.counts_note]
    return claimed


def _scores(first: FirstScreen, without: Sequence[str] = ()) -> list[str]:
    """The small table, perhaps without some columns: a row per task and set of readings."""
    tables = [first.table, *first.more_tables]
    if len(tables) == 1 or len(tables) != len(first.counts):
        shown = first.table.frame.drop(without, strict=False)
        return [f"**{first.table.title}**", as_markdown(shown).strip(), first.table.note]
    frames = [
        table.frame.with_row_index("place").insert_column(2, pl.lit(f"`{reading}`").alias("readings"))
        for reading, table in zip(first.counts, tables, strict=True)
    ]
    rows = pl.concat(frames, how="diagonal").sort("place", maintain_order=True).drop("place")
    # The first table's note also says who diverges with the other sets, which are shown here.
    return [as_markdown(rows.drop(without, strict=False)).strip(), tables[-1].note]


def _asides(first: FirstScreen) -> list[str]:
    """What other studies answer."""
    return [" ".join([f"**{aside.question}**", *aside.answer]) for aside in first.asides]


def _forest(first: FirstScreen) -> str:
    chart = first.forest
    picture = f"![{chart.title}](figures/{chart.name}.png)\n\n*{chart.title}.* {chart.caption}"
    return picture if chart.panels else ""


def counts_text(counts: Mapping[Verdict, int]) -> str:
    """How many claims have each verdict; those that none has are left out.

    >>> counts_text({"holds": 1, "fails": 8, "undecided": 4, "moot": 0})
    '1 holds, 8 fail, 4 undecided'
    """
    return ", ".join(f"{count} {counted(verdict, count)}" for verdict, count in counts.items() if count)


def counted(verdict: Verdict, count: int) -> str:
    """The word for that many claims.

    >>> counted("holds", 1), counted("holds", 2), counted("moot", 2)
    ('holds', 'hold', 'moot')
    """
    return verdict if count == 1 else verdict.removesuffix("s")


def cards_markdown(cards: Sequence[ClaimCard]) -> str:
    """The cards as a table, a line per claim: what the paper says, and for each set of readings the verdict."""
    if not cards:
        return ""
    columns = {"claim": [card.name for card in cards], "what the paper says": [card.claim for card in cards]}
    for reading in readings_of(cards):
        columns[reading] = [_verdict(card, reading) for card in cards]
    marks = [mark for mark in MARKS if any(mark in each for card in cards for each in card.marks.values())]
    meanings = "\n\n" + "; ".join(f"*{mark}*: {MARKS[mark]}" for mark in marks) + "." if marks else ""
    return as_markdown(pl.DataFrame(columns)).strip() + meanings


def _verdict(card: ClaimCard, reading: str) -> str:
    """The verdict with its marks; a dash where there is none."""
    marks = ", ".join(card.marks.get(reading, ()))
    verdict = card.verdicts.get(reading, "–")
    return f"{verdict} ({marks})" if marks else verdict


def _effects(cards: Sequence[ClaimCard]) -> str:
    """The contrast that decided, of every claim and set of readings, and notes."""
    lines = [
        f"- {card.name}, {reading}: {_verdict(card, reading)}. {effects[0].rstrip('.')}."
        for card in cards
        for reading, effects in card.effects.items()
        if effects
    ]
    notes = [f"- {card.name}: {note}" for card in cards for note in card.notes]
    parts = ["The contrast that decided, or came closest:", "\n".join(lines)] if lines else []
    if notes:
        parts += ["What else must be said:", "\n".join(notes)]
    return "\n\n".join(parts)


def _glossary(glossary: Mapping[str, str]) -> str:
    lines = [f"- *{word}*: {meaning}" for word, meaning in glossary.items()]
    return "\n".join(["## Words", "", *lines]) if lines else ""


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
        rows = as_markdown(table.frame).strip()
        if table.frame.height > _LONGEST:
            summary = f"<summary>{html.escape(table.title)} ({table.frame.height} rows)</summary>"
            parts += ["<details>", summary, rows, "</details>", table.note]
        else:
            parts += [f"**{table.title}**", rows, table.note]
    parts.append(time_text(section))
    return "\n\n".join(part for part in parts if part)


def verdict_frame(cards: Sequence[ClaimCard]) -> pl.DataFrame:
    """The verdicts as data: a row per claim."""
    columns: dict[str, list[str | None]] = {
        "name": [card.name for card in cards],
        "claim": [card.claim for card in cards],
        "where": [card.where for card in cards],
    }
    for reading in readings_of(cards):
        columns[f"verdict, {reading}"] = [card.verdicts.get(reading) for card in cards]
        columns[f"marks, {reading}"] = [", ".join(card.marks.get(reading, ())) or None for card in cards]
        columns[f"effect, {reading}"] = [next(iter(card.effects.get(reading, ())), None) for card in cards]
    columns["notes"] = [" ".join(card.notes) or None for card in cards]
    columns["section"] = [card.section for card in cards]
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def verdicts_markdown(report: Report) -> str:
    """Question, answer and verdicts as Markdown."""
    preview = ["Preview: a quick run decides nothing."] if report.preview else []
    asked = [report.first.question, " ".join(report.first.answer)] if report.first else []
    parts = [f"# {report.title}", *preview, *asked, as_markdown(verdict_frame(report.cards)).strip(), report.rules]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdicts_json(report: Report) -> str:
    """The same for programs."""
    first = report.first
    content = {
        "title": report.title,
        "preview": report.preview,
        "paper": first.claim if first else None,
        "question": first.question if first else None,
        "answer": list(first.answer) if first else [],
        "counts": {reading: dict(counts) for reading, counts in first.counts.items()} if first else {},
        "rules": report.rules,
        "claims": [dataclasses.asdict(card) for card in report.cards],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def time_text(section: Section) -> str:
    """What a section took to compute, beside its budget."""
    if section.seconds is None:
        return ""
    if section.seconds == 0:
        return "Computed with the sections above."
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
    """A value as a reader wants it: numbers with four digits, a dash for a missing one.

    >>> [text_of(value) for value in (0.1 + 0.2, 3.0, 12345.678, -2.5e-07, 0.0)]
    ['0.3', '3', '12,346', '−2.5 × 10⁻⁷', '0']
    >>> text_of(20_001), text_of(None), text_of(float("nan")), text_of(float("-inf")), text_of(1e110)
    ('20001', '–', '–', '−∞', '1 × 10¹¹⁰')
    >>> text_of("31% of 100, -0.5 [-1, +0.2] by dqn-2")
    '31 % of 100, −0.5 [−1, +0.2] by dqn-2'
    >>> text_of("3.2e-05*"), text_of("1e-05"), text_of("srg-dqn-1e5")
    ('3.2 × 10⁻⁵*', '1 × 10⁻⁵', 'srg-dqn-1e5')
    """
    if value is None:
        return "–"
    text = _number(value) if isinstance(value, float) else re.sub(r"(?<=\d)%", " %", str(value))
    text = re.sub(r"(?<![\w.\-])(\d(?:\.\d+)?)e(-\d+)", lambda found: f"{found[1]} × 10{_power(found[2])}", text)
    return re.sub(r"(?<![\w.\-])-(?=[\d.∞])", "−", text)


def _power(exponent: str) -> str:
    return str(int(exponent)).translate(_RAISED)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    size = abs(value)
    if size == 0 or 1e-4 <= size < 9_999.5:
        return f"{value:.4g}"
    if 9_999.5 <= size < 1e9:
        return f"{value:,.0f}"
    digits, power = f"{value:.2e}".split("e")
    return f"{float(digits):g} × 10{_power(power)}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
