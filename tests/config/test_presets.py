"""Presets of Gymnasium's environments fit them, and the page of their results is made from the records."""

import json
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import srgdqn
from srgdqn.adapters.environments import source_of
from srgdqn.config import option_names
from srgdqn.config.configure import configure
from srgdqn.config.presets import HOST_DEFAULTS, HOST_PRESETS, host_preset
from srgdqn.training.host.task import host_task

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module", autouse=True)
def box2d() -> None:
    """Its generated bindings warn when they are first imported, and crash where that is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("Box2D")


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.delitem(sys.modules, "record_presets", raising=False)
    import record_presets

    return record_presets


def records() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "presets.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("identifier", HOST_PRESETS)
def test_a_preset_fits_its_environment(identifier: str) -> None:
    configuration = configure(identifier)
    task = host_task(configuration, source_of(identifier))
    with_bins = HOST_PRESETS[identifier].get("action_bins")
    space = gym.make(identifier).action_space
    expected = space.n if isinstance(space, gym.spaces.Discrete) else with_bins ** space.shape[0]
    assert task.actions.count == expected
    assert configuration.training.steps == host_preset(identifier)["steps"]


@pytest.mark.parametrize("identifier", HOST_PRESETS)
def test_a_preset_says_only_what_differs_from_the_defaults(identifier: str) -> None:
    given = HOST_PRESETS[identifier]
    assert set(given) <= set(option_names())
    assert {name for name, value in given.items() if HOST_DEFAULTS.get(name) == value} == set()
    assert host_preset(identifier) == {**HOST_DEFAULTS, **given}


def test_images_of_an_environment_that_nobody_tuned_can_be_learned() -> None:
    configuration = configure("Image-v0", defaults=host_preset("Image-v0", images=True))
    seen = gym.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    source = source_of(lambda: Still(seen))
    assert host_task(configuration, source).observations.kind == "image"


def test_the_defaults_find_the_way_out_of_a_corridor() -> None:
    result = srgdqn.train(lambda: Corridor(), "srg-dqn", steps=3_000, evaluation_interval=None, progress=False)
    assert result.evaluations["return"].to_list() == [pytest.approx(Corridor.BEST)] * result.evaluations.height


def test_every_preset_is_recorded_as_it_is() -> None:
    found = records()
    assert list(found) == list(HOST_PRESETS)
    as_json = json.loads(json.dumps(HOST_PRESETS))
    assert {name: each["preset"] for name, each in found.items()} == as_json
    for name, each in found.items():
        assert each["threshold"] == gym.spec(name).reward_threshold
        assert each["rounds"] >= 5
        assert list(each["algorithms"]) == ["srg-dqn", "svr-dqn", "dqn-adam"]
        for record in each["algorithms"].values():
            assert record["steps"] == host_preset(name)["steps"]
            assert len(record["returns"]) + record["diverged"] == each["rounds"]


def test_the_page_is_made_from_the_records(recording: ModuleType) -> None:
    page = (DOCS / "presets.md").read_text(encoding="utf-8")
    for what, text in recording.texts(records()).items():
        assert f"<!-- {what} -->\n\n{text}\n\n<!-- end of {what} -->" in page, what


def test_rows_tell_of_rounds_that_diverged_and_of_none_that_reached_a_threshold_which_there_is_not(
    recording: ModuleType,
) -> None:
    record = {"steps": 9_000, "steps_per_second": 1234.5, "diverged": 2, "returns": [10.0, 30.0, 20.0]}
    spread = {"rounds": 3, "mean": 20.0, "low": 12.5, "high": 27.5}
    nothing = {"rounds": 0, "mean": None, "low": None, "high": None}
    algorithms = {
        "srg-dqn": {**record, "greedy_return": spread},
        "dqn-adam": {**record, "diverged": 5, "returns": [], "greedy_return": nothing},
    }
    about = {"random": -1.25, "rounds": 5, "algorithms": algorithms}
    table = recording.result_table({"A-v0": {**about, "threshold": 20}, "B-v0": {**about, "threshold": None}})
    assert table.splitlines()[2:] == [
        "| `A-v0` | 20 | -1.2 | `srg-dqn` | 9,000 | **20.0** | 12.5 to 27.5 | 2 of 5 | 2 | 1,234 |",
        "| `A-v0` | 20 | -1.2 | `dqn-adam` | 9,000 | **none** | none | 0 of 5 | 5 | 1,234 |",
        "| `B-v0` | none | -1.2 | `srg-dqn` | 9,000 | **20.0** | 12.5 to 27.5 | – | 2 | 1,234 |",
        "| `B-v0` | none | -1.2 | `dqn-adam` | 9,000 | **none** | none | – | 5 | 1,234 |",
    ]


class Corridor(gym.Env):
    """Five rooms in a row, of which the last leads out; every step costs, and more so the wrong way."""

    ROOMS = 5
    BEST = -0.1 * (ROOMS - 1)
    observation_space = gym.spaces.Discrete(ROOMS)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.room, self.steps = 0, 0
        return self.room, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.room = min(self.room + 1, self.ROOMS) if action == 1 else max(self.room - 1, 0)
        self.steps += 1
        out = self.room == self.ROOMS - 1
        return self.room, -0.1 if action == 1 else -0.2, out, self.steps >= 100, {}


class Still(gym.Env):
    """Shows its space and does nothing."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, seen: gym.spaces.Space) -> None:
        self.observation_space = seen
