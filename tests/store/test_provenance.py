import json
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np

from srgdqn.store.provenance import _processor, provenance

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


def test_it_imports_none_of_them() -> None:
    heavy = (
        "import sys, srgdqn.store.provenance as p; p.provenance();"
        "print(*({'jax', 'numpy', 'gymnasium'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
