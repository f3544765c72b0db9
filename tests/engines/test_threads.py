import threading

import pytest

from srgdqn.engines.threads import run_locally


def test_every_thing_is_done_once_and_comes_with_its_outcome() -> None:
    outcomes = dict(run_locally(lambda thing, stop: thing**2, range(20), workers=3))
    assert outcomes == {thing: thing**2 for thing in range(20)}


def test_calls_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)  # breaks, and so raises, unless two calls are there together
    assert len(list(run_locally(lambda thing, stop: meeting.wait(), [1, 2], workers=2))) == 2


def test_an_error_stops_the_others_and_is_raised() -> None:
    seen: list[bool] = []
    other_runs = threading.Event()

    def work(thing: int, stop: threading.Event) -> None:
        if thing == 0:
            other_runs.wait(timeout=20)
            raise RuntimeError("broken")
        other_runs.set()
        seen.append(stop.wait(timeout=20))

    with pytest.raises(RuntimeError, match="broken"):
        list(run_locally(work, range(2), workers=2))
    assert seen == [True]


def test_an_interrupt_stops_what_is_under_way_and_starts_nothing_more() -> None:
    started: list[int] = []

    def work(thing: int, stop: threading.Event) -> None:
        started.append(thing)
        if thing:
            stop.wait(timeout=20)

    outcomes = run_locally(work, range(50), workers=1)
    next(outcomes)
    with pytest.raises(KeyboardInterrupt):
        outcomes.throw(KeyboardInterrupt)
    assert len(started) <= 2
