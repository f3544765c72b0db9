"""What differs between then and now, in words."""

from __future__ import annotations

from typing import Any

import pytest

from srgdqn.runs.changes import changes


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 3, "a": 1}, ["b was 2, and now is 3"]),
        ({"a": 1}, {}, ["a was 1, and now is not given"]),
        ({}, {"a": None}, ["a was not given, and now is None"]),
        ({"sets": ["avx2", "fma"]}, {"sets": []}, ["sets was avx2 fma, and now is none"]),
        ({"of": {"jax": "1", "numpy": "2"}}, {"of": {"jax": "3", "numpy": "2"}}, ["jax was 1, and now is 3"]),
        ({"of": {}}, {"of": {"part": {"x": 1}}}, ["part was not given, and now is {'x': 1}"]),
        ({"a": "x" * 61}, {"a": "y" * 60}, [f"a was {'x' * 59}…, and now is {'y' * 60}"]),
    ],
)
def test_what_differs_is_named_with_both_values(then: dict[str, Any], now: dict[str, Any], told: list[str]) -> None:
    assert changes(then, now) == told
