"""The page: one HTML file that asks nothing of any network, with everything that a report says."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from plotly.offline import get_plotlyjs

from srgdqn.paper.report.chart_block import chart_block
from srgdqn.paper.report.contents import Report, Section
from srgdqn.paper.report.images import small_image
from srgdqn.paper.report.markup import (
    Markup,
    anchor,
    join,
    paragraphs,
    script,
    tag,
)
from srgdqn.paper.report.tables import scrolling, table_block
from srgdqn.paper.report.verdicts import verdict_table

_PREVIEW = (
    "Preview: this is a quick run, with fewer rounds and smaller budgets than the verdicts need. It decides nothing."
)


def render_page(report: Report, images: Mapping[str, bytes] | None = None) -> str:
    """The page of a report.

    Args:
      report: what it says.
      images: PNGs of its charts by name; those that are missing are drawn.

    """
    drawn = dict(images or {})
    for section in report.sections:
        for chart in section.charts:
            if chart.name not in drawn:
                drawn[chart.name] = small_image(chart)
    return f"<!DOCTYPE html>\n{tag('html', _head(report), _body(report, drawn), lang='en')}\n"


def _head(report: Report) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", report.title),
        # An empty icon: browsers ask for one otherwise.
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(_own("page.css"))),
        script('document.documentElement.className = "scripted";'),
    )


def _body(report: Report, images: Mapping[str, bytes]) -> Markup:
    titles = {section.name: section.title for section in report.sections}
    charts = {chart.name: chart.title for section in report.sections for chart in section.charts}
    banner = tag("p", _PREVIEW, class_="preview") if report.preview else Markup()
    main = tag(
        "main",
        _answer(report, titles),
        _contents(report),
        (_section(section, images, charts) for section in report.sections),
        _facts(report),
        _configurations(report),
    )
    scripts = join(script(get_plotlyjs()), script(_own("page.js"))) if charts else Markup()
    return tag("body", tag("header", banner, tag("h1", report.title)), main, scripts)


def _answer(report: Report, titles: dict[str, str]) -> Markup:
    return tag(
        "section",
        tag("h2", "Question and answer"),
        tag("div", paragraphs(report.question), class_="question"),
        tag("div", paragraphs(report.answer), class_="answer"),
        tag("h2", "Verdicts"),
        verdict_table(report.claims, titles),
        tag("div", paragraphs(report.claims_note), class_="note"),
        id="verdicts",
    )


def _contents(report: Report) -> Markup:
    entries = [(anchor(section.name), section.title) for section in report.sections]
    entries += [("facts", "Facts")] if report.facts else []
    entries += [("configurations", "Configurations")] if report.configurations else []
    links = (tag("li", tag("a", title, href=f"#{name}")) for name, title in entries)
    return tag("nav", tag("h2", "Contents"), tag("ol", links), aria_label="Contents")


def _section(section: Section, images: Mapping[str, bytes], charts: dict[str, str]) -> Markup:
    sides = (("What the paper says", section.paper_says), ("What was found", section.found))
    time = time_text(section)
    return tag(
        "section",
        tag("h2", section.title),
        tag("div", (tag("div", tag("h3", head), paragraphs(text)) for head, text in sides), class_="beside"),
        tag("h3", "Charts") if section.charts else Markup(),
        (chart_block(chart, images[chart.name], titles=charts) for chart in section.charts),
        tag("h3", "Tables") if section.tables else Markup(),
        map(table_block, section.tables),
        tag("p", time, class_="note") if time else Markup(),
        id=anchor(section.name),
    )


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
    """So many seconds as a reader wants them.

    >>> [duration(seconds) for seconds in (0.52, 75, 1_200, 7_380)]
    ['0.5 s', '1 min 15 s', '20 min', '2 h 3 min']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3_600, whole // 60 % 60, whole % 60
    parts = {"h": hours, "min": minutes, "s": 0 if hours else rest}
    return " ".join(f"{count} {unit}" for unit, count in parts.items() if count)


def _facts(report: Report) -> Markup:
    if not report.facts:
        return Markup()
    rows = (tag("tr", tag("th", name, scope="row"), tag("td", text)) for name, text in report.facts.items())
    table = tag("table", tag("caption", "How this report was made"), tag("tbody", rows))
    folded = tag("details", tag("summary", "How this report was made"), scrolling("Facts", table))
    return tag("section", tag("h2", "Facts"), folded, id="facts")


def _configurations(report: Report) -> Markup:
    if not report.configurations:
        return Markup()
    folded = (
        tag("details", tag("summary", name), scrolling(f"Configuration of {name}", tag("pre", text)))
        for name, text in report.configurations.items()
    )
    return tag("section", tag("h2", "Configurations"), folded, id="configurations")


def _own(name: str) -> str:
    return files("srgdqn.paper.report").joinpath(name).read_text(encoding="utf-8")
