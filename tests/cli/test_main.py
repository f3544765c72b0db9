"""The frame around all commands: help, completion, streams, interrupts."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import terminal
from srgdqn import __version__
from srgdqn.cli import COMMANDS, main


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr()
    for name in COMMANDS:
        assert f"│ {name} " in shown.out
    assert "--print-completion bash" in shown.out
    assert shown.err == ""
    assert main([]) == 2  # no command is a mistake
    assert capsys.readouterr().out == shown.out


@pytest.mark.parametrize("width", [20, 100])
def test_help_fits_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (["evaluate", "--help"], ["train", "--help"]):
        assert main(words) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(("usage", "  "))]
        assert max(map(len, lines)) <= max(width, 40)  # narrower, it would be a letter a line
        assert len(lines) < 1_000


@pytest.mark.parametrize(("shell", "sign"), [("zsh", "#compdef srgdqn"), ("fish", "complete ")])
def test_completion_scripts(shell: str, sign: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print-completion", shell]) == 0
    script = capsys.readouterr().out
    for words in (sign, "inner-iterations", "evaluate", "without-replacement"):
        assert words in script


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("train CartPole dqn-sgd --inner-b", "--inner-batch"),
        ("train --loss hu", "huber"),
        ("train Mou", "MountainCar"),
        ("eval", "evaluate"),
    ],
)
def test_the_bash_script_completes(typed: str, offered: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print-completion", "bash"]) == 0
    words = f"COMP_WORDS=(srgdqn {typed}); COMP_CWORD={len(typed.split())}"
    script = f"{capsys.readouterr().out}\n{words}; _srgdqn; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == ([offered], "")


@pytest.mark.parametrize(("words", "code"), [(["list"], 0), (["show", "nowhere"], 2), (["train", "--help"], 0)])
def test_closed_streams_give_no_traceback(words: list[str], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(words) == code
    for stream in (sys.stdout, sys.stderr):  # what takes the place of those that are closed
        stream.close()


def test_a_full_stream_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["list"]) == 1
    shown = capsys.readouterr().err
    assert shown == "error: standard output cannot be written to (No space left on device).\n"


@pytest.mark.parametrize("words", [["list", "--json"], ["list"], ["train", "--help"]])
def test_a_reader_that_has_enough_is_no_error(words: list[str]) -> None:
    read, write = os.pipe()
    with os.fdopen(read), os.fdopen(write, "w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "srgdqn", *words], stdout=out, stderr=subprocess.PIPE, text=True
        )
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 0)


def test_a_terminal_without_greek_letters_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["train", "--help"]) == 0
    assert b"Step size ?" in out.buffer.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("plain", [True, False])
def test_no_color_is_respected_on_a_terminal(plain: bool) -> None:
    with terminal("show", "--help", plain=plain) as screen:
        assert screen.end() == 0
        assert "╭" in screen.screen
        assert (b"\x1b[" in screen.written) != plain


def test_the_installed_script_is_the_same_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"srgdqn {__version__}\n"
    script = Path(sys.executable).with_name("srgdqn")
    if not script.exists():
        pytest.skip("the package is not installed with its script")
    done = subprocess.run([str(script), "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"srgdqn {__version__}\n"


@pytest.mark.parametrize("linked", ["__cause__", "__context__", "nothing"])
def test_an_interrupt_that_became_an_import_error_is_one(
    linked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ImportError("initialisation failed")
    if linked != "nothing":
        setattr(error, linked, KeyboardInterrupt())

    def interrupted(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr("srgdqn.cli._run", interrupted)
    if linked == "nothing":
        with pytest.raises(ImportError, match="initialisation failed"):
            main(["list"])
    else:
        assert main(["list"]) == 130
        assert "interrupted" in capsys.readouterr().err
