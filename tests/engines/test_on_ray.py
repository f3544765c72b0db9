"""The Ray engine, on a Ray of its own and on clusters of several nodes whose workers, nodes and drivers are killed."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fenced import seen_behind_the_fence
from srgdqn.engines.ray_connection import connected
from srgdqn.errors import InputError

pytestmark = pytest.mark.cluster

LOOPBACK = "0100007F"  # as the kernel writes it


def seen_in(scenario: str, folder: Path) -> dict[str, Any]:
    return seen_behind_the_fence(Path(__file__).with_name("ray_scenarios.py"), scenario, folder)


# A Ray that is started for the work and ended with it


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def own(own_folder: Path) -> dict[str, Any]:
    return seen_in("own", own_folder)


def test_every_item_comes_once_with_its_outcome(own: dict[str, Any]) -> None:
    assert own["outcomes"] == {str(item): item**2 for item in range(8)}
    assert own["nothing"] == []


def test_messages_come_in_order(own: dict[str, Any]) -> None:
    by_item = [[message for item, message in own["heard"] if item == which] for which in range(8)]
    assert by_item == [[[item, part] for part in range(3)] for item in range(8)]


def test_calls_run_at_the_same_time_in_processes_of_one_core(own: dict[str, Any]) -> None:
    first, second = own["together"]
    assert first["process"] != second["process"]
    assert abs(first["began"] - second["began"]) < 1.9
    assert (first["threads"], second["threads"]) == ("1", "1")


def test_it_listens_on_loopback_alone(own: dict[str, Any]) -> None:
    assert own["listening"] == [LOOPBACK]


def test_an_error_is_raised_as_it_was(own: dict[str, Any]) -> None:
    assert own["raised"] == "the first one is not wanted."


def test_an_interrupt_stops_what_runs_and_begins_nothing_more(own: dict[str, Any], own_folder: Path) -> None:
    assert own["interrupted"]
    begun = {path.name.split("-")[1] for path in own_folder.glob("begun-*")}
    stopped = {path.name.split("-")[1] for path in own_folder.glob("stopped-*")}
    assert 2 <= len(begun) <= 5
    assert stopped == begun - {"0"}


def test_an_interrupt_while_an_outcome_is_saved_does_not_cost_those_that_wait(own: dict[str, Any]) -> None:
    assert own["ready"]
    assert own["saved"] == [*range(6)]


def test_a_call_that_always_kills_its_process_comes_to_an_end(own: dict[str, Any]) -> None:
    assert own["crashed"].startswith("Ray has given up on a call after 1 retries")


def test_what_cannot_be_pickled_is_refused_in_a_sentence(own: dict[str, Any]) -> None:
    assert "cannot pickle" in own["not pickled"]
    assert len(own["not pickled"]) < 300


def test_ray_is_left_as_it_was_found(own: dict[str, Any]) -> None:
    assert own["still there"]  # between two runs within one context
    assert not own["left"]
    assert own["handler kept"]


def test_a_cluster_that_is_not_there_is_refused(own: dict[str, Any]) -> None:
    assert own["no cluster"].startswith("no Ray cluster can be used at '127.0.0.1:1': ")
    assert "refused" in own["no cluster"]
    assert "--address auto" in own["client"]


# Clusters


def test_nothing_is_lost_with_a_worker_and_a_node(tmp_path: Path) -> None:
    seen = seen_in("deaths", tmp_path)
    assert seen["outcomes"] == {str(item): item**2 for item in range(10)}
    assert seen["deaths"] == ["worker", "node"]
    assert seen["items"] == 10
    assert seen["begun"] == 12  # the two calls that died were made again


def test_a_machine_that_would_compute_other_bits_is_refused_and_so_is_who_has_no_token(tmp_path: Path) -> None:
    seen = seen_in("unlike", tmp_path)
    assert "127.0.0.2 is unlike the machine" in seen["refused"]
    assert "another C compiler (another compiler," in seen["refused"]
    assert "token" in json.loads(seen["stranger"])["refused"]


def test_calls_end_with_their_driver_and_another_takes_its_place(tmp_path: Path) -> None:
    seen = seen_in("resumed", tmp_path)
    assert seen["calls ended with their driver"]
    assert seen["outcomes"] == {str(item): item**2 for item in range(4)}


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srgdqn.extras.find_spec", lambda package: None)
    with pytest.raises(InputError, match=r"pip install 'srgdqn\[ray\]'"), connected():
        pass


# Without a Ray: what is done around its calls


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Callable[[], None]]:
    """What happens in the midst of calls into Ray, by their names; nothing but that does."""
    ray = pytest.importorskip("ray")
    within: dict[str, Callable[[], None]] = {}

    def called(name: str, outcome: Any) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            within.get(name, lambda: None)()
            return outcome

        return call

    for name, outcome in {"init": None, "cluster_resources": {"CPU": 2.0}, "shutdown": None}.items():
        monkeypatch.setattr(ray, name, called(name, outcome))
    monkeypatch.setenv("HOME", str(tmp_path))
    return within


@pytest.mark.parametrize("moment", ["init", "cluster_resources", "shutdown"])
def test_an_interrupt_waits_until_ray_is_done(moment: str, calls: dict[str, Callable[[], None]]) -> None:
    done = []

    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        done.append(moment)

    calls.update({"shutdown": lambda: done.append("ended"), moment: interrupted})
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), connected():
        done.append("connected")
    assert done == (["connected", moment] if moment == "shutdown" else [moment, "ended"])
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("there", [True, False])
def test_nobody_else_can_read_the_token(there: bool, calls: dict[str, Callable[[], None]], tmp_path: Path) -> None:
    folder = tmp_path / ".ray"
    if there:
        folder.mkdir(mode=0o755)

    def made() -> None:
        folder.mkdir(exist_ok=True)
        (folder / "auth_token").write_text("a word")
        (folder / "auth_token").chmod(0o644)

    calls["init"] = made
    with connected():
        assert (folder / "auth_token").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == (0o755 if there else 0o700)
