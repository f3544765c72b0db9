"""Environments that go wrong anywhere: the error tells it all, and what was learnt before is whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

import srgdqn
from host_environments import SMALL, Bad, Slope
from srgdqn.adapters.failures import EnvironmentFailedError
from srgdqn.agent import Agent
from srgdqn.training.rounds import policy_arrays
from tiny import bits

STEPS = 40  # five blocks, of which four end in an outer iteration
NAME = "host_environments.Bad"


class Mute(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("not even that")


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("nor that")


def _raises(error: BaseException) -> Any:
    def wrong(self: Bad, outcome: Any) -> Any:
        raise error

    return wrong


def _first(value: Any) -> Any:
    """Something else in the place of the observation."""
    return lambda self, outcome: (value, *outcome[1:])


def _at(place: int, value: Any) -> Any:
    return lambda self, outcome: (*outcome[:place], value, *outcome[place + 1 :])


def _other_spaces(self: Bad, outcome: Any) -> Any:
    self.observation_space = Box(-1.0, 1.0, (2,), np.float32)
    return outcome


def _other_actions(self: Bad, outcome: Any) -> Any:
    self.action_space = Discrete(2)
    return outcome


# What is done, and what the error says of it.
ANYWHERE: dict[str, tuple[Any, str]] = {
    "raises": (_raises(ValueError("no ball")), r"raised ValueError \(no ball\)"),
    "raises nothing to say": (_raises(KeyError()), "raised KeyError"),
    "raises a mute one": (_raises(Mute()), "raised Mute"),
    "ends the process": (_raises(SystemExit(3)), r"raised SystemExit \(3\)"),
    "stops the iteration": (_raises(StopIteration()), "raised StopIteration"),
    "NaN": (_first(np.array([np.nan, 0], np.float32)), r"gave the (first )?observation \[nan"),
    "infinite": (_first(np.array([0, np.inf], np.float32)), r"gave the (first )?observation \[ *0. +inf"),
    "short": (_first(np.zeros(1, np.float32)), r"gave an observation of shape \(1,\) where its space has \(2,\)"),
    "None": (_first(None), r"gave an observation of shape \(\)"),
    "words": (_first(["left", "right"]), "gave an observation of type <U5, which is no number"),
    "complex": (_first(np.zeros(2, complex)), "gave an observation of type complex128"),
    "unspeakable": (_first(Unspeakable()), r"gave an observation of shape \(\)"),
    "nothing": (lambda self, outcome: None, "None"),
    "a tuple too short": (lambda self, outcome: outcome[:-1], "not enough values to unpack"),
}
IN_STEP: dict[str, tuple[Any, str]] = {
    "a reward that is NaN": (_at(1, float("nan")), "gave the reward nan"),
    "a reward beyond single precision": (_at(1, 1e308), r"gave the reward inf \(in single precision\)"),
    "a reward without end": (_at(1, -float("inf")), "gave the reward -inf"),
    "no reward": (_at(1, None), "gave the reward None"),
    "a reward in words": (_at(1, "1.0"), "gave the reward '1.0'"),
    "rewards": (_at(1, np.zeros(2)), r"gave the reward array\(\[0., 0.\]\)"),
    "perhaps terminated": (_at(2, None), "gave terminated None"),
    "truncated in words": (_at(3, "no"), "gave truncated 'no'"),
    "an unspeakable reward": (_at(1, Unspeakable()), "RuntimeError"),
}
WRONG = {**ANYWHERE, **IN_STEP}


def bad_environments(wrong: Any, where: str, after: int, in_training: bool) -> Any:
    """A function whose second environment of a run (that of training comes before that of judging) is bad.

    Three are made only to be looked at: for what it is, for its defaults, and for its spaces.
    """
    made: list[Slope] = []

    def make() -> Slope:
        made.append(Bad(wrong, where, after if len(made) == (3 if in_training else 4) else 10**9))
        return made[-1]

    return make


def _fails(wrong: Any, where: str, after: int, in_training: bool) -> EnvironmentFailedError:
    make = bad_environments(wrong, where, after, in_training)
    with pytest.raises(EnvironmentFailedError) as caught:
        srgdqn.train(make, "srg-dqn", **SMALL, steps=STEPS, evaluation_limit=12, progress=False)
    return caught.value


@settings(max_examples=40)
@given(st.sampled_from(sorted(WRONG)), st.integers(0, 30), st.booleans(), st.booleans())
def test_the_error_says_which_one_when_and_what(what: str, after: int, in_step: bool, in_training: bool) -> None:
    wrong, said = WRONG[what]
    where = "step" if in_step or what in IN_STEP else "reset"
    if where == "reset":
        after = min(after, 2 if in_training else 1)
    if not in_training:
        after = min(after, 10)
    error = _fails(wrong, where, after, in_training)
    assert f"the environment {NAME} " in str(error)
    assert re.search(said, str(error)), error
    result = error.result
    assert result.run.provenance["interrupted"] is True
    if in_training and where == "step":
        # What is wrong with an observation that ends an episode is noticed like any other.
        assert f" at step {after + 1}. " in str(error)
        whole = after // 8 * 8
    elif in_training:
        step = int(re.search(r"at step (\d+)\. ", str(error))[1])  # type: ignore[index]
        # Numbers that are not finite are noticed with the step after the reset, anything else at once.
        whole = (step if "first observation" in str(error) else max(step - 1, 0)) // 8 * 8
        assert (step == 0) == (after == 0)
    else:
        assert "of an evaluation" in str(error)
        assert f"at step {after + 1 if where == 'step' else 0} of episode" in str(error) or after > 5
        whole = STEPS
    assert result.rounds["steps"].to_list() == ([whole] if whole else [])
    assert len(result.evaluations) == 0
    if whole:
        assert all(np.isfinite(array).all() for array in result.parameters_of(0).values())


def test_what_was_learnt_before_is_that_of_a_good_environment(tmp_path: Path) -> None:
    """Up to the last whole block, to the bit; it can be saved, loaded, evaluated and acts."""
    result = _fails(WRONG["NaN"][0], "step", 35, True).result
    good = Agent("srg-dqn", Slope, seed=0, **SMALL).learn(STEPS, lambda agent: agent.num_timesteps < 32)
    expected = policy_arrays(good._round.learner.parameters, good._round.normaliser)
    assert bits(result.parameters_of(0)) == bits(expected)
    folder = result.save(tmp_path / "run")
    loaded = srgdqn.load(folder)
    assert loaded.rounds["steps"].to_list() == [32]
    played = loaded.evaluate(episodes=2, environment=Slope)
    assert played["return"].to_list() == result.evaluate(episodes=2, environment=Slope)["return"].to_list()
    assert loaded.policy(0)(np.zeros(2, np.float32)) in range(3)


@pytest.mark.parametrize("change", [_other_spaces, _other_actions])
def test_spaces_that_change_are_noticed(change: Any) -> None:
    error = _fails(change, "step", 3, True)
    assert re.search(r"has another (observation|action) space, (Box|Discrete).* where it had", str(error))


def test_nothing_at_all_can_be_saved_too(tmp_path: Path) -> None:
    result = _fails(WRONG["raises"][0], "reset", 0, True).result
    assert result.rounds.height == 0
    assert srgdqn.load(result.save(tmp_path / "run")).rounds.height == 0
    assert "0 rounds, interrupted" in repr(result)


def test_an_agent_survives_its_environment(tmp_path: Path) -> None:
    """It stands at the last whole block, is saved, predicts, and goes on without anything of the bad one."""
    environment = Bad(WRONG["NaN"][0], "step", 39)  # the last of a block, which the next begins with
    agent = Agent("srg-dqn", environment, seed=0, **SMALL)
    with pytest.raises(EnvironmentFailedError, match="at step 40") as caught:
        agent.learn(STEPS)
    assert caught.value.result is None
    assert agent.num_timesteps == 32
    kept = Agent.load(agent.save(tmp_path / "agent"), Slope)
    seen = np.random.default_rng(0).uniform(-2, 2, (20, 2)).astype(np.float32)
    assert kept.predict(seen, deterministic=True)[0].tolist() == agent.predict(seen, deterministic=True)[0].tolist()
    agent.learn(STEPS)
    assert agent.num_timesteps == STEPS
    assert np.isfinite(agent._round.memory.rows).all()  # type: ignore[attr-defined]
    assert not agent.diverged
