import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from srgdqn.runs import provenance as module
from srgdqn.runs.provenance import _processor, provenance, source_digest, sources_of

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


# The source files that a result depends on

PACKAGE = Path(module.__file__).parents[1]
MEASUREMENTS = sorted(
    f"srgdqn.paper.measurements.{path.stem}" for path in (PACKAGE / "measurements").glob("*.py") if path.stem != "__init__"
)
# What draws, reports, is typed at a prompt or is only read by people.
IRRELEVANT = ("cli", "report", "studies", "figures", "charts", "curves", "comparison", "api", "result", "progress")


def names(module_name: str) -> set[str]:
    return {path.relative_to(PACKAGE).as_posix() for path in sources_of(module_name)}


def rooms(module_name: str) -> set[str]:
    """The files and folders that are directly in the package."""
    return {name.split("/")[0].removesuffix(".py") for name in names(module_name)}


def test_training_depends_on_what_learns_and_not_on_what_draws() -> None:
    needed = {"training/lane.py", "training/rounds.py", "learner.py", "replay.py", "acting.py", "optimiser.py"}
    needed |= {"estimators/srg.py", "estimators/svrg.py", "gradients/closed_form.py", "networks/mlp.py"}
    needed |= {"tasks/mountain_car.py", "settings/learner.py", "normalisation.py"}
    assert needed <= names("srgdqn.training")
    assert not {*IRRELEVANT, "measurements", "__init__"} & rooms("srgdqn.training")


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_a_measurement_depends_on_its_own_file(name: str) -> None:
    assert f"measurements/{name.rpartition('.')[2]}.py" in names(name)
    assert not {*IRRELEVANT, "__init__"} & rooms(name)


def test_a_recorded_measurement_depends_on_all_of_training() -> None:
    for name in ("anchors", "exact_anchors", "gradient_spread", "dose_response", "step_times"):
        assert names("srgdqn.training") <= names(f"srgdqn.paper.measurements.{name}")
    assert "measurements/anchor_error.py" in names("srgdqn.paper.measurements.anchors")
    assert "measurements/anchor_error.py" not in names("srgdqn.paper.measurements.dose_response")


def test_files_are_those_that_importing_really_runs() -> None:
    """Whatever a fresh interpreter has loaded of the package, apart from its door, is among them."""
    code = (
        "import sys, types; door = types.ModuleType('srgdqn'); door.__path__ = [sys.argv[1]]\n"
        "sys.modules['srgdqn'] = door; import srgdqn.paper.measurements.anchors\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('srgdqn.')), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(PACKAGE)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines())
    assert str(PACKAGE / "training" / "lane.py") in loaded
    assert loaded <= {str(path) for path in sources_of("srgdqn.paper.measurements.anchors")}


class TestDigest:
    @pytest.fixture
    def copy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        shutil.copytree(PACKAGE, tmp_path / "srgdqn", ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(module, "_ROOT", tmp_path / "srgdqn")
        return tmp_path / "srgdqn"

    def digest(self, name: str = "srgdqn.training") -> str:
        return source_digest.__wrapped__(name)  # not the one that is remembered

    def test_a_copy_has_the_same(self, copy: Path) -> None:
        del copy
        assert self.digest() == source_digest()
        assert provenance()["source"] == source_digest()
        assert provenance("srgdqn.paper.measurements.anchors")["source"] != source_digest()

    def test_it_changes_if_and_only_if_a_file_that_is_needed_does(self, copy: Path) -> None:
        before = self.digest()
        needed = ("learner.py", "training/lane.py", "training/__init__.py", "estimators/srg.py", "tasks/cart_pole.py")
        others = ("__init__.py", "figures.py", "cli/train.py", "report/page.py", "studies/cells.py", "configure.py")
        for path in (*needed, *others, "measurements/recorded.py"):
            text = (copy / path).read_bytes()
            (copy / path).write_bytes(text + b"# edited\n")
            assert (self.digest() != before) == (path in needed), path
            (copy / path).write_bytes(text)
        assert self.digest() == before

    def test_a_file_that_is_newly_imported_counts(self, copy: Path) -> None:
        before = self.digest()
        (copy / "novelty.py").write_text("A = 1\n")
        assert self.digest() == before
        for line in ("import srgdqn.novelty", "from srgdqn import novelty", "from srgdqn.novelty import A"):
            learner = (copy / "learner.py").read_text()
            (copy / "learner.py").write_text(f"def late():\n    {line}\n{learner}".replace("from __future__", "# "))
            with_it = self.digest()
            (copy / "novelty.py").write_text("A = 2\n")
            assert self.digest() != with_it
            (copy / "learner.py").write_text(learner)
            (copy / "novelty.py").write_text("A = 1\n")
        assert self.digest() == before

    def test_a_renamed_file_is_another_one(self, copy: Path) -> None:
        before = self.digest("srgdqn.paper.measurements.exact_gradient")
        (copy / "measurements" / "exact_gradient.py").rename(copy / "measurements" / "exacter.py")
        assert self.digest("srgdqn.paper.measurements.exacter") != before
