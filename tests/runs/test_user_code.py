"""What a run tells of the parts that are the user's own."""

import dataclasses
from importlib import metadata

import gymnasium as gym
import jax.numpy as jnp
import pytest

import srgdqn
from host_environments import SMALL, Counting
from srgdqn.adapters.environments import source_of
from srgdqn.config.configure import configure
from srgdqn.learner.estimators import ESTIMATORS, estimator
from srgdqn.runs.cache import why_invalid
from srgdqn.runs.user_code import own_parts
from tiny import LEVERS, STUBBORN, Stubborn


def test_what_comes_with_the_package_is_nobodys_own() -> None:
    assert own_parts(configure("CartPole")) == {}
    assert own_parts(configure("CartPole"), environment=source_of("CartPole-v1")) == {}


def test_a_network_is_told_with_the_numbers_that_rounds_start_from() -> None:
    configuration = configure("CartPole")
    told = own_parts(configuration, STUBBORN)["network"]
    assert told["name"] == "tiny.Stubborn"
    assert told["source"] is not None
    other = own_parts(configuration, Stubborn(jnp.linspace(1.0, 0.5, 8)))["network"]
    assert told["values"] != other["values"]
    assert {**other, "values": told["values"]} == told
    assert "values" not in own_parts(configuration, lambda key: STUBBORN)["network"]


def test_environments_of_all_kinds() -> None:
    configuration = configure("CartPole")
    assert own_parts(configuration, environment=LEVERS)["environment"]["name"] == "tiny.Levers"
    assert own_parts(configuration, environment=source_of(Counting))["environment"]["name"].endswith("Counting")
    wrapped = own_parts(configuration, environment=source_of(gym.wrappers.TimeLimit(Counting(), 3)))["environment"]
    assert wrapped["name"] == "host_environments.Counting"
    assert [each["name"].rpartition(".")[2] for each in wrapped["wrappers"]] == ["TimeLimit"]


def test_an_id_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    gym.register("Counted-v0", "host_environments:Counting")
    told = own_parts(configure("CartPole"), environment=source_of("Counted-v0"))["environment"]
    assert told["name"] == "host_environments.Counting"
    assert told["source"] is not None


def test_versions_of_what_an_environment_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gymnasium's own version is told by every run; Box2D's is not."""
    lander = own_parts(configure("CartPole"), environment=source_of("LunarLander-v3"))["environment"]
    assert lander["versions"] == {"Box2D": metadata.version("box2d")}
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    gym.register("Known-v0", "numpy:nothing")
    gym.register("Found-v0", "PIL:nothing")
    sources = source_of("Known-v0"), source_of("Found-v0")
    known, found = (own_parts(configure("CartPole"), environment=source)["environment"] for source in sources)
    assert known["versions"] == {"numpy": metadata.version("numpy")}
    assert found["versions"] == {"pillow": metadata.version("pillow")}


def test_an_estimator_that_was_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    def direction(*arguments: object) -> object:
        return estimator("sgd").direction(*arguments)

    monkeypatch.setitem(ESTIMATORS, "mine", ESTIMATORS["sgd"]._replace(direction=direction))
    told = own_parts(configure("CartPole", estimator="mine"))["estimator"]
    assert told["name"].endswith("direction")
    assert told["source"] is not None


def test_runs_and_agents_tell_engine_and_inputs() -> None:
    result = srgdqn.train(
        LEVERS, "dqn-sgd", network=STUBBORN, steps=64, progress=False, learning_frequency=16, learning_starts=32
    )
    told = result.run.provenance
    assert told["engine"] == "local"
    assert set(told["inputs"]["own"]) == {"network", "environment"}
    same = srgdqn.train(
        LEVERS, "dqn-sgd", network=STUBBORN, steps=64, progress=False, learning_frequency=16, learning_starts=32
    )
    assert same.run.provenance["inputs"] == told["inputs"]
    on_host = srgdqn.train(Counting, "dqn-sgd", steps=64, progress=False, **SMALL)
    assert on_host.run.provenance["inputs"]["own"]["environment"]["name"] == "host_environments.Counting"


def test_another_engine_makes_no_run_stale() -> None:
    result = srgdqn.train("CartPole", "dqn-adam", steps=1_200, evaluation_episodes=1, progress=False)
    assert why_invalid(result, result.configuration) is None
    for told, stale in (({"engine": "ray"}, False), ({"cores": 1_000}, False), ({"computation": "training 0"}, True)):
        run = dataclasses.replace(result.run, provenance={**result.run.provenance, **told})
        assert (why_invalid(dataclasses.replace(result, run=run), result.configuration) is not None) == stale
