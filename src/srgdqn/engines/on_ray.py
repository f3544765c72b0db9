"""Calls on many machines, through Ray: each is a task on one core of some node, and is repeated if that dies.

Nothing here imports Ray until it is used. Messages go through a mailbox, an actor beside the driver.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import cloudpickle

from srgdqn.engines.executor import Executor, Function, Item, Lost, OnMessage, Outcome, Send, ignore, never, packed
from srgdqn.engines.node_check import difference, node_identity
from srgdqn.engines.ray_connection import cluster_cores, connected
from srgdqn.errors import InputError

RETRIES = 8  # of one call whose worker or node died; one that always dies must come to an end
_POLL = 0.2  # seconds between two looks into the mailbox
_AHEAD, _FEWEST_AHEAD = 4, 64  # calls for each core that are handed out, so that none waits for the driver
_GRACE = 60.0  # seconds for calls that were asked to stop
_SECONDS = 0.25  # between two messages of a call to the mailbox, while there are few calls
_CALLS_A_SECOND = 1_000  # of all calls together; a mailbox takes some thousands
_PATIENCE = 30.0  # seconds, after which a call continues without an answer


class Ray(Executor):
    """An executor of the cluster at an address, or of the one that this process is connected to (`connected`)."""

    remote = True
    shares_disk = False

    def __init__(self, address: str | None = None, *, retries: int = RETRIES) -> None:
        """A call whose worker process or node dies is repeated up to `retries` times."""
        super().__init__()
        self._address, self._retries = address, retries

    @property
    def cores(self) -> int:
        """The cores of the cluster that this process is connected to."""
        return cluster_cores()

    def run(
        self,
        function: Function[Item, Outcome],
        items: Sequence[Item],
        *,
        on_message: OnMessage[Item] = ignore,
        stopping: Callable[[], bool] = never,
    ) -> Iterator[tuple[Item, Outcome | Lost]]:
        """See `Executor.run`. Calls that were asked to stop are waited for for a minute."""
        if items:
            with connected(self._address):  # which Ctrl-C ends at once, as no call has begun
                yield from super().run(function, items, on_message=on_message, stopping=stopping)

    def _run(
        self,
        function: Function[Item, Outcome],
        items: Sequence[Item],
        on_message: OnMessage[Item],
        stopping: Callable[[], bool],
    ) -> Iterator[tuple[Item, Outcome]]:
        return _on_cluster(function, items, on_message, stopping, self._retries)


def _on_cluster(
    function: Function[Item, Outcome],
    items: Sequence[Item],
    on_message: OnMessage[Item],
    stopping: Callable[[], bool],
    retries: int,
) -> Iterator[tuple[Item, Outcome]]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Packed by ourselves: of what cannot be, Ray would print pages.
    call, waiting = packed(_Call(function, node_identity())), deque(enumerate(map(packed, items)))
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    mailbox: Any = ray.remote(Mailbox).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
    task: Any = ray.remote(perform).options(num_cpus=1, max_retries=retries, retry_exceptions=False)
    calls: dict[Any, int] = {}
    wait_until = None
    try:
        call_in_store = ray.put(call)
        while waiting or calls:
            if wait_until is None and stopping():
                wait_until = _ask_to_stop(mailbox)
            if wait_until is not None:
                waiting.clear()
                if not calls or time.monotonic() > wait_until:
                    break
            # Not all of them at once: what was handed out can hardly be taken back.
            while waiting and len(calls) < max(_FEWEST_AHEAD, _AHEAD * cluster_cores()):
                place, item = waiting.popleft()
                calls[task.remote(call_in_store, item, place, mailbox)] = place
            ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=_POLL)
            for place, message in _read(mailbox):
                on_message(items[place], message)
            for each in ready:
                place = calls.pop(each)
                ended = _ended(each, retries)
                for message in ended.messages:
                    on_message(items[place], message)
                if not isinstance(ended.outcome, _NotBegun):
                    yield items[place], ended.outcome
    finally:
        try:
            if calls and wait_until is None:
                _ask_to_stop(mailbox)
                ray.wait(list(calls), num_returns=len(calls), timeout=_GRACE)
        finally:
            for each in ray.wait(list(calls), num_returns=len(calls), timeout=0)[1] if calls else []:
                ray.cancel(each, force=True)
            ray.kill(mailbox)


def _ended(call: Any, retries: int) -> _Ended:
    """What a call that is done returned."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        ended: _Ended = ray.get(call)
        return ended
    except RayTaskError as error:
        raise error.cause from error
    except RayError as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(
            f"Ray has given up on a call after {retries} retries ({reason}). Checkpoints are there; the same command "
            "resumes from them."
        ) from error


