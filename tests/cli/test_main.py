import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import written_on
from srgdqn import __version__
from srgdqn.cli import main


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr()
    for name in ("train", "watch", "sweep", "evaluate", "show", "compare", "export", "video", "list"):
        assert f"• {name} " in shown.out
    assert "--tyro-print-completion bash" in shown.out
    assert shown.err == ""


def test_no_command_shows_help_and_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: srgdqn" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"srgdqn {__version__}\n"


@pytest.mark.parametrize("width", ["20", "40", "80", "200"])
def test_help_fits_the_terminal(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    for words in (["evaluate", "--help"], ["train", "--help"]):
        assert main(words) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(("usage", "  "))]
        assert max(map(len, lines)) <= max(int(width), 40)  # narrower, it would be a letter a line
        assert len(lines) < 1_000


@pytest.mark.parametrize(("shell", "sign"), [("bash", "complete "), ("zsh", "#compdef srgdqn"), ("fish", "complete ")])
def test_completion_scripts(shell: str, sign: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tyro-print-completion", shell]) == 0
    script = capsys.readouterr().out
    assert sign in script
    assert "--inner-iterations" in script
    assert "evaluate" in script


def test_the_bash_script_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tyro-print-completion", "bash"]) == 0
    (tmp_path / "srgdqn.bash").write_text(capsys.readouterr().out)
    asked = (
        "source srgdqn.bash; COMP_WORDS=(srgdqn train CartPole dqn-sgd --inner-b); COMP_CWORD=4; "
        "_tyro_srgdqn; echo ${COMPREPLY[@]}"
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", asked], cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.stdout.split() == ["--inner-batch"]


def test_a_reader_that_has_enough_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "srgdqn", "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("streams", "words", "code"),
    [
        (">&-", "list", 0),
        (">/dev/full", "list", 1),
        (">/dev/full", "list --json", 1),
        ("2>&-", "show nowhere", 2),
        (">&- 2>&-", "train CartPole --help", 0),
    ],
)
def test_a_stream_that_is_closed_or_full_gives_no_traceback(streams: str, words: str, code: int) -> None:
    script = f"{sys.executable} -m srgdqn {words} {streams}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
    assert ("standard output cannot be written to (No space left on device)" in done.stderr) == (code == 1)


def test_a_terminal_without_greek_letters_is_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "srgdqn", "train", "--help"],
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert b"Step size ?" in done.stdout
    assert done.stderr == b""


def test_no_color_is_respected_on_a_terminal() -> None:
    import pty

    def shown(**extra: str) -> bytes:
        master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", **extra}
        if not extra:
            environment.pop("NO_COLOR", None)
        process = subprocess.Popen(
            [sys.executable, "-m", "srgdqn", "show", "--help"], stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        text = b"".join(written_on(master))
        os.close(master)
        assert process.wait(60) == 0
        return text

    assert b"\x1b[" in shown()
    plain = shown(NO_COLOR="1")
    assert b"\x1b[" not in plain
    assert "╭".encode() in plain


def test_the_installed_script_is_the_same_program() -> None:
    script = Path(sys.executable).with_name("srgdqn")
    if not script.exists():
        pytest.skip("the package is not installed with its script")
    done = subprocess.run([str(script), "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"srgdqn {__version__}\n"


@pytest.mark.parametrize("linked", ["__cause__", "__context__"])
def test_an_interrupt_that_became_an_import_error_is_one(
    linked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ImportError("initialisation failed")
    setattr(error, linked, KeyboardInterrupt())

    def interrupted(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr("srgdqn.cli._run", interrupted)
    assert main(["list"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_module_that_is_missing_is_not_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(arguments: list[str]) -> int:
        raise ImportError("no such module")

    monkeypatch.setattr("srgdqn.cli._run", broken)
    with pytest.raises(ImportError, match="no such module"):
        main(["list"])
