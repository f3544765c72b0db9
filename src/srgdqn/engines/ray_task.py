"""What happens on the nodes of a Ray cluster: a call of the function, and a board on which calls tell how far they are.

Nothing here imports Ray but when it is called, by a process of Ray's own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import cloudpickle

from srgdqn.engines.node_check import difference, node_identity
from srgdqn.errors import InputError
from srgdqn.kernel.program_cache import enable_program_cache

Thing = TypeVar("Thing")
Outcome = TypeVar("Outcome")
Tell = Callable[[Any], None]
"""Is given anything that can be pickled; it reaches the driver in order, and before the outcome does."""

_SECONDS = 0.25  # between two words of a call to the board, while there are few calls
_CALLS_A_SECOND = 1_000  # of all calls together; a board takes some thousands
_PATIENCE = 30.0  # seconds, after which a call goes on without an answer


class Answer(NamedTuple):
    """What the board tells a call."""

    stop: bool  # whether it should come to an end
    pause: float  # seconds until it should tell more


class Board:
    """An actor that passes on what calls tell, in order, and tells them when to stop. It lives beside the driver."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Any]] = []
        self._under_way: set[int] = set()
        self._stop = False

    def tell(self, place: int, messages: list[Any], *, last: bool = False) -> Answer:
        """Takes what a call has to tell, which is nothing when it begins."""
        (self._under_way.discard if last else self._under_way.add)(place)
        self._messages += [(place, message) for message in messages]
        return Answer(self._stop, max(_SECONDS, len(self._under_way) / _CALLS_A_SECOND))

    def read(self) -> list[tuple[int, Any]]:
        """What was told since it was last read."""
        messages, self._messages = self._messages, []
        return messages

    def stop(self) -> None:
        """Asks all calls to come to an end."""
        self._stop = True


class Stopped:
    """Takes the place of the outcome of a call that was asked to stop before it began."""


class Ended(NamedTuple):
    """What a call leaves: its outcome, and the last that it had to tell, which so cannot be lost with the board."""

    outcome: Any
    messages: list[Any]


@dataclass(frozen=True)
class Call(Generic[Thing, Outcome]):
    """What all calls of a run have in common."""

    function: Callable[[Thing, threading.Event, Tell], Outcome]
    node_identity: dict[str, Any]
    """Of the driver's machine."""
    keep_programs: bool
    """Whether compiled programs are kept on the node's disk, as the driver does on its own."""


def perform(packed_call: bytes, packed_thing: bytes, place: int, board: Any) -> Ended:
    """Calls the function on a node, once that is known to compute the driver's bits."""
    call: Call[Any, Any] = cloudpickle.loads(packed_call)
    unlike = difference(call.node_identity, node_identity())
    if unlike is not None:
        raise InputError(
            f"the Ray node {_node()} is unlike the machine that srgdqn was started on and would compute other bits: it "
            f"has {unlike}. Give every node the same installation, or take this one out of the cluster."
        )
    if call.keep_programs:
        enable_program_cache()
    unsent: list[Any] = []
    with _telling(board, place, unsent) as (stop, tell):
        outcome = Stopped() if stop.is_set() else call.function(cloudpickle.loads(packed_thing), stop, tell)
    return Ended(outcome, unsent)


@contextlib.contextmanager
def _telling(board: Any, place: int, unsent: list[Any]) -> Iterator[tuple[threading.Event, Tell]]:
    """An event that is set when the board says stop, and the way to it, along which a thread walks now and then with
    what is `unsent`; in the end, something may be left.
    """
    stop, ended, lock = threading.Event(), threading.Event(), threading.Lock()

    def exchange() -> float:
        with lock:
            messages = unsent[:]
            del unsent[:]
        try:
            # Waiting for a future keeps the core reserved, which Ray's own `get` would lend to another call meanwhile.
            answer = board.tell.remote(place, messages).future().result(timeout=_PATIENCE)
        except Exception:  # a board that is lost costs the bar, not the work
            with lock:
                unsent[:0] = messages
            return _SECONDS
        if answer.stop:
            stop.set()
        return float(answer.pause)

    def walk(pause: float) -> None:
        while not ended.wait(pause):
            pause = exchange()

    def tell(message: Any) -> None:
        with lock:
            unsent.append(message)

    walker = threading.Thread(target=walk, args=(exchange(),), name="board", daemon=True)
    walker.start()
    try:
        yield stop, tell
    finally:
        ended.set()
        walker.join()
        board.tell.remote(place, [], last=True)


def _node() -> str:
    import ray

    return str(ray.util.get_node_ip_address())
