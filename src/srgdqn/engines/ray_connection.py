"""The connection to a Ray cluster, or a Ray of our own on this machine."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srgdqn.engines.executor import usable_cores
from srgdqn.errors import InputError
from srgdqn.extras import require
from srgdqn.interrupts import deferred_interrupts

_ANSWERING = 10.0  # seconds for a machine to answer at all
_CONNECTING = 30.0  # seconds; Ray itself would try for minutes
_OBJECT_BYTES = 2**29  # of shared memory for outcomes, where Ray is our own

# Ray reads these when it is imported or started. What the user has set stays.
_SILENCE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # of what it would print on standard output when a worker dies: all
}

# Tries an address as the driver will use it, in a process that can be given up.
_TRY = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
except BaseException as error:
    print(" ".join(str(error).split()) or type(error).__name__)
    sys.exit(1)
"""


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Ray for as long as the context lasts: the cluster at an address (`auto`: the one that this machine is a node of),
    or the one that `RAY_ADDRESS` names, or else a Ray of our own on this machine's cores, on loopback. One that the
    process is connected to already is used and left as it is.

    An `InputError` if there is no Ray, or nothing at the address that answers in time.
    """
    require("ray", "ray", "--engine ray")
    for name, value in _SILENCE.items():
        os.environ.setdefault(name, value)
    with _undisturbed():
        import ray

    if ray.is_initialized():
        yield
        return
    logging.getLogger("ray").setLevel(logging.ERROR)
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address != "local":
        _check(address)
    in_main = threading.current_thread() is threading.main_thread()
    ended_by = signal.getsignal(signal.SIGTERM)  # Ray sets a handler of its own
    try:
        with _undisturbed():
            _start(address)
            cores = ray.cluster_resources().get("CPU")
            if in_main and callable(ended_by):  # who saves what was reached is not to be ended by Ray's
                signal.signal(signal.SIGTERM, ended_by)
        if not cores:
            warnings.warn(f"the Ray cluster at {address} has no core yet: the work waits for nodes.", stacklevel=2)
        yield
    finally:
        with _undisturbed():
            ray.shutdown()
            if in_main:
                signal.signal(signal.SIGTERM, ended_by)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Lets Ctrl-C through only afterwards: in the midst of Ray's compiled code it may end the process by a fault. A
    second one is not put off.
    """
    with deferred_interrupts() as interrupted:
        yield
    if interrupted.is_set():
        raise KeyboardInterrupt


def _start(address: str) -> None:
    """Connects this process to a cluster, or starts a Ray of our own."""
    import ray

    quiet: dict[str, Any] = dict(log_to_driver=False, logging_level="ERROR")
    try:
        with warnings.catch_warnings():
            # jax warns of forks, but of these nothing comes except other programs.
            warnings.simplefilter("ignore", RuntimeWarning)
            if address == "local":
                own: dict[str, Any] = dict(include_dashboard=False, object_store_memory=_OBJECT_BYTES)
                with _token_closed():
                    ray.init(address="local", num_cpus=usable_cores(), _node_ip_address="127.0.0.1", **own, **quiet)
            else:
                ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused(address, " ".join(str(error).split())) from error


@contextlib.contextmanager
def _token_closed() -> Iterator[None]:
    """Lets no other user of this machine read the token that Ray makes and knows us by.

    Not by the umask, which Ray's processes would have as well, for files in a folder that others share.
    """
    folder = Path.home() / ".ray"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / "auth_token").chmod(0o600)


def cluster_cores() -> int:
    """How many cores there are in the cluster that this process is connected to."""
    import ray

    with _undisturbed():
        cores = ray.cluster_resources().get("CPU", 1)
    return max(1, int(cores))


def _check(address: str) -> None:
    """An `InputError` if no cluster answers at the address soon, or if it refuses us."""
    if address.startswith("ray://"):
        raise InputError(
            f"{address} is an address of Ray's client. Start srgdqn on a node of the cluster, with --address auto."
        )
    host, _, port = address.rpartition(":")
    if address != "auto":
        try:
            socket.create_connection((host, int(port)), timeout=_ANSWERING).close()
        except (OSError, ValueError, OverflowError) as error:
            raise _refused(address, str(error)) from error
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _TRY, address], capture_output=True, text=True, timeout=_CONNECTING, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _refused(address, f"nothing answered within {_CONNECTING:.0f} s") from error
    if tried.returncode != 0:
        raise _refused(address, tried.stdout.strip() or f"trying it ended with code {tried.returncode}")


def _refused(address: str, why: str) -> InputError:
    where = "Ray cannot be started here" if address == "local" else f"no Ray cluster can be used at {address!r}"
    advice = (
        ""
        if address == "local"
        else " Give --address auto on a node of the cluster, or HOST:PORT as `ray start --head` tells it."
    )
    return InputError(f"{where}: {why.rstrip('.')}.{advice}")