def _read(mailbox: Any) -> list[tuple[int, Any]]:
    """New messages; none where the mailbox itself was lost and is being restarted."""
    import ray
    from ray.exceptions import RayError

    try:
        messages: list[tuple[int, Any]] = ray.get(mailbox.read.remote(), timeout=_GRACE)
    except RayError:
        return []
    return messages


def _ask_to_stop(mailbox: Any) -> float:
    """Asks all calls to stop, those that have not begun at once; returns until when they are waited for."""
    import ray
    from ray.exceptions import RayError

    with contextlib.suppress(RayError):  # no way to ask anybody
        ray.get(mailbox.stop.remote(), timeout=_GRACE)
    return time.monotonic() + _GRACE


# On the nodes


class _Answer(NamedTuple):
    """What the mailbox answers a call."""

    stop: bool  # whether it should stop
    pause: float  # seconds until its next message


class Mailbox:
    """An actor that passes on messages in order, and asks calls to stop."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Any]] = []
        self._running: set[int] = set()
        self._stop = False

    def put(self, place: int, messages: list[Any], *, last: bool = False) -> _Answer:
        """Takes messages of a call, which are none when it begins."""
        (self._running.discard if last else self._running.add)(place)
        self._messages += [(place, message) for message in messages]
        return _Answer(self._stop, max(_SECONDS, len(self._running) / _CALLS_A_SECOND))

    def read(self) -> list[tuple[int, Any]]:
        """The messages since the last call."""
        messages, self._messages = self._messages, []
        return messages

    def stop(self) -> None:
        """Asks all calls to stop."""
        self._stop = True


class _NotBegun:
    """Takes the place of the outcome of a call that was asked to stop before it began."""


class _Ended(NamedTuple):
    """What a call returns: its outcome, and its last messages, which so cannot be lost with the mailbox."""

    outcome: Any
    messages: list[Any]


class _Call(NamedTuple):
    """What all calls of a run have in common."""

    function: Function[Any, Any]
    node_identity: dict[str, Any]  # of the driver's machine


def perform(packed_call: bytes, packed_item: bytes, place: int, mailbox: Any) -> _Ended:
    """Calls the function on a node, if that computes the driver's bits."""
    call: _Call = cloudpickle.loads(packed_call)
    unlike = difference(call.node_identity, node_identity())
    if unlike is not None:
        import ray

        raise InputError(
            f"the Ray node {ray.util.get_node_ip_address()} is unlike the machine that srgdqn was started on and would "
            f"compute other bits: it has {unlike}. Give every node the same installation, or take this one out of the "
            "cluster."
        )
    unsent: list[Any] = []
    with _exchange(mailbox, place, unsent) as (stop, send):
        outcome = _NotBegun() if stop.is_set() else call.function(cloudpickle.loads(packed_item), stop, send)
    return _Ended(outcome, unsent)


@contextlib.contextmanager
def _exchange(mailbox: Any, place: int, unsent: list[Any]) -> Iterator[tuple[threading.Event, Send]]:
    """An event that is set when the mailbox asks to stop, and a function that sends messages. A thread exchanges them
    with the mailbox from time to time; in the end, some may be left `unsent`.
    """
    stop, ended, lock = threading.Event(), threading.Event(), threading.Lock()

    def exchange() -> float:
        with lock:
            messages = unsent[:]
            del unsent[:]
        try:
            # Waiting for a future keeps the core reserved, which Ray's own `get` would lend to another call meanwhile.
            answer = mailbox.put.remote(place, messages).future().result(timeout=_PATIENCE)
        except Exception:  # a mailbox that is lost costs the progress bar, not the work
            with lock:
                unsent[:0] = messages
            return _SECONDS
        if answer.stop:
            stop.set()
        return float(answer.pause)

    def repeat(pause: float) -> None:
        while not ended.wait(pause):
            pause = exchange()

    def send(message: Any) -> None:
        with lock:
            unsent.append(message)

    thread = threading.Thread(target=repeat, args=(exchange(),), name="mailbox", daemon=True)
    thread.start()
    try:
        yield stop, send
    finally:
        ended.set()
        thread.join()
        mailbox.put.remote(place, [], last=True)
