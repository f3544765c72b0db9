"""Compiling and loading a kernel: a very small one, as what is tested is what goes wrong around it."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srgdqn.kernel import build, calls
from srgdqn.kernel.build import NoKernelError
from srgdqn.kernel.program_cache import cache_folder

SOURCE = "int answer(void) { return 42; }\n"


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of a kernel that knows one number, with an empty cache; what was loaded before is forgotten."""
    folder = tmp_path / "kernel"
    folder.mkdir()
    (folder / "kernel.c").write_text(SOURCE)
    monkeypatch.setattr(build, "_FOLDER", folder)
    monkeypatch.setenv("SRGDQN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    forget()
    yield folder
    forget()


def forget() -> None:
    build.compiler.forget()
    build.library.forget()


@pytest.fixture
def small(kernel: None, source: Path) -> Path:
    """The same, where there is a compiler."""
    return source


def cached() -> list[Path]:
    """The files in the cache."""
    folder = cache_folder()
    assert folder is not None
    return sorted(folder.rglob("*")) if folder.exists() else []


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_it_is_compiled_once_and_cached(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build.library().answer() == 42
    [file] = cached()
    written = file.stat().st_mtime_ns
    forget()
    monkeypatch.setattr(build, "_compile", None)  # whoever compiled now would fail
    assert build.library().answer() == 42
    assert [each.stat().st_mtime_ns for each in cached()] == [written]


def test_another_source_or_other_options_are_another_kernel(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.library()
    (small / "kernel.c").write_text(SOURCE.replace("42", "43"))
    forget()
    assert build.library().answer() == 43
    (small / "answer.h").write_text("/* nothing */\n")
    forget()
    build.library()
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DNOTHING"))
    forget()
    build.library()
    assert len({file.name for file in cached()}) == 4


def test_a_compiler_may_have_arguments(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build.compiler().command[0]
    (small / "kernel.c").write_text("int answer(void) { return NUMBER; }\n")
    for number in (42, 43):
        monkeypatch.setenv("CC", f"'{path}' -DNUMBER={number}")
        forget()
        assert build.library().answer() == number
        assert f"-DNUMBER={number}" in build.toolchain()


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        ("/nowhere/cc", "no C compiler called '/nowhere/cc'"),
        ("'cc", "which is no command"),
        ("echo 'no licence' >&2; exit 1", "broken' failed: no licence"),
        # On the kernel alone, with a message in no encoding that is known here.
        (r"""[ "$1" = --version ] && exit; printf 'n\344mlich\n' >&2; exit 1""", "broken' failed: n.mlich"),
        ('[ "$1" = --version ] && exit; exit 0', "cannot be loaded"),
        ('[ "$1" = --version ] && exit; until [ "$1" = -o ]; do shift; done; echo text > "$2"', "cannot be loaded"),
    ],
)
def test_a_compiler_that_makes_no_kernel_is_reported(
    source: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, reason: str
) -> None:
    is_script = "exit" in compiler
    monkeypatch.setenv("CC", script(source.parent / "broken", compiler) if is_script else compiler)
    with pytest.raises(NoKernelError, match=reason):
        build.library()


def test_failure_is_remembered(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls_made = source.parent / "calls"
    words = f'echo "$1" >> {calls_made}; [ "$1" = --version ]'
    monkeypatch.setenv("CC", script(source.parent / "broken", words))
    found = []
    for _ in range(2):
        with pytest.raises(NoKernelError, match="failed"):
            build.library()
        found.append(calls_made.read_text())
    assert found[0] == found[1]
    assert found[0].startswith("--version\n-std")


def test_a_package_without_its_source_has_no_kernel(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_FOLDER", small / "nowhere")
    with pytest.raises(NoKernelError, match="source is not where"):
        build.library()


def test_a_user_without_a_home_has_a_kernel(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SRGDQN_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert build.library().answer() == 42


@pytest.mark.parametrize("cache", ["off", "kernel/kernel.c"])
def test_without_a_cache_nothing_is_left_behind(small: Path, monkeypatch: pytest.MonkeyPatch, cache: str) -> None:
    """Nor with one that is a file, which stops even those who may write everywhere."""
    monkeypatch.setenv("SRGDQN_CACHE", cache if cache == "off" else str(small.parent / cache))
    before = sorted(small.parent.rglob("*"))
    assert build.library().answer() == 42
    assert sorted(small.parent.rglob("*")) == before


USE = """
import sys
from pathlib import Path
from srgdqn.kernel import build
build._FOLDER = Path(sys.argv[1])
print(build.library().answer())
"""


def in_another_process(source: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", USE, str(source)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("what", ["cut short", "other numbers inside"])
def test_a_damaged_file_in_the_cache_is_compiled_anew(small: Path, what: str) -> None:
    """Loading one can end the process, so that another process tries."""
    build.library()
    [file] = cached()
    whole = file.read_bytes()
    file.unlink()  # what is loaded in this process must not change under it
    file.write_bytes(
        {
            "cut short": whole[: len(whole) // 2],
            "other numbers inside": whole.replace((42).to_bytes(4, "little"), (41).to_bytes(4, "little")),
        }[what]
    )
    assert file.read_bytes() != whole
    with in_another_process(small) as process:
        output, errors = process.communicate()
    assert (process.returncode, output) == (0, "42\n"), errors
    assert whole in [each.read_bytes() for each in cached()]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="there are wide vectors or not on this processor alone")
@pytest.mark.usefixtures("kernel")
def test_the_kernel_needs_no_wide_vectors(tmp_path: Path) -> None:
    """Nor must every processor have them to compile it for."""
    flags = [{"-march=native": "-march=x86-64", "-O3": "-O0"}.get(flag, flag) for flag in build.FLAGS]
    made = tmp_path / "narrow.so"
    build._run([*build.compiler().command, *flags, str(build._FOLDER / "kernel.c"), "-o", str(made), "-lm"])
    assert ctypes.CDLL(str(made)).run_segment


def test_several_processes_may_compile_it_at_once(small: Path) -> None:
    processes = [in_another_process(small) for _ in range(2)]
    answers = [process.communicate() for process in processes]
    assert [output for output, _ in answers] == ["42\n"] * 2, answers
    assert all(file.suffix == ".so" for file in cached())
    assert build.library().answer() == 42


def test_structures_of_other_sizes_are_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a field had been added to the kernel's structures, and forgotten in their mirrors."""
    sizes = [ctypes.sizeof(structure) for structure in calls.STRUCTURES]
    wrong = ", ".join(str(size + 4 * (place == 2)) for place, size in enumerate(sizes))
    functions = "void run_segment(void) {}\nvoid run_evaluation(void) {}\n"
    (small / "kernel.c").write_text(f"{functions}const int structure_sizes[] = {{{wrong}}};\n")
    monkeypatch.setattr(calls, "library", build.library)
    with pytest.raises(RuntimeError, match="the kernel's structures have sizes"):
        calls._functions.__wrapped__()
