"""How far several strands are together, whoever tells and in whatever order."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.training.reports import Progress, no_reports
from srgdqn.training.shared_progress import SharedProgress


def told(share: float, diverged: int = 0, steps: int = 16) -> Progress:
    return Progress(share, steps, 0.5, diverged, ended=share == 1.0, reports=no_reports)


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1), st.integers(0, 5)), max_size=20))
def test_it_is_the_mean_of_the_shares_and_the_sum_of_those_that_diverged(news: list[tuple[int, float, int]]) -> None:
    heard: list[Progress] = []
    shared = SharedProgress(heard.append, 3)
    listeners = [shared.of(number) for number in range(3)]
    shares, diverged = [0.0] * 3, [0] * 3
    for number, share, frozen in news:
        listeners[number](told(share, frozen))
        shares[number], diverged[number] = share, frozen
        assert heard[-1].share == pytest.approx(sum(shares) / 3)
        assert heard[-1].diverged == sum(diverged)
        assert heard[-1]._replace(share=share, diverged=frozen) == told(share, frozen)  # the rest is as it was told
    assert len(heard) == len(news)


def test_strands_that_had_ended_before_leave_the_rest_to_the_others() -> None:
    heard: list[Progress] = []
    shared = SharedProgress(heard.append, 4)
    for number in range(3):
        shared.of(number)(Progress(1.0, 0, float("nan"), 1, ended=True))
    shared.of(3)(told(0.5))
    shared.of(3)(told(1.0, diverged=2))
    assert [progress.share for progress in heard] == [0.25, 0.5, 0.75, 0.875, 1.0]
    assert heard[-1].diverged == 5


def test_threads_tell_one_at_a_time() -> None:
    inside, most = 0, 0

    def listen(progress: Progress) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        inside -= 1

    shared = SharedProgress(listen, 4)

    def tell(number: int) -> None:
        for step in range(300):
            shared.of(number)(told(step / 300))

    threads = [threading.Thread(target=tell, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
