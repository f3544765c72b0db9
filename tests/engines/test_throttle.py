"""How often something is done."""

import pytest

from srgdqn.engines.throttle import Throttle


@pytest.mark.parametrize("at_once", [True, False])
def test_it_is_due_after_so_many_seconds(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    throttle, due = Throttle(0.5, at_once=at_once), []
    for turn in range(21):
        now = turn / 8
        due.append(throttle.due(anyway=turn == 17))
    assert [turn for turn, each in enumerate(due) if each] == [*([0] if at_once else []), 4, 8, 12, 16, 17]
