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
from srgdqn.paper.report.contents import ClaimCard, FirstScreen, Report, Section, Table
from srgdqn.paper.report.page import json_data, plot_data, plot_height, render_page, rounded, trusted_script
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
    return Outline(source(report))


def source(report: Report) -> str:
    return render_page(report, dict.fromkeys([chart.name for chart in report.charts], PNG))


def said_by(report: Report) -> str:
    return " ".join("".join(outline(report).texts).split())


def test_the_page_says_all_that_the_report_does() -> None:
    report = synthetic_report()
    assert report.first is not None
    said = said_by(report)
    for text in (report.title, report.rules, *report.glossary.values(), *report.facts.values()):
        assert text in said
    for card in report.cards:
        effects = [effect for each in card.effects.values() for effect in each]
        for text in (card.name, card.claim, card.where, *card.verdicts.values(), *effects, *card.notes):
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
    first = report.first
    (aside,) = first.asides
    assert first.forest_table is not None
    parts = (
        *(first.claim, "corrected", first.counts_note, first.question, *first.answer),
        *(aside.question, *aside.answer, "The whole comparison", first.table.title, first.forest.title),
        first.forest_table.title,
    )
    rest = ("What these words mean: round, moot", "Claim by claim", "In detail", "What the paper says")
    places = [said.index(part) for part in (*parts, *rest)]
    assert places == sorted(places)


def test_the_strip_is_read_without_colours() -> None:
    """Numbers and words; verdicts that no claim has are left out."""
    report = synthetic_report()
    assert report.first is not None
    counts = {"corrected": {"holds": 1, "fails": 12, "undecided": 0, "moot": 2}, "mnih": {"moot": 1}}
    meant = {"mnih": "adds a target network"}
    first = replace(report.first, counts=counts, readings=meant)  # type: ignore[arg-type]
    said = said_by(replace(report, first=first))
    assert "corrected ✓ 1 holds✕ 12 fail○ 2 mootmnih adds a target network ○ 1 moot" in said
    assert "How its claims fare" not in said_by(replace(report, first=replace(first, counts={})))


def test_a_card_has_its_verdicts_side_by_side_with_marks_and_effects() -> None:
    report = synthetic_report()
    text = source(replace(report, first=None))
    card = text[text.index('<article class="card" id="C1">') :]
    card = card[: card.index("</article>")]
    assert card.count('<div class="finding">') == 3
    assert card.count('<span class="mark">small</span>') == 1
    assert card.count('<span class="mark">below random</span>') == 2
    assert '<strong class="verdict fails"><span aria-hidden="true">✕</span> fails</strong>' in card
    # The deciding contrast is seen, the others are folded.
    assert '<p class="effect">final reward over svr-dqn: +0.0204' in card
    folded = card[card.index("<details>") : card.index("</details>")]
    assert "<summary>2 more contrasts</summary>" in folded
    assert "1.02 times as steady [0.961, 1.11]" in folded
    assert card.count("<details>") == 1
    assert 'href="#C1"' in card
    assert '<a href="#figure-2">Figure 2: learning curves</a>' in card
    assert "Depends on the target&#39;s period." in card
    only = text[text.index('id="C2-(at-their-own-θ)"') :]
    only = only[: only.index("</article>")]
    assert only.count('<div class="finding">') == 1
    assert "<details>" not in only


def test_parts_of_a_claim_are_told_apart() -> None:
    text = source(replace(synthetic_report(), first=None))
    card = text[text.index('id="C18"') :]
    card = card[: card.index("</article>")]
    parts = card[card.index('<ul class="parts">') : card.index("</ul>")]
    assert parts.count("<li") == 2
    # In words of their own: they are not corrected for the number of claims, as verdicts are.
    assert '<b>reward</b> <span class="state">(for the claim)</span>: +0.09' in parts
    assert "✓" not in parts
    legend = "Only verdicts are corrected"
    assert legend in text
    assert legend not in source(replace(synthetic_report(), first=None, cards=synthetic_report().cards[:3]))
    assert '<b>steadiness</b> <span class="state">(against it)</span>: 0.38 times as steady [0.29, 0.46]' in parts
    # There are more contrasts than parts: they are folded.
    assert "<details><summary>All contrasts</summary><ul><li>final reward: +0.02 [+0.01, +0.03]</li>" in card
    assert '<a class="thumb" href="#chart-figure-2"><img data-image="chart-figure-2"' in card


def test_an_answer_without_its_section_has_no_link() -> None:
    report = synthetic_report()
    assert '<a href="#variance">The whole comparison</a>' in source(report)
    assert "The whole comparison" not in source(replace(report, sections=report.sections[:1]))


def test_marks_are_explained_where_there_are_some() -> None:
    report = synthetic_report()
    assert "some effect is smaller than what would matter" in said_by(report)
    plain = said_by(replace(report, cards=report.cards[1:]))
    assert "smaller than what would matter" not in plain


