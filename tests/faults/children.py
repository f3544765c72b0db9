"""Command lines in processes of their own, which are ended at will."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
_LONGEST = 300.0  # seconds after which a child that was to end by itself is taken for hung


class Child:
    """A command line under way, in a session of its own, with what it prints in files."""

    def __init__(self, words: list[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        paths = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
        variables = {**os.environ, "PYTHONPATH": paths, "NO_COLOR": "1", "COLUMNS": "100", **(environment or {})}
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "srgdqn", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=variables,
                start_new_session=True,
            )
        self.began = time.monotonic()

    @property
    def number(self) -> int:
        """Its process's."""
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float = _LONGEST) -> int:
        """Its exit code; one that does not end by itself is killed."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill(everyone=True)
            raise AssertionError(f"did not end within {seconds:.0f} s: {self.said()[-2000:]}") from None

    def wait_until(self, happens: Callable[[], bool], seconds: float = _LONGEST, pause: float = 0.001) -> bool:
        """Whether something happened before it ended, or before so many seconds were over."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.is_running():
            if happens():
                return True
            time.sleep(pause)
        return False

    def kill(self, *, everyone: bool) -> None:
        """SIGKILL, to it alone or to all processes of its session at once, as in a power cut."""
        self.signal(signal.SIGKILL, everyone=everyone)
        self._process.wait()

    def signal(self, number: int, *, everyone: bool = False) -> None:
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if everyone else os.kill)(self._process.pid, number)

    def leaves_nobody(self, seconds: float = 20.0) -> bool:
        """Whether the processes that it started have ended, too, or do so soon."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                os.killpg(self._process.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.05)
        self.signal(signal.SIGKILL, everyone=True)
        return False
