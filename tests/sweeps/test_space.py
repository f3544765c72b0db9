"""What a search may choose from, in words and in Python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.errors import InputError
from srgdqn.sweeps.space import Choice, Range, space_from_words, space_of


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("eta=1e-4..1e-1", Range(1e-4, 1e-1, log=True, whole=False)),
        ("eta=0.01..0.1", Range(0.01, 0.1, log=True, whole=False)),  # a decade
        ("gamma=0.9..0.99", Range(0.9, 0.99, log=False, whole=False)),
        ("gamma=log:0.9..0.99", Range(0.9, 0.99, log=True, whole=False)),
        ("eta=lin:1e-4..1e-1", Range(1e-4, 1e-1, log=False, whole=False)),
        ("eta=0..0.1", Range(0.0, 0.1, log=False, whole=False)),  # 0 has no logarithm
        ("coefficient=-1..1", Range(-1.0, 1.0, log=False, whole=False)),
        ("batch-size=16..256", Range(16, 256, log=True, whole=True)),
        ("inner_iterations=4..16", Range(4, 16, log=False, whole=True)),
        ("time_limit=100..500", Range(100, 500, log=False, whole=True)),
        ("hidden=20,20+20,none", Choice(((20,), (20, 20), ()))),
        ("loss=squared,huber", Choice(("squared", "huber"))),
        ("clip_norm=none,1,10", Choice((None, 1.0, 10.0))),
        ("anchor_step=true,false", Choice((True, False))),
    ],
)
def test_words(word: str, part: Range | Choice) -> None:
    name = word.partition("=")[0].replace("-", "_")
    assert space_from_words([word]) == {name: part}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["eta"], "does not say what to search"),
        (["etta=1..2"], "Did you mean 'eta'?"),
        (["lr=1..2"], "It is called eta or alpha here"),
        (["task=CartPole,Pendulum"], "unknown option of a sweep 'task'"),
        (["eta=2..1"], "must go up"),
        (["eta=log:0..1"], "has no logarithm"),
        (["eta=a..b"], "eta is 'a', which is not a number"),
        (["batch_size=1.5..3"], "which is not a whole number"),
        (["hidden=8..16"], "has no range"),
        (["anchor_step=true..false"], "has no range"),
        (["loss=squared,cubed"], "unknown loss 'cubed'"),
        (["eta=0.1,0.1"], "must be different ones"),
        (["eta=1..2", "eta=3..4"], "searched twice"),
        ([], "nothing to search"),
    ],
)
def test_what_cannot_be_searched_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(InputError) as raised:
        space_from_words(words)
    assert why in str(raised.value)


@pytest.mark.parametrize("part", [3, (1, 2, 3), {"low": 1}, None])
def test_what_is_neither_range_nor_choice_is_refused(part: Any) -> None:
    with pytest.raises(InputError, match="neither a range nor choices"):
        space_of({"eta": part})


@given(st.floats(1e-6, 1e3), st.floats(1.001, 1e4))
def test_a_range_is_what_its_own_words_say(low: float, factor: float) -> None:
    (part,) = space_of({"eta": (low, low * factor)}).values()
    assert isinstance(part, Range)
    assert part.log == (low * factor >= 10 * low)
    assert space_of({"eta": str(part)}) == {"eta": part}
