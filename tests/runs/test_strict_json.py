import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.errors import InputError
from srgdqn.runs.strict_json import DEEPEST, parse

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**127), 2**127)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read(value: object) -> None:
    text = json.dumps(value)
    assert parse(text) == value
    assert parse(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("NaN", "NaN is no number"),
        ("-Infinity", "is no number"),
        ("[1e999]", "not finite"),
        ("1" * 41, "too many digits"),
        ("1" * 5_000, "too many digits"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"b": {"a": 1, "a": 1}}', "twice"),
        ('"\\ud800"', "half a character"),
        ('{"\\udfff": 1}', "half a character"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "deep"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 900 + "1" + "}" * 900, "JSON"),
        (b"\xff", "not JSON"),
        ("[1]".encode("utf-16"), "not JSON"),
        ("[1]".encode("utf-32-be"), "not JSON"),
    ],
)
def test_what_nobody_here_writes_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(text)


def test_as_deep_as_may_be() -> None:
    assert parse("[" * DEEPEST + "]" * DEEPEST) is not None


def test_the_state_of_work_may_have_numbers_that_are_none() -> None:
    nan, infinite = parse("[NaN, -Infinity]", finite=False)
    assert nan != nan
    assert infinite == float("-inf")
