import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.paper.report.markup import (
    Markup,
    join,
    json_script,
    paragraphs,
    script,
    tag,
)

NASTY = st.text(
    st.sampled_from("<>&\"'/ab=;!-\\") | st.characters(codec="utf-8", exclude_categories=["C"])
) | st.sampled_from(
    ["</script>", "<script>alert(1)</script>", "<!--", "]]>", '" onclick="x', "&lt;", "<img src=x>", "\\u003c"]
)


class Reader(HTMLParser):
    """What a browser makes of markup: elements, and texts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(NASTY, NASTY)
def test_texts_and_attributes_are_read_as_they_were_given(text: str, value: str) -> None:
    read = Reader(tag("p", text, title=value, data_x=value))
    assert read.tags == [("p", {"title": value, "data-x": value})]
    assert read.text == text


@given(NASTY)
def test_data_for_scripts_are_read_as_they_were_given(text: str) -> None:
    read = Reader(json_script("data", {text: [text, None, 0.5]}) + tag("p"))
    assert [name for name, _ in read.tags] == ["script", "p"]
    assert json.loads(read.text) == {text: [text, None, 0.5]}


def test_markup_is_not_escaped_again() -> None:
    inner = tag("b", "a & b")
    assert tag("p", inner, " < ", [inner, inner]) == f"<p>{inner} &lt; {inner}{inner}</p>"
    assert isinstance(join("<", inner), Markup)


def test_paragraphs_are_between_blank_lines() -> None:
    assert paragraphs("\n one\nline\n \n\ntwo\n") == "<p>one\nline</p><p>two</p>"
    assert paragraphs("") == ""


def test_scripts_that_would_end_early_are_refused() -> None:
    assert script("a < b") == "<script>a < b</script>"
    with pytest.raises(ValueError, match="</script"):
        script("'</SCRIPT>'")


def test_numbers_that_json_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_script("data", [float("nan")])