def test_empty_parts_have_no_headings() -> None:
    report = replace(synthetic_report(), first=None, cards=(), glossary={}, rules="", sections=())
    bare = said_by(replace(report, facts={}, configurations={}))
    for heading in ("What the paper claims", "Claim by claim", "In detail", "What these words mean"):
        assert heading not in bare
    assert "How verdicts are reached" not in said_by(report)
    assert "In detail" in said_by(report)
    empty = Section("empty", "Empty", "", "", charts=(Chart("none", "No panels", "", ()),))
    assert "No panels" not in said_by(replace(report, sections=(empty,)))


def test_everything_below_the_cards_is_folded_and_has_a_permalink() -> None:
    read = outline(synthetic_report())
    closed = [attributes for tag, attributes in read.elements if tag == "details" and "folded" in str(attributes)]
    assert closed
    assert all("open" not in attributes for attributes in closed)
    links = [attributes["href"] for tag, attributes in read.elements if attributes.get("class") == "permalink"]
    details = ["#rules", "#figure-2", "#variance", "#text", "#facts", "#configurations"]
    cards = ["#C1", "#C2-(at-their-own-θ)", *(f"#C{number}" for number in range(3, 19))]
    assert links == cards + details


def test_scores_have_tasks_beside_each_other_and_asides_are_quiet() -> None:
    text = source(synthetic_report())
    assert '<td></td><th scope="col">MountainCar</th>' in text
    assert '<th scope="row">SRG-DQN</th><td>0.318</td>' in text
    assert '<td>−3.51 <span class="aside">(45 %)</span></td>' in text
    assert '<td>0.352 <span class="aside">(0 %)</span> <span class="control">dqn-adam</span></td>' in text


def test_no_float_is_shown_raw() -> None:
    frame = pl.DataFrame({"name": ["a"], "value": [0.1 + 0.2], "small": [-1.23456e-8]})
    section = Section("s", "S", "", "", tables=(Table("one", "Title", frame),))
    text = source(replace(synthetic_report(), first=None, sections=(section,)))
    assert '<td class="number">0.3</td><td class="number">−1.23 × 10⁻⁸</td>' in text


def test_links_lead_somewhere_and_names_are_used_once() -> None:
    read = outline(synthetic_report())
    names = read.values("id")
    assert len(names) == len(set(names))
    targets = [target.removeprefix("#") for target in read.values("href") if target.startswith("#")]
    assert set(targets) <= set(names)
    assert {"figure-2", "variance", "text", "facts", "configurations", "C1", "rules"} <= set(targets)
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
    bare = replace(synthetic_report(), first=None, sections=(), facts={}, configurations={})
    read = outline(bare)
    assert [tag for tag, _ in read.elements].count("script") == 2
    assert "Plotly" not in "".join(read.texts)


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
    card = ClaimCard(text, text, text, "section", {some: "holds"}, {some: (text,)}, {some: (some, text)}, (text,))
    small = Table("small", text, pl.DataFrame({some: [text], f"{some}b": [text]}), some)
    forest = Panel(some, text, {"n": text}, series, categories=(text, text), horizontal=True)
    first = FirstScreen(text, {some: {"moot": 1}}, text, (text,), small, Chart("forest", text, text, (forest,)))
    return Report(text, first, (card,), some, {text: text}, (section,), {text: text}, {text: text})


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
    text = source(replace(synthetic_report(), first=None, sections=(section,)))
    assert 'role="region" aria-label="Title"><table id="table-one"><caption>Title</caption>' in text
    assert '<th scope="row">a</th><td class="number">–</td><td>x &lt; y</td>' in text
    assert '<th scope="col" class="number">score</th>' in text
    assert "In the paper: Section 4</p>" in text


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


def test_a_forest_has_its_values_along_x_and_its_rows_from_the_top() -> None:
    report = synthetic_report()
    assert report.first is not None
    (panel, *_) = plot_data(report.first.forest)["panels"]
    layout = panel["layout"]
    assert panel["horizontal"]
    assert layout["xaxis"]["title"]["text"] == "SRG-DQN minus other<br>(reward per action)"
    assert layout["xaxis"]["zeroline"]
    assert layout["yaxis"]["ticktext"] == ["SGD", "same updates", "SVR-DQN", "best control"]
    assert layout["yaxis"]["range"] == [3.5, -0.5]
    assert "title" not in layout["yaxis"]
    forest, curves = report.first.forest.panels[0], curves_chart().panels[0]
    assert plot_height(replace(forest, categories=forest.categories * 2)) > plot_height(forest)
    assert plot_height(curves) == 320


def test_a_forest_has_its_markers_beside_the_switches() -> None:
    text = source(synthetic_report())
    forest = text[text.index('id="chart-first-contrasts"') :]
    forest = forest[: forest.index("</figure>")]
    for mark, color, name in (("●", "#1f3b73", "corrected"), ("■", "#b5482a", "printed"), ("▲", "#2a7f79", "mnih")):
        assert f'<span aria-hidden="true" style="color: {color}">{mark}</span> {name}</label>' in forest
    assert "<legend>Shown</legend>" in forest
