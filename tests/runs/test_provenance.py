"""What a run stores about itself: what is recorded, what makes a result stale, and what is refused when read back."""

import hashlib
import json
import os
import platform
import socket
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.runs import provenance as module
from srgdqn.runs.configurations import dumps
from srgdqn.runs.provenance import (
    VERSIONS,
    _processor,
    check_metadata,
    inputs_of,
    provenance,
    required,
    stale,
    what_bits_depend_on,
)

CPUINFO = (
    "processor\t: 0\nmodel name\t: A Chip: 3 GHz\nflags\t\t: fpu avx2 fma\n\nprocessor\t: 1\nmodel name\t: Other\n"
)


def test_versions_and_machine_without_host_names_or_paths() -> None:
    about = provenance()
    assert about["versions"]["python"] == platform.python_version()
    assert about["versions"]["jax"] == jax.__version__
    assert about["versions"]["numpy"] == np.__version__
    assert None not in about["versions"].values()
    assert about["cores"] == os.cpu_count()
    text = json.dumps(about)
    assert json.loads(text) == about
    assert not any(private in text for private in (socket.gethostname(), str(Path.home()), str(Path.cwd())))


def test_the_first_processor_is_read(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    assert _processor(tmp_path / "cpuinfo") == ("A Chip: 3 GHz", frozenset({"fpu", "avx2", "fma"}))
    assert _processor(tmp_path / "missing")[1] == frozenset()


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ("", ["avx2", "avx512f", "fma"]),
        ("--xla_a=1 --xla_cpu_max_isa=SSE4_2 --xla_b=2", []),
        ("--xla_cpu_max_isa=AVX2", ["avx2", "fma"]),
        ("--xla_cpu_max_isa=AVX512", ["avx2", "avx512f", "fma"]),
    ],
)
def test_what_xla_must_not_use_is_not_recorded(flags: str, left: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_processor", lambda: ("A Chip", frozenset({"fpu", "avx2", "avx512f", "fma"})))
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert provenance()["instruction_sets"] == left


def test_a_raised_version_changes_the_computations_that_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert provenance()["computation"] == f"training {VERSIONS['training']}"
    before = {name: provenance(name)["computation"] for name in VERSIONS}
    assert len(set(before.values())) == len(VERSIONS)
    monkeypatch.setitem(VERSIONS, "measurement.anchors", 7)
    changed = [name for name in VERSIONS if provenance(name)["computation"] != before[name]]
    assert changed == ["measurement.anchors"]
    monkeypatch.setitem(VERSIONS, "training", 7)
    unchanged = [name for name in VERSIONS if provenance(name)["computation"] == before[name]]
    assert unchanged == ["claims"]


def test_results_of_another_version_or_machine_are_stale() -> None:
    here = what_bits_depend_on({**provenance(), "compiler": None, "precision": "float32"})
    assert stale(here, here) is None
    elsewhere = {**provenance(), "compiler": None, "precision": "float32", "engine": "ray", "cores": 1_000}
    assert what_bits_depend_on(elsewhere) == here
    for name in ("computation", "versions", "machine", "instruction_sets", "compiler"):
        assert "another version or on another kind of machine" in str(stale({**here, name: "other"}, here))
    assert "another precision" in str(stale({**here, "precision": "float64"}, here))


def test_every_option_and_all_user_code_counts_in_the_inputs() -> None:
    mine = {"name": "mine.Mine", "source": "abc", "values": "def"}
    usual = inputs_of(configure("CartPole"))
    assert usual["configuration"] == hashlib.sha256(dumps(configure("CartPole")).encode()).hexdigest()[:16]
    others = [
        inputs_of(configure("CartPole", eta=0.25)),
        inputs_of(configure("CartPole"), {"network": mine}),
        inputs_of(configure("CartPole"), {"network": {**mine, "source": "another"}}),
        inputs_of(configure("CartPole"), {"environment": mine}),
    ]
    assert len({inputs["digest"] for inputs in [usual, *others]}) == 5
    assert inputs_of(configure("CartPole"), {}) == usual


def test_what_runs_record_is_accepted() -> None:
    check_metadata({})
    check_metadata(provenance())
    about = {"observation_size": 4, "actions": 2, "action_type": None, "action_table": [0, 1], "interrupted": False}
    check_metadata(about)
    assert required(about, "actions") == 2
    with pytest.raises(InputError, match=r"has no precision stored with it.*Train it again"):
        required(about, "precision")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("observation_size", True),
        ("observation_size", 2**31),
        ("observation_size", "4"),
        ("observation_shape", [4, -1]),
        ("observation_shape", [1] * 100),
        ("observations", []),
        ("actions", 2.0),
        ("action_type", "U1000000000"),
        ("action_type", []),
        ("action_table", []),
        ("evaluation_limit", 0),
        ("interrupted", 1),
        ("versions", {"jax": 3}),
        ("inputs", {"user_code": []}),
        ("inputs", {"user_code": {"network": "mine"}}),
        ("instruction_sets", "avx2"),
        ("processor", {}),
    ],
)
def test_what_is_of_another_kind_is_named(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"its {name} is"):
        check_metadata({name: value})
