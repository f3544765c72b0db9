import json
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from srgdqn.runs import provenance as module
from srgdqn.runs.provenance import _processor, provenance, stale, what_bits_depend_on
from srgdqn.runs.versions import VERSIONS

CPUINFO = (
    "processor\t: 0\nmodel name\t: A Chip: 3 GHz\nflags\t\t: fpu avx2 fma\n\nprocessor\t: 1\nmodel name\t: Other\n"
)


def test_versions_and_machine() -> None:
    told = provenance()
    assert told["versions"]["python"] == platform.python_version()
    assert told["versions"]["jax"] == jax.__version__
    assert told["versions"]["numpy"] == np.__version__
    assert None not in told["versions"].values()
    assert told["machine"] == platform.machine()
    assert told["cores"] == os.cpu_count()
    assert json.loads(json.dumps(told)) == told


def test_it_tells_no_host_name_and_no_path() -> None:
    text = json.dumps(provenance())
    assert socket.gethostname() not in text
    assert str(Path.home()) not in text
    assert str(Path.cwd()) not in text


def test_the_first_processor_is_read(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    assert _processor(tmp_path / "cpuinfo") == ("A Chip: 3 GHz", frozenset({"fpu", "avx2", "fma"}))


def test_a_system_without_cpuinfo_is_no_obstacle(tmp_path: Path) -> None:
    _, flags = _processor(tmp_path / "missing")
    assert flags == frozenset()


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ("", ["avx2", "avx512f", "fma"]),
        ("--xla_cpu_max_isa=AVX2", ["avx2", "fma"]),
        ("--xla_a=1 --xla_cpu_max_isa=SSE4_2 --xla_b=2", []),
        ("--xla_cpu_max_isa=AVX512", ["avx2", "avx512f", "fma"]),
    ],
)
def test_what_xla_is_told_not_to_use_is_not_used(flags: str, left: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_processor", lambda: ("A Chip", frozenset({"fpu", "avx2", "avx512f", "fma"})))
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert provenance()["instruction_sets"] == left


def test_it_imports_none_of_them() -> None:
    heavy = (
        "import sys, srgdqn.runs.provenance as p; p.provenance();"
        "print(*({'jax', 'numpy', 'gymnasium'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# What bits depend on


def test_a_result_tells_what_computed_it_and_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
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
    for name in ("computation", "versions", "machine", "instruction_sets", "compiler"):
        assert "another version or on another kind of machine" in str(stale({**here, name: "other"}, here))
    assert "another precision" in str(stale({**here, "precision": "float64"}, here))
    before = {name: value for name, value in provenance().items() if name != "computation"}
    older = what_bits_depend_on({**before, "source": "ef98b0533113a60a", "precision": "float32"})
    assert stale(older, here) is not None  # which had a digest of files
