"""Where environments come from: ids, specs, factories and instances; and what is said about those that do not come."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import registry
from hypothesis import given as given_options
from hypothesis import strategies as st

import srgdqn
from host_environments import SMALL, Slope
from srgdqn.adapters import environments
from srgdqn.adapters.defaults import defaults_for
from srgdqn.adapters.environments import close, source_of
from srgdqn.adapters.registry import check_name, known_identifier, newest_version
from srgdqn.config.configure import configure
from srgdqn.config.identifiers import is_identifier, options_of, plain, with_options
from srgdqn.config.presets import host_preset
from srgdqn.errors import InputError
from srgdqn.training.host.task import host_task, make_player


@pytest.fixture
def registered() -> Iterator[None]:
    """Ids that only this process knows."""
    before = dict(registry)
    gym.register("Slope-v3", "host_environments:Slope")
    registry["Slope-v1"] = gym.envs.registration.EnvSpec("Slope-v1", Slope)
    gym.register("house/Slope-v0", Slope)
    gym.register("Boxed-v0", lambda **_: _lacks("Box2D is not installed, run `pip install swig`"))
    gym.register("Strange-v0", lambda **_: _lacks("Strange is not installed"))
    gym.register("Broken-v0", lambda **_: 1 / 0)
    yield
    registry.clear()
    registry.update(before)


def _lacks(text: str) -> Any:
    raise gym.error.DependencyNotInstalled(text)


# Ids


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("CartPol-v1", ["unknown Gymnasium environment 'CartPol-v1'", "Did you mean 'CartPole-v1'?"]),
        ("CartPole", ["Did you mean 'CartPole-v1'?"]),
        ("Pendulum-v0", ["Did you mean 'Pendulum-v1'?"]),
        ("slope-v2", ["Did you mean 'Slope-v3'?"]),
        ("house/Slop-v0", ["Did you mean 'house/Slope-v0'?", "Known: house/Slope-v0."]),
        ("nowhere:Slope-v3", ["the module 'nowhere'", "cannot be imported", "Install it"]),
        ("host_environments:Slop-v1", ["unknown Gymnasium environment 'Slop-v1'"]),
        ("PongNoFrameskip-v4", ["Give 'ALE/Pong-v5', or 'ALE/Pong-v5,repeat_action_probability=0'"]),
        # Known, but impossible to make
        ("Boxed-v0", ["Boxed-v0 cannot be made", "Box2D is not installed", "pip install 'srgdqn[box2d]'"]),
        ("Strange-v0", ["Strange is not installed", "Install what it needs"]),
        ("Broken-v0", ["ZeroDivisionError", "Try gymnasium.make('Broken-v0') by itself"]),
        # Options
        ("CartPole-v1,", ["'' is no option", "name=value"]),
        ("CartPole-v1,a-b=1", ["'a-b=1' is no option"]),
        ("CartPole-v1,a=1,a=2", ["'a=2' is given twice"]),
        ("CartPol-v1,a=1", ["unknown Gymnasium environment 'CartPol-v1'", "Did you mean 'CartPole-v1'?"]),
        ("CartPole-v1,mood=3", ["CartPole-v1,mood=3 cannot be made", "unexpected keyword argument 'mood'"]),
    ],
)
@pytest.mark.usefixtures("registered")
def test_ids_that_make_no_environment(given: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        source_of(given).fresh()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.usefixtures("registered")
def test_names_without_a_version_are_told_with_the_newest() -> None:
    assert newest_version("slope") == "Slope-v3"
    assert newest_version("Nothing") is None
    with pytest.raises(InputError, match=r"Did you mean Gymnasium's 'Slope-v3'\?"):
        srgdqn.train("Slope")
    with pytest.raises(InputError, match=r"unknown task 'MountianCar'. Did you mean 'MountainCar'\?"):
        check_name("MountianCar")
    check_name("MountainCar")


@pytest.mark.usefixtures("registered")
def test_ids_may_bring_their_module() -> None:
    assert known_identifier("host_environments:Slope-v3") == "host_environments:Slope-v3"
    source = source_of("host_environments:Slope-v3")
    assert isinstance(source.fresh().unwrapped, Slope)
    assert source.name == "host_environments:Slope-v3"


# Factories


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (lambda: None, "which is no Gymnasium environment. Return a gymnasium.Env from it"),
        (lambda: Slope, "which is no Gymnasium environment"),
        (lambda: gym.make_vec("CartPole-v1", 2), r"makes the vector environment.*environments=…"),
        (None, "neither a Gymnasium id, nor an environment, nor a function"),
        (["CartPole-v1"], "neither a Gymnasium id, nor an environment, nor a function"),
    ],
)
def test_what_makes_no_environment_is_refused(given: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        source_of(given)


def test_classes_and_specs_make_environments_too() -> None:
    for given in (Slope, gym.spec("CartPole-v1")):
        source = source_of(given)
        assert source.fresh() is not source.fresh()
    assert source_of(Slope).name == "host_environments.Slope"
    assert source_of(gym.spec("CartPole-v1")).name == "CartPole-v1"


def test_a_function_is_asked_for_what_can_be_seen() -> None:
    source = source_of(lambda: gym.make("CartPole-v1"))
    with pytest.raises(InputError, match="with render_mode=None, and 'rgb_array' is needed"):
        source.fresh("rgb_array")
    assert source_of(lambda: gym.make("CartPole-v1", render_mode="rgb_array")).fresh("rgb_array").render_mode


# Options of an id


def test_options_decide_how_an_environment_is_made() -> None:
    lake = source_of("FrozenLake-v1,map_name=8x8,is_slippery=false").fresh()
    assert lake.observation_space == gym.spaces.Discrete(64)
    lake.reset(seed=0)
    assert [lake.step(2)[0] for _ in range(3)] == [1, 2, 3]  # which ice would not always allow
    result = srgdqn.train("FrozenLake-v1,map_name=8x8,is_slippery=false", **SMALL)
    assert result.run.provenance["observation_size"] == 64


@pytest.mark.parametrize("action_type", ["discrete", "continuous"])
def test_images_of_a_car_are_learned_with_discrete_actions(action_type: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Box2D's bindings warn when they are first imported
        pytest.importorskip("Box2D")
    name = f"CarRacing-v3,continuous={'false' if action_type == 'discrete' else 'true'}"
    configuration = configure(name, defaults=defaults_for(source_of(name)))
    assert configuration.network.network == "cnn"
    if action_type == "discrete":
        task = host_task(configuration, source_of(name))
        assert (task.actions.count, task.observations.shape) == (5, (4, 84, 84))
    else:
        with pytest.raises(InputError, match=r"action space of CarRacing-v3,continuous=true .*"):
            host_task(configuration, source_of(name))


@given_options(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,5}", fullmatch=True),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    )
)
def test_options_are_read_as_they_were_written(options: dict[str, Any]) -> None:
    written = with_options("CartPole-v1", options)
    if written is None:  # a text that holds a comma, or that would be read as something else
        assert any(isinstance(value, str) for value in options.values())
        return
    assert (plain(written), options_of(written)) == ("CartPole-v1", options)
    assert is_identifier(written)


def test_images_and_games_given_are_not_what_their_ids_would_make() -> None:
    ale = pytest.importorskip("ale_py")
    assert ale is not None
    game = gym.make("ALE/Pong-v5")
    assert source_of(game).name == source_of(game.spec).name == "ALE/Pong-v5 (as given)"
    together = source_of(gym.make_vec("ALE/Pong-v5", 2))
    assert together.name == "ALE/Pong-v5 (as given)"
    with pytest.raises(InputError, match=r"cannot be made from its name"):
        together.fresh()
    assert host_preset(together.name, images=True) == host_preset("ALE/Pong-v5", images=True)


# Instances


def test_an_instance_with_a_spec_is_made_again_with_its_wrappers() -> None:
    given = gym.wrappers.TimeLimit(gym.wrappers.FlattenObservation(gym.make("CartPole-v1", max_episode_steps=7)), 5)
    source = source_of(given)
    copy = source.fresh()
    assert copy is not given
    assert copy.unwrapped is not given.unwrapped
    assert gym.wrappers.FlattenObservation in {type(layer) for layer in _layers(copy)}
    copy.reset(seed=0)
    assert [copy.step(step % 2)[3] for step in range(5)] == [False] * 4 + [True]
    assert source.name == "CartPole-v1 (as given)"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (lambda: gym.make("CartPole-v1"), "CartPole-v1"),
        (lambda: gym.make("CartPole-v1", render_mode="rgb_array"), "CartPole-v1"),
        (lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1")), "CartPole-v1"),
        (lambda: gym.make("CartPole-v1", max_episode_steps=7), "CartPole-v1,max_episode_steps=7"),
        (lambda: gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 7), "CartPole-v1,max_episode_steps=7"),
        (lambda: gym.make("Pendulum-v1", g=9.81), "Pendulum-v1,g=9.81"),
        (lambda: gym.make("Pendulum-v1", g=np.float64(9.81)), "Pendulum-v1 (as given)"),
        (lambda: gym.make("FrozenLake-v1", desc=["SF", "FG"]), "FrozenLake-v1 (as given)"),
        (lambda: gym.make("FrozenLake-v1", map_name="8x8"), "FrozenLake-v1,map_name=8x8"),
        (lambda: gym.wrappers.TransformReward(gym.make("CartPole-v1"), lambda r: 2 * r), "CartPole-v1 (as given)"),
        (lambda: gym.make_vec("CartPole-v1", 2), "CartPole-v1"),
        (lambda: gym.make_vec("Pendulum-v1", 2, g=9.81), "Pendulum-v1,g=9.81"),
        (lambda: gym.wrappers.vector.NormalizeObservation(gym.make_vec("CartPole-v1", 2)), "CartPole-v1 (as given)"),
    ],
)
def test_a_name_says_how_the_same_environment_is_made_or_that_none_can(given: Any, name: str) -> None:
    made = given()
    assert source_of(made).name == name
    if isinstance(made, gym.Env):
        assert source_of(given).name == name
        assert source_of(made.spec).name == name
    assert is_identifier(name) == (not name.endswith(")"))
    if is_identifier(name):
        again = source_of(name)
        assert source_of(again.fresh()).name == again.name == name
        assert again.fresh().spec.kwargs.get("g") == made.spec.kwargs.get("g")
        assert again.fresh().spec.max_episode_steps == made.spec.max_episode_steps


def test_an_instance_without_a_spec_is_copied() -> None:
    given = Slope()
    given.reset(seed=1)
    given.mark = [1, 2]  # type: ignore[attr-defined]
    copy: Any = source_of(given).fresh()
    assert copy is not given
    assert (copy.mark, copy.mark is given.mark) == ([1, 2], False)  # type: ignore[attr-defined]


def test_an_instance_that_cannot_be_copied_is_told() -> None:
    given = Slope()
    given.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"can neither be remade nor copied.*Give a function that makes it"):
        source_of(given).fresh()


def test_copies_of_what_records_do_not_record(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    given = gym.wrappers.RecordEpisodeStatistics(
        gym.wrappers.RecordVideo(gym.make("CartPole-v1", render_mode="rgb_array"), str(tmp_path / "videos"))
    )
    source = source_of(given)
    for made in (source.fresh(), gym.make(source.recipe)):
        kinds = {type(layer) for layer in _layers(made)}
        assert not kinds & {gym.wrappers.RecordVideo, gym.wrappers.RecordEpisodeStatistics}
    assert gym.wrappers.RecordVideo in {type(layer) for layer in _layers(given)}
    given.close()


def _layers(environment: Any) -> Iterator[gym.Env]:
    while isinstance(environment, gym.Wrapper):
        yield environment
        environment = environment.env


@pytest.mark.parametrize("environments_", [1, 3])
def test_given_instances_are_learned_in_themselves_and_never_closed(environments_: int) -> None:
    given = Slope()
    configuration = _configured(environments=environments_, learning_frequency=6, batch_size=4)
    player, ours = make_player(configuration, host_task(configuration, source_of(given)), 0)
    assert player.begun == [0] * environments_
    assert (given in [each.unwrapped for each in player._environments]) == (environments_ == 1)  # type: ignore[attr-defined]
    assert len(ours) == (0 if environments_ == 1 else environments_)


def _configured(**options: Any) -> Any:
    return configure("Slope", defaults=host_preset("Slope"), **{**SMALL, **options})


class Untraceable(gym.Wrapper):
    """A wrapper as people write them."""


# Refused before anything is done


@pytest.mark.parametrize(
    ("given", "options", "parts"),
    [
        (lambda: gym.make_vec("CartPole-v1", 2), dict(environments=4), ["environments is 4", "has 2"]),
        (lambda: gym.make_vec("CartPole-v1", 2), dict(time_limit=9), ["time_limit is 9", "max_episode_steps"]),
        (lambda: gym.make_vec("CartPole-v1", 2), dict(rounds=2), ["rounds is 2", "one instance"]),
        (Slope, dict(rounds=2), ["rounds is 2", "one instance", "Give an id or a function"]),
        (Slope, dict(environments=3), ["not a multiple of environments = 3"]),
        (Slope, dict(kernel="native", activation="tanh"), ["kernel is 'native'", "no activation = 'tanh'"]),
        (Slope, dict(action_bins=4), ["action_bins is 4", "discrete already"]),
        (lambda: gym.make("CartPole-v1"), dict(time_limit=501), ["time_limit is 501", "max_episode_steps=501"]),
        (lambda: Untraceable(gym.make("CartPole-v1")), dict(rounds=2), ["rounds is 2", "one instance"]),
    ],
)
def test_options_that_do_not_fit_the_environment(given: Any, options: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        srgdqn.train(given(), **{**SMALL, **options})
    for part in parts:
        assert part in str(caught.value)


# Closing


def test_closing_what_raises_or_hangs_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "_CLOSING_SECONDS", 0.05)
    released = threading.Event()

    class Raising(Slope):
        def close(self) -> None:
            raise ValueError("stuck door")

    class Hanging(Slope):
        def close(self) -> None:
            released.wait(30)

    with pytest.warns(RuntimeWarning, match=r"closing the environment Door raised ValueError \(stuck door\)"):
        close(Raising(), "Door")
    with pytest.warns(RuntimeWarning, match="closing the environment Door has not come back"):
        close(Hanging(), "Door")
    released.set()


def test_a_source_is_copied_with_its_instance() -> None:
    given = Slope()
    copied = copy.deepcopy(source_of(given))
    assert isinstance(copied.given, Slope)
    assert copied.given is not given
