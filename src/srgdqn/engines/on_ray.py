"""On many machines, through Ray: every call is a task on one core of some node, made again where a node dies."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from srgdqn.engines.node_check import node_identity
from srgdqn.engines.packing import packed
from srgdqn.engines.ray_task import Board, Call, Ended, Outcome, Stopped, Tell, Thing, perform
from srgdqn.errors import InputError
from srgdqn.extras import require
from srgdqn.runs.interrupts import deferred_interrupts
from srgdqn.training.machine import usable_cores

Hear = Callable[[Thing, Any], None]
"""Is given a thing and what its call told, in the driver's thread."""

RETRIES = 8  # of one call, whose worker or node died; one that always dies must come to an end
_POLL = 0.2  # seconds between two looks at the board
_AHEAD, _FEWEST_AHEAD = 4, 64  # calls for each core that are handed out, so that none waits for the driver
_GRACE = 60.0  # seconds for calls that were asked to stop
_ANSWERING = 10.0  # seconds for a machine to answer at all
_CONNECTING = 30.0  # seconds; Ray itself would try for minutes
_OBJECT_BYTES = 2**29  # of shared memory, for what is on its way, where Ray is our own

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
    """Keeps other users of this machine from the token that Ray makes, and knows us by: it would be readable for all.

    Not by the umask, which Ray's processes would have as well, and what they keep in a folder that others share.
    """
    folder = Path.home() / ".ray"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / "auth_token").chmod(0o600)


def run_on_ray(
    function: Callable[[Thing, threading.Event, Tell], Outcome],
    things: Sequence[Thing],
    *,
    address: str | None = None,
    hear: Hear[Thing] = lambda thing, message: None,
    stopping: Callable[[], bool] = lambda: False,
    retries: int = RETRIES,
) -> Iterator[tuple[Thing, Outcome]]:
    """Calls the function for each thing, on every core of a Ray cluster at once, and yields what comes as it comes.

    The function is pickled, and runs in processes on other machines. It is also given an event that is set when it
    should come to an end, and a function that takes whatever is to be heard here. A call whose worker process or node
    dies is made again, up to so many times; an exception of the function's own is not tried again but raised here,
    once the calls under way have ended.

    When `stopping` says so, or on Ctrl-C, calls that have not begun are dropped; those under way are asked to stop, and
    what they return is yielded, unless they take longer than a minute. Only then is the KeyboardInterrupt raised: while
    whoever is given an outcome saves it, it would cost those that wait.
    """
    if not things:
        return
    with connected(address), deferred_interrupts() as interrupted:
        yield from _run(function, things, hear, stopping, interrupted, retries)


def cluster_cores() -> int:
    """How many cores there are in the cluster that this process is connected to."""
    import ray

    with _undisturbed():
        cores = ray.cluster_resources().get("CPU", 1)
    return max(1, int(cores))


def _run(
    function: Callable[[Thing, threading.Event, Tell], Outcome],
    things: Sequence[Thing],
    hear: Hear[Thing],
    stopping: Callable[[], bool],
    interrupted: threading.Event,
    retries: int,
) -> Iterator[tuple[Thing, Outcome]]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    board: Any = ray.remote(Board).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
    task: Any = ray.remote(perform).options(num_cpus=1, max_retries=retries, retry_exceptions=False)
    calls: dict[Any, int] = {}
    wait_until = None
    try:
        # Packed by ourselves: of what cannot be, Ray would tell pages.
        call = ray.put(packed(Call(function, node_identity(), _keeps_programs())))
        waiting = deque(enumerate([packed(thing) for thing in things]))
        while waiting or calls:
            try:
                if wait_until is None and (interrupted.is_set() or stopping()):
                    wait_until = _ask_to_stop(board)
                if wait_until is not None:
                    waiting.clear()
                    if not calls or time.monotonic() > wait_until:
                        break
                # Not all of them at once: what was handed out can hardly be taken back.
                while waiting and len(calls) < max(_FEWEST_AHEAD, _AHEAD * cluster_cores()):
                    place, thing_packed = waiting.popleft()
                    calls[task.remote(call, thing_packed, place, board)] = place
                ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=_POLL)
                for place, message in _read(board):
                    hear(things[place], message)
            except KeyboardInterrupt:
                if interrupted.is_set():
                    raise
                interrupted.set()
                continue
            for each in ready:
                thing, ended = things[calls.pop(each)], _ended(each, retries)
                for message in ended.messages:
                    hear(thing, message)
                if not isinstance(ended.outcome, Stopped):
                    yield thing, ended.outcome
    finally:
        try:
            if calls and wait_until is None:
                _ask_to_stop(board)
                ray.wait(list(calls), num_returns=len(calls), timeout=_GRACE)
        finally:
            for each in ray.wait(list(calls), num_returns=len(calls), timeout=0)[1] if calls else []:
                ray.cancel(each, force=True)
            ray.kill(board)
    if interrupted.is_set():
        raise KeyboardInterrupt


def _ended(call: Any, retries: int) -> Ended:
    """What a call that is done came to."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        ended: Ended = ray.get(call)
        return ended
    except RayTaskError as error:
        raise error.cause from error
    except RayError as error:
        raise InputError(
            f"Ray has given up on a call after {retries} retries ({_first_line(error)}). What was kept is there; the "
            "same command goes on from it."
        ) from error


def _read(board: Any) -> list[tuple[int, Any]]:
    """What calls have told; nothing where the board itself was lost and is being put up again."""
    import ray
    from ray.exceptions import RayError

    try:
        told: list[tuple[int, Any]] = ray.get(board.read.remote(), timeout=_GRACE)
    except RayError:
        return []
    return told


def _ask_to_stop(board: Any) -> float:
    """Asks all calls to come to an end, those that have not begun at once; until when they are waited for."""
    import ray
    from ray.exceptions import RayError

    with contextlib.suppress(RayError):  # no way to ask anybody
        ray.get(board.stop.remote(), timeout=_GRACE)
    return time.monotonic() + _GRACE


def _keeps_programs() -> bool:
    """Whether this process keeps what it compiles; asked without importing jax where nobody has."""
    jax = sys.modules.get("jax")
    return jax is not None and jax.config.values["jax_compilation_cache_dir"] is not None


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


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
