import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from srgdqn.training.program import Once


def test_the_same_key_is_made_once_though_many_ask_at_the_same_time() -> None:
    once: Once[object] = Once(8)
    made: list[int] = []
    everyone = threading.Barrier(4)

    def make() -> object:
        made.append(1)
        return object()

    def ask(_: int) -> tuple[object, bool]:
        everyone.wait()
        return once.get("key", make)

    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(ask, range(4)))
    assert len(made) == 1
    assert len({id(thing) for thing, _ in got}) == 1
    assert sorted(fresh for _, fresh in got) == [False, False, False, True]


def test_other_keys_are_not_kept_waiting() -> None:
    once: Once[str] = Once(8)
    second_is_made = threading.Event()

    def slow() -> str:
        assert second_is_made.wait(10)  # only if the other key can be had meanwhile
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(once.get, "slow", slow)
        assert once.get("fast", lambda: "fast") == ("fast", True)
        second_is_made.set()
        assert first.result() == ("slow", True)


def test_what_raises_is_tried_again() -> None:
    once: Once[str] = Once(8)

    def fail() -> str:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            once.get("key", fail)
    assert once.get("key", lambda: "made") == ("made", True)


def test_the_oldest_keys_are_forgotten() -> None:
    once: Once[int] = Once(2)
    for number in range(3):
        once.get(number, lambda number=number: number)  # type: ignore[misc]
    assert once.get(2, lambda: -1) == (2, False)
    assert once.get(0, lambda: -1) == (-1, True)
