import functools
import hashlib
import json
from pathlib import Path

import pytest

from srgdqn.config.configure import configure
from srgdqn.runs.configurations import dumps
from srgdqn.runs.inputs import hashed, inputs_of, told, told_of_entry_point

MINE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


class Mine:
    """Something of the user's own."""


def make_mine() -> Mine:
    return Mine()


def test_the_configuration_is_told_by_the_digest_of_its_text() -> None:
    configuration = configure("CartPole", eta=0.25)
    inputs = inputs_of(configuration)
    assert inputs["configuration"] == hashlib.sha256(dumps(configuration).encode()).hexdigest()[:16]
    assert inputs["own"] == {}
    assert json.loads(json.dumps(inputs)) == inputs


def test_every_option_and_every_own_part_counts() -> None:
    usual = inputs_of(configure("CartPole"))
    others = [
        inputs_of(configure("CartPole", eta=0.25)),
        inputs_of(configure("CartPole", seed=1)),
        inputs_of(configure("CartPole"), {"network": told(Mine)}),
        inputs_of(configure("CartPole"), {"network": {**told(Mine), "source": "another"}}),
        inputs_of(configure("CartPole"), {"environment": told(Mine)}),
    ]
    digests = [inputs["digest"] for inputs in [usual, *others]]
    assert len(set(digests)) == len(digests)
    assert inputs_of(configure("CartPole"), {"network": None}) == usual


@pytest.mark.parametrize("thing", [Mine, Mine(), make_mine, functools.partial(functools.partial(make_mine))])
def test_a_thing_is_told_by_its_name_and_its_source_file(thing: object) -> None:
    about = told(thing)
    assert about["name"].rpartition(".")[2] in ("Mine", "make_mine")
    assert about["source"] == MINE
    assert "untold" not in about


def test_what_has_no_source_file_is_said_to_have_none() -> None:
    scope: dict = {"__name__": "typed"}
    exec("class Typed: pass", scope)
    about = told(scope["Typed"])
    assert about["name"] == "typed.Typed"
    assert about["source"] is None
    assert "cannot be found" in about["untold"]


def test_no_path_is_told() -> None:
    assert str(Path(__file__).parent) not in json.dumps([told(Mine), told(make_mine)])


def test_an_entry_point_is_read_without_importing_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "explosive.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)
    about = told_of_entry_point("explosive:Env")
    assert about == {"name": "explosive.Env", "source": hashlib.sha256(b"raise RuntimeError\n").hexdigest()[:16]}
    assert told_of_entry_point("nowhere_at_all:Env")["source"] is None


def test_values_are_told_where_there_are_any() -> None:
    assert told(Mine, lambda: "abc")["values"] == "abc"
    assert hashed({"a": 1})["digest"] != hashed({"a": 2})["digest"]
