"""Ctrl-C at moments at which it would be lost, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_BEGIN = """
import gc, os, signal, sys, time
from srgdqn.interrupts import well_timed_interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored, as in the background

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

signal.signal(signal.SIGINT, signal.default_int_handler)
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


@pytest.mark.parametrize("ctrl_c", ["signal.default_int_handler", "signal.SIG_IGN"])
def test_sigterm_is_an_interrupt_also_where_ctrl_c_is_ignored(ctrl_c: str, tmp_path: Path) -> None:
    script = f"""
import gc, os, signal, time
from srgdqn.interrupts import deferred_interrupts, terminations_as_interrupts, well_timed_interrupts

signal.signal(signal.SIGINT, {ctrl_c})
with terminations_as_interrupts() as terminated:
    with deferred_interrupts() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(10)
    assert terminated.is_set()
    def _xla_gc_callback(phase, info):
        gc.callbacks.clear()
        os.kill(os.getpid(), signal.SIGTERM)
        print("collected")

    try:
        with well_timed_interrupts():
            gc.callbacks.append(_xla_gc_callback)
            gc.collect()
            time.sleep(10)
    except KeyboardInterrupt:
        print("interrupted")
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "collected\ninterrupted\n", "")


def test_sigterm_passes_by_a_worker_and_not_by_what_it_starts(tmp_path: Path) -> None:
    script = """
import os, signal
from srgdqn.interrupts import left_to_the_parent

left_to_the_parent()
os.kill(os.getpid(), signal.SIGTERM)
child = os.fork()
if not child:
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "-15\n", "")
