from typing import Any

import pytest

from srgdqn.errors import InputError
from srgdqn.runs.metadata import check_metadata, required
from srgdqn.runs.provenance import provenance


def test_what_runs_tell_is_sound() -> None:
    check_metadata({})
    check_metadata(provenance())
    check_metadata(
        {"observation_size": 4, "actions": 2, "action_type": None, "action_table": [0, 1], "interrupted": False}
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("observation_size", 0),
        ("observation_size", True),
        ("observation_size", 2**31),
        ("observation_size", "4"),
        ("observation_shape", [4, -1]),
        ("observation_shape", [1] * 100),
        ("observation_shape", 4),
        ("observations", []),
        ("actions", 2.0),
        ("action_type", "object"),
        ("action_type", "U1000000000"),
        ("action_type", []),
        ("action_table", {}),
        ("action_table", []),
        ("evaluation_limit", 0),
        ("interrupted", 1),
        ("versions", {"jax": 3}),
        ("versions", []),
        ("inputs", []),
        ("inputs", {"user_code": []}),
        ("inputs", {"user_code": {"network": "mine"}}),
        ("instruction_sets", "avx2"),
        ("processor", {}),
    ],
)
def test_what_is_of_another_kind_is_named(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"its {name} is"):
        check_metadata({name: value})


def test_what_is_missing_is_named() -> None:
    assert required({"actions": 2}, "actions") == 2
    with pytest.raises(InputError, match="does not tell its actions"):
        required({}, "actions")
