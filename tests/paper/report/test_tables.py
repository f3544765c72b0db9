import polars as pl

from srgdqn.paper.report.contents import Table
from srgdqn.paper.report.tables import as_markdown, table_block


def test_a_table_has_heads_for_columns_and_rows() -> None:
    frame = pl.DataFrame({"name": ["a", "b"], "score": [0.5, None], "text": ["x < y", ""]})
    block = table_block(Table("one", "Title", frame, "Note."))
    assert block == (
        '<div class="scrolling" tabindex="0" role="region" aria-label="Title"><table id="table-one">'
        "<caption>Title</caption>"
        '<thead><tr><th scope="col">name</th><th scope="col" class="number">score</th>'
        '<th scope="col">text</th></tr></thead>'
        '<tbody><tr><th scope="row">a</th><td class="number">0.5</td><td>x &lt; y</td></tr>'
        '<tr><th scope="row">b</th><td class="number">–</td><td></td></tr></tbody></table></div>'
        '<p class="note">Note.</p>'
    )


def test_markdown_keeps_its_columns() -> None:
    frame = pl.DataFrame({"a|b": ["one\ntwo", "x|y"], "n": [1, None]})
    assert as_markdown(frame) == "| a\\|b | n |\n| --- | --- |\n| one two | 1 |\n| x\\|y | – |\n"
