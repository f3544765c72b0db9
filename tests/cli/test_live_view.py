"""Curves in a line against drawing by hand."""

import hypothesis.strategies as st
from hypothesis import given

from srgdqn.cli.live_view import BLOCKS, PLAIN, sparkline

CURVES = st.lists(st.tuples(st.integers(1, 1_000), st.floats(-1e6, 1e6)), max_size=60)


@given(CURVES, st.integers(1, 40))
def test_a_line_is_as_wide_as_asked_and_higher_where_the_curve_is(curve: list, width: int) -> None:
    values = [value for _, value in curve] or [0.0]
    low, high = min(values), max(values)
    drawn = sparkline(curve, end=1_000, low=low, high=high, width=width)
    assert len(drawn) == width
    plain = sparkline(curve, end=1_000, low=low, high=high, width=width, marks=PLAIN)
    assert plain == drawn.translate(str.maketrans(BLOCKS, PLAIN))
    assert plain.isascii()
    # Part n has the steps after n/width of the end, up to (n + 1)/width.
    means = {}
    for part in range(width):
        mine = [v for s, v in curve if part * 1_000 < s * width <= (part + 1) * 1_000]
        if mine:
            means[part] = sum(mine) / len(mine)
    assert drawn.strip() == "" if not means else drawn[min(means)] != " "
    for a in means:
        for b in means:
            if means[a] < means[b]:
                assert BLOCKS.index(drawn[a]) <= BLOCKS.index(drawn[b])


def test_gaps_are_drawn_as_before_and_the_rest_is_blank() -> None:
    assert sparkline([(3, 0.0), (7, 1.0)], end=10, low=0.0, high=1.0, width=10) == "  ▁▁▁▁█   "


def test_a_flat_curve_is_in_the_middle() -> None:
    assert sparkline([(1, 5.0), (2, 5.0)], end=2, low=5.0, high=5.0, width=2) == "▅▅"
