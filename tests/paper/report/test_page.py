import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srgdqn.figures.charts import STYLES, Chart, Panel, Series
from srgdqn.paper.report import page
from srgdqn.paper.report.contents import ClaimRow, Report, Section, Table
from srgdqn.paper.report.page import json_data, plot_data, render_page, rounded, trusted_script
from synthetic_report import costs_chart, curves_chart, points_chart, synthetic_report

PNG = b"\x89PNG"
VOID = {"br", "img", "input", "link", "meta"}


class Outline(HTMLParser):
    """Elements, texts and attributes of a page; an error where elements do not close as they opened."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(attribute)) is not None]


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "get_plotlyjs", lambda: "window.Plotly = 1;")


def outline(report: Report) -> Outline:
    charts = [chart.name for section in report.sections for chart in section.charts]
    return Outline(render_page(report, dict.fromkeys(charts, PNG)))


def test_the_page_says_all_that_the_report_does() -> None:
    report = synthetic_report()
    read = outline(report)
    said = " ".join(" ".join(read.texts).split())
    for text in (report.title, report.question, report.answer, report.claims_note, *report.facts.values()):
        assert text in said
    for claim in report.claims:
        for text in (claim.name, claim.claim, claim.where, *claim.verdicts.values(), *claim.evidence.values()):
            assert text in said
    for section in report.sections:
        assert section.title in said
        assert section.paper_says in said
        for chart in section.charts:
            assert chart.title in said
            assert chart.caption in said
        for table in section.tables:
            assert table.title in said
            assert table.note in said
    assert "Computed in 12 min 34 s, added up over cores: within its budget of 20 min." in said
    assert said.index("undecided") < said.index("Contents") < said.index("What the paper says")


def test_links_lead_somewhere_and_names_are_used_once() -> None:
    read = outline(synthetic_report())
    names = read.values("id")
    assert len(names) == len(set(names))
    targets = [target.removeprefix("#") for target in read.values("href") if target.startswith("#")]
    assert set(targets) <= set(names)
    assert {"figure-2", "variance", "text", "facts", "configurations"} <= set(targets)
    assert not [
        value for name in ("src", "href") for value in read.values(name) if not value.startswith(("#", "data:"))
    ]


def test_a_preview_and_a_section_over_its_budget_say_so() -> None:
    report = synthetic_report(preview=False)
    late = replace(report.sections[0], seconds=1_300.0)
    said = "".join(outline(replace(report, sections=(late,))).texts)
    assert "Computed in 21 min 40 s, added up over cores: over its budget of 20 min." in said
    assert "Preview" not in said
    assert "Preview" in "".join(outline(synthetic_report()).texts)


def test_controls_start_as_the_chart_is_shown() -> None:
    read = outline(synthetic_report())
    boxes = {
        (attributes.get("data-label"), attributes.get("data-group")): "checked" in attributes
        for tag, attributes in read.elements
        if tag == "input" and attributes["type"] == "checkbox"
    }
    assert boxes["srg-dqn", None]
    assert not boxes["dqn-adam", None]
    assert (boxes[None, "corrected"], boxes[None, "printed"]) == (True, False)
    axes = [attributes for tag, attributes in read.elements if tag == "input" and attributes["type"] == "radio"]
    assert [(each["data-axis"], "checked" in each) for each in axes] == [
        ("", True),
        ("steps", False),
        ("queries", False),
        ("seconds", False),
        ("episodes", False),
    ]


def test_a_report_without_charts_needs_no_scripts_for_them() -> None:
    bare = replace(synthetic_report(), sections=(), facts={}, configurations={})
    read = outline(bare)
    assert [tag for tag, _ in read.elements].count("script") == 1


TEXTS = st.text(st.sampled_from("<>&\"'/ab x")) | st.sampled_from(
    ["</script>", "<script>x</script>", "<!--", "<b>", '"/><br>']
)


@settings(max_examples=15)
@given(TEXTS)
def test_no_text_becomes_markup(text: str) -> None:
    """The page has the same elements whatever its texts say, but for paragraphs, which empty texts have none of."""
    assert shape(everywhere(text)) == shape(everywhere("plain"))


def shape(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    found = [(tag, tuple(attributes)) for tag, attributes in outline(report).elements]
    return [each for each in found if each[0] not in ("p", "a")]


def everywhere(text: str) -> Report:
    """A report that says one thing in all places; those whose emptiness means something have a letter before it."""
    some = f"a{text}"
    x = np.arange(2.0)
    series = tuple(Series(f"{some}{k}", STYLES["srg-dqn"], {"n": x, "m": x}, x, group=f"{some}{k}") for k in range(2))
    panel = Panel(some, text, {"n": text, "m": text}, series)
    chart = Chart("chart", text, text, (panel,))
    table = Table("table", text, pl.DataFrame({some: [text], f"{some}b": [text]}), some)
    section = Section("section", text, text, text, (chart,), (table,))
    claim = ClaimRow(text, text, text, {some: "holds"}, {some: some}, "section")
    return Report(text, text, text, (claim,), text, (section,), {text: text}, {text: text})


@given(TEXTS)
def test_data_for_scripts_are_read_as_they_were_given(text: str) -> None:
    read = Outline(f'<script type="application/json">{json_data({text: [text, None, 0.5]})}</script><p></p>')
    assert [name for name, _ in read.elements] == ["script", "p"]
    assert json.loads("".join(read.texts)) == {text: [text, None, 0.5]}


def test_scripts_that_would_end_early_and_numbers_that_json_lacks_are_refused() -> None:
    assert trusted_script("a < b") == "a < b"
    with pytest.raises(ValueError, match="</script"):
        trusted_script("'</SCRIPT>'")
    with pytest.raises(ValueError, match="JSON"):
        json_data([float("nan")])


def test_tables_and_verdicts_are_marked_up_for_readers_who_listen() -> None:
    """Heads for columns and rows, numbers to the right, a region that scrolls; a missing section is not linked."""
    frame = pl.DataFrame({"name": ["a"], "score": [None], "text": ["x < y"]}, schema_overrides={"score": pl.Float64})
    section = Section("s", "S", "", "", tables=(Table("one", "Title", frame, "Note."),))
    claims = synthetic_report().claims
    source = render_page(replace(synthetic_report(), claims=claims, sections=(section,)), {})
    assert 'role="region" aria-label="Title"><table id="table-one"><caption>Title</caption>' in source
    assert '<th scope="row">a</th><td class="number">–</td><td>x &lt; y</td>' in source
    assert '<th scope="col" class="number">score</th>' in source
    assert '<strong class="verdict fails">fails</strong> <span class="evidence">−0.05 [−0.12, −0.01]</span>' in source
    assert f"<td>{claims[1].section}</td>" in source


# What plotly draws


@pytest.mark.parametrize("chart", [curves_chart(), points_chart(), costs_chart()], ids=lambda chart: chart.name)
def test_every_number_of_the_chart_is_there(chart: Chart) -> None:
    data = json.loads(json.dumps(plot_data(chart), allow_nan=False))
    for panel, drawn in zip(chart.panels, data["panels"], strict=True):
        assert list(drawn["axes"]) == list(panel.x_labels)
        for series, each in zip(panel.series, drawn["series"], strict=True):
            kept = (each["label"], each["group"], each["kind"], each["shown"], each["color"])
            assert kept == (series.label, series.group, series.kind, series.shown, series.style.color)
            np.testing.assert_allclose(np.array(each["y"], float), series.y, rtol=1e-4)
            for axis, values in series.x.items():
                np.testing.assert_allclose(drawn["positions"][each["x"][axis]], values, rtol=1e-4)
            assert ("low" in each) == (series.low is not None)
            if series.low is not None:
                np.testing.assert_allclose(np.array(each["low"], float), series.low, rtol=1e-4)
                np.testing.assert_allclose(np.array(each["high"], float), series.high, rtol=1e-4)


def test_positions_that_series_share_are_there_once() -> None:
    (panel, *_) = plot_data(curves_chart())["panels"]
    assert {series["x"]["steps"] for series in panel["series"]} == {0}
    assert len(panel["positions"]) == 1 + 5 + 5


@given(st.lists(st.floats(allow_subnormal=False)))
def test_rounding_keeps_five_digits_and_what_json_can_hold(values: list[float]) -> None:
    found = rounded(np.array(values))
    json.dumps(found, allow_nan=False)
    for value, kept in zip(values, found, strict=True):
        assert kept == pytest.approx(value, rel=1e-4) if np.isfinite(value) else kept is None


def test_texts_are_no_markup_to_plotly() -> None:
    series = Series("<b>x</b>", STYLES["srg-dqn"], {"n": np.arange(2.0)}, np.arange(2.0), group="a&b")
    panel = Panel("<i>", "one\n<two>", {"n": "<n>"}, (series,), categories=("<u>", "&"))
    (drawn,) = plot_data(Chart("name", "", "", (panel,)))["panels"]
    assert drawn["series"][0]["name"] == "&lt;b&gt;x&lt;/b&gt; · a&amp;b"
    assert drawn["series"][0]["label"] == "<b>x</b>"  # compared with what controls say, never shown
    assert drawn["axes"] == {"n": "&lt;n&gt;"}
    assert drawn["layout"]["yaxis"]["title"]["text"] == "one<br>&lt;two&gt;"
    assert drawn["layout"]["xaxis"]["ticktext"] == ["&lt;u&gt;", "&amp;"]


def test_rows_have_names_that_are_no_markup() -> None:
    series = Series("x", STYLES["srg-dqn"], {"n": np.arange(2.0)}, np.arange(2.0), kind="points")
    panel = Panel("", "", {"n": "n"}, (series,), y_categories=("<u>", "b"))
    (drawn,) = plot_data(Chart("name", "", "", (panel,)))["panels"]
    assert drawn["layout"]["yaxis"]["ticktext"] == ["&lt;u&gt;", "b"]
    assert drawn["layout"]["yaxis"]["range"] == [-0.5, 1.5]
    assert drawn["points"] == "ticks"


def test_axes_are_as_the_panel_wants_them() -> None:
    left, right = (panel["layout"] for panel in plot_data(costs_chart())["panels"])
    assert (left["xaxis"]["type"], left["yaxis"]["type"]) == ("linear", "log")
    assert (right["xaxis"]["type"], right["yaxis"]["type"]) == ("log", "log")
    (curves, *_) = plot_data(curves_chart())["panels"]
    assert curves["layout"]["xaxis"]["rangemode"] == "tozero"
    (points,) = plot_data(points_chart())["panels"]
    assert points["layout"]["scattermode"] == "group"
