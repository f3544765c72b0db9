"""Ctrl-C at moments at which it would be lost, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_BEGIN = """
import gc, os, signal, sys, time
from srgdqn.interrupts import well_timed_interrupts

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

done = []
try:
    with well_timed_interrupts():
"""
_END = """
        time.sleep(10)
except KeyboardInterrupt:
    print("interrupted", *done)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def said(body: str, tmp_path: Path) -> str:
    script = _BEGIN + "".join(f"        {line}\n" for line in body.splitlines()) + _END
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.strip()


def test_a_module_that_is_imported_is_imported_first(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.2)\nname = 'all of it'\n"
    )
    body = "sys.path.insert(0, '')\nimport slow\ndone.append(slow.name)"
    assert said(body, tmp_path) == "interrupted all of it"


def test_what_the_garbage_collector_calls_is_not_interrupted(tmp_path: Path) -> None:
    body = (
        "def _xla_gc_callback(phase, info):\n    gc.callbacks.clear()\n    interrupt()\n    done.append('collected')\n"
        "gc.callbacks.append(_xla_gc_callback)\ngc.collect()"
    )
    assert said(body, tmp_path) == "interrupted collected"


def test_at_any_other_moment_it_comes_at_once(tmp_path: Path) -> None:
    assert said("interrupt()\ndone.append('late')", tmp_path) == "interrupted"


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda number, stack: print('somebody')"])
def test_whoever_handles_it_already_still_does(handler: str, tmp_path: Path) -> None:
    script = f"""
import os, signal
from srgdqn.interrupts import well_timed_interrupts
signal.signal(signal.SIGINT, {handler})
with well_timed_interrupts():
    os.kill(os.getpid(), signal.SIGINT)
print("went on")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split()[-2:] == ["went", "on"]
    assert ("somebody" in ended.stdout) == ("somebody" in handler)


def test_an_interrupt_that_is_deferred_twice_is_heard_of_by_the_outer_one() -> None:
    script = """
import os, signal
from srgdqn.interrupts import deferred_interrupts

with deferred_interrupts() as outer:
    with deferred_interrupts() as inner:
        os.kill(os.getpid(), signal.SIGINT)
    print(outer.is_set(), inner.is_set())
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        print("the second is Python's own")
with deferred_interrupts() as again:
    os.kill(os.getpid(), signal.SIGINT)
print(again.is_set())
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("True False\nthe second is Python's own\nTrue\n", "")
