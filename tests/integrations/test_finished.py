"""A saved run's view against what was heard while it went on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from srgdqn.api import train_configured
from srgdqn.integrations import JsonLines, listening
from srgdqn.integrations.finished import watched_to_the_end
from srgdqn.integrations.json_lines import LineReader
from srgdqn.integrations.watched import Watched
from synthetic_runs import synthetic
from tiny import tiny

SAME = ("step", "rollout/ep_rew_mean", "rollout/ep_len_mean", "time/episodes", "train/n_updates", "diverged_at")


def test_the_tables_tell_what_was_heard(tmp_path: Path) -> None:
    configuration, _ = tiny(rounds=6, steps=2_000, eta=0.03)
    rows = JsonLines(tmp_path / "rows.jsonl")
    with listening(configuration, [rows]) as listener:
        result = train_configured(configuration, progress=False, listener=listener)
    heard = Watched()
    for line in LineReader(rows.path).read() or ():
        heard.hear(line)
    assert heard.ended
    told = watched_to_the_end(result)
    assert told.header.items() <= heard.header.items()
    assert sorted(told.rounds) == sorted(heard.rounds) == list(range(6))
    for number in range(6):
        for name in SAME:
            assert told.rounds[number].get(name) == pytest.approx(heard.rounds[number].get(name)), name
    assert told.share == heard.share == 1.0


def test_means_are_over_the_last_hundred_episodes_of_each_round() -> None:
    result = synthetic(rounds=3, steps=60_000)
    told = watched_to_the_end(result)
    _, curves = told.curves()
    for number in range(3):
        mine = result.episodes.filter(result.episodes["round"] == number)
        assert told.rounds[number]["rollout/ep_rew_mean"] == pytest.approx(mine["return"].to_numpy()[-100:].mean())
        for step, value in curves[number]:
            by_then = mine.filter(mine["step"] <= step)["return"].to_numpy()
            assert value == pytest.approx(np.mean(by_then[-100:]), abs=1e-9)
