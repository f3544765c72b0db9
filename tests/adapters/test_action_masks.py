"""Only what `info["action_mask"]` allows is chosen, at random too, in evaluations and in the replay's next states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

import srgdqn
from host_environments import SMALL, Bad, Counting, Masked, Slope, allowed
from srgdqn.adapters.action_masks import random_allowed, read_mask
from srgdqn.adapters.players import CopiesPlayer, EnvironmentInfo, ExplorationDraws, VectorPlayer
from srgdqn.adapters.policy import CompiledPolicy, NumPyPolicy
from srgdqn.adapters.replay_memory import Block, FlatMemory, FrameMemory
from srgdqn.adapters.spaces import read_actions, read_observations
from srgdqn.learner.exploration import best_actions
from srgdqn.learner.networks.mlp import MLP, Layer
from srgdqn.learner.normalisation import Normaliser
from srgdqn.tasks.cart_pole import CartPole

MODES = ("copies", *AutoresetMode)
RUN: dict[str, Any] = dict(SMALL, action_masks=True, steps=96, progress=False)
ACTIONS = 3


@given(st.lists(st.booleans(), min_size=1, max_size=9).filter(any))
def test_each_allowed_action_stands_for_as_many_draws(mask: list[bool]) -> None:
    count, chosen = sum(mask), []
    for drawn in range(len(mask)):  # with k shares beside each draw the grid has a multiple of k points
        chosen += [random_allowed(drawn, (place + 0.5) / count, np.array(mask)) for place in range(count)]
    found, times = np.unique(chosen, return_counts=True)
    assert found.tolist() == np.flatnonzero(mask).tolist()
    assert set(times.tolist()) == {len(mask)}
    assert all(random_allowed(drawn, 1 - 2**-53, np.ones(len(mask), bool)) == drawn for drawn in range(len(mask)))


@given(st.integers(0, 10_000))
def test_policies_choose_the_best_that_is_allowed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight, rows = rng.normal(size=(2, 4)).astype(np.float32), rng.normal(size=(6, 2)).astype(np.float32)
    masks = rng.random((6, 4)) < 0.5
    masks[:, 2] |= ~masks.any(1)
    policies = [NumPyPolicy("relu"), CompiledPolicy(lambda theta, _, x, m=None: best_actions(x @ weight, m))]
    parameters = MLP((Layer(weight, np.zeros(4, np.float32)),), "relu")  # type: ignore[arg-type]
    expected = [
        max(np.flatnonzero(mask), key=lambda a: row @ weight[:, a]) for row, mask in zip(rows, masks, strict=True)
    ]
    for policy in policies:
        policy.update(parameters, Normaliser(None, None, None))
        assert policy.rows(rows, masks).tolist() == expected
        assert [policy.one(row, mask) for row, mask in zip(rows, masks, strict=True)] == expected
        assert policy.rows(rows).tolist() == (rows @ weight).argmax(1).tolist()


class Strict(Counting):
    """Counts, and allows by the episode and the step; at terminations it gives no mask, which nobody needs."""

    def reset(self, **options: Any) -> Any:
        seen, _ = super().reset(**options)
        return seen, {"action_mask": by_place(self.episode, 0)}

    def step(self, action: Any) -> Any:
        assert by_place(self.episode, self.step_)[action], "forbidden"
        *outcome, _ = super().step(action)
        return (*outcome, {} if outcome[2] else {"action_mask": by_place(self.episode, self.step_)})


def by_place(episode: int, step: int) -> np.ndarray:
    return np.roll([True, step % 2 == 0, False], episode)


class Told:
    """Takes the last action that is allowed, and knows from the observation what must be."""

    def rows(self, observations: np.ndarray, masks: np.ndarray) -> np.ndarray:
        for (episode, step, _), mask in zip(observations.astype(int), masks, strict=True):
            np.testing.assert_array_equal(mask, by_place(episode, step))
        return np.array([np.flatnonzero(mask)[-1] for mask in masks])


@pytest.mark.parametrize("mode", MODES, ids=str)
@given(st.data())
def test_masks_are_those_of_the_state_and_of_the_next(mode: Any, data: st.DataObject) -> None:
    places, turns, blocks = (data.draw(st.integers(1, most)) for most in (3, 4, 4))
    environments = [Strict(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))) for _ in range(places)]
    reading = read_observations(Counting.observation_space, "Counting", as_image=False)
    actions = read_actions(Counting.action_space, "Counting", None)
    info = EnvironmentInfo("Counting", reading, actions, lambda *_: 0, masked=True)
    if mode == "copies":
        player: Any = CopiesPlayer(environments, info)
    else:
        together = SyncVectorEnv([lambda each=each: each for each in environments], autoreset_mode=mode, copy=False)
        player = VectorPlayer(together, info)
    length = places * turns
    count = length + places
    for index in range(blocks):
        explore = data.draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=count, max_size=count))
        drawn = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        block = Block(length, reading, ACTIONS)
        player.play(block, Told(), ExplorationDraws(explore, drawn, [0.5] * count), index * length)
        for s, action, s_next, mask, end in zip(
            block.observation, block.action, block.next_observation, block.next_mask, block.terminated, strict=True
        ):
            assert by_place(*s[:2].astype(int))[action]
            np.testing.assert_array_equal(mask, np.ones(3) if end else by_place(*s_next[:2].astype(int)))


@pytest.mark.parametrize("how", ["one", "copies", "vector", "an estimator"])
def test_agents_never_choose_what_is_forbidden(how: str) -> None:
    options = {name: value for name, value in RUN.items() if name not in ("steps", "progress")}
    environment: Any = SyncVectorEnv([Masked, Masked]) if how == "vector" else Masked
    options |= {"copies": {"environments": 2}, "an estimator": {"target": "outer"}}.get(how, {})
    agent = srgdqn.Agent("srg-dqn" if how == "an estimator" else "dqn-adam", environment, seed=0, **options)
    agent.learn(96)
    if how != "vector":
        agent.play(5)
        agent.play(5, deterministic=False)
    memory = agent._round.memory
    drawn = memory.gather(np.arange(40))
    assert drawn.next_mask.shape == (40, ACTIONS)
    assert drawn.next_mask[drawn.terminated == 0].sum(1).min() == 1
    for mask in ([1, 0, 0], [0, 1, 0], [0, 0, 1]):
        for deterministic in (True, False):
            chosen = [agent.predict(np.zeros(2), action_masks=mask, deterministic=deterministic)[0] for _ in range(20)]
            assert set(map(int, chosen)) == {mask.index(1)}
    rows, _ = agent.predict(np.zeros((2, 2)), action_masks=[[1, 0, 0], [0, 0, 1]])
    assert rows.tolist() == [0, 2]
    for wrong in ([1, 1], [0, 0, 0], "abc", 3, [2, 0, 0]):
        with pytest.raises(srgdqn.InputError, match=r"action_masks is .* has, 3 numbers 0 or 1"):
            agent.predict(np.zeros(2), action_masks=wrong)


def test_without_the_option_masks_are_not_looked_at() -> None:
    with pytest.raises(srgdqn.EnvironmentFailedError, match=r"ValueError \(action \d is forbidden\)"):
        srgdqn.train(Masked, "dqn-adam", **{**RUN, "action_masks": False})


def test_a_run_is_saved_and_acts_by_masks(tmp_path: Path) -> None:
    srgdqn.train(Masked, "dqn-adam", **{**RUN, "evaluation_interval": 48}, out=tmp_path / "run")
    result = srgdqn.load(tmp_path / "run")
    assert result.configuration.training.kernel == "xla"
    assert len(result.evaluate(episodes=3, environment=Masked)) == 3
    policy = result.policy(0)
    assert policy(np.zeros(2), action_masks=[0, 1, 0]) == 1
    assert policy(np.zeros((2, 2)), action_masks=[[0, 0, 1], [1, 0, 0]]).tolist() == [2, 0]
    agent = srgdqn.Agent("dqn-adam", Masked, seed=0, **{k: v for k, v in RUN.items() if k not in ("steps", "progress")})
    agent.learn(48).save(tmp_path / "agent", include_replay=True)
    loaded = srgdqn.Agent.load(tmp_path / "agent", env=Masked)
    one, other = (each._round.memory.gather(np.arange(40)) for each in (agent, loaded))
    np.testing.assert_array_equal(one.next_mask, other.next_mask)
    loaded.learn(48)


def test_images_are_remembered_with_their_masks() -> None:
    rng = np.random.default_rng(0)
    memory, restored = (FrameMemory(8, (2, 3, 3), 1, ACTIONS, masked=True, chunk_frames=4) for _ in range(2))
    pictures = rng.integers(0, 255, (2, 6, 2, 3, 3)).astype(np.uint8)
    masks = rng.random((6, ACTIONS)) < 0.5
    given: Any = (pictures[0], np.arange(6) % 3, np.arange(6.0), pictures[1], np.zeros(6))
    memory.write(type(memory.blank(1))(*given, next_mask=masks), np.zeros(6, int))
    np.testing.assert_array_equal(memory.gather(np.array([4, 1])).next_mask, masks[[4, 1]])
    assert memory.blank(2).next_mask.shape == (2, ACTIONS)
    tensors, streams = memory.state()
    for name, stream in streams.items():
        restored.take(name, stream.first, stream.read(stream.first, stream.stop))
    restored.restore(tensors)
    np.testing.assert_array_equal(restored.gather(np.arange(6)).next_mask, masks)


def test_a_memory_of_vectors_refuses_masks_of_another_width() -> None:
    memory = FlatMemory(4, 2, ACTIONS, masked=True)
    with pytest.raises(ValueError, match="next_mask"):
        memory.take("replay", 0, {"row": memory.rows[:2], "next_mask": np.ones((2, 2), bool)})


MISSING: dict[str, tuple[Any, str]] = {
    "none": (lambda info: {}, "gave no info['action_mask'], which action_masks asks for: 0 or 1 for each of 3 actions"),
    "short": (lambda info: {"action_mask": np.ones(2)}, "which is not 0 or 1 for each of 3 actions"),
    "forbids all": (lambda info: {"action_mask": np.zeros(3)}, "gave an info['action_mask'] that allows none of the 3"),
    "odd": (lambda info: {"action_mask": ["a", "b", "c"]}, "which is not 0 or 1"),
    "weights": (lambda info: {"action_mask": np.array([0.3, 0.2, 0.5])}, "which is not 0 or 1"),
    "no info": (lambda info: None, "gave no info['action_mask']"),
}


class Unmasked(Bad, Masked):
    """Does something wrong with its masks."""


@pytest.mark.parametrize("case", MISSING)
@pytest.mark.parametrize(("where", "when"), [("step", "at step 6"), ("reset", "when it was reset at step 0")])
def test_masks_that_are_none_end_the_round_with_the_step(case: str, where: str, when: str) -> None:
    change, said = MISSING[case]

    def wrong(environment: Any, outcome: tuple[Any, ...]) -> Any:
        return (*outcome[:-1], change(outcome[-1]))

    with pytest.raises(srgdqn.EnvironmentFailedError) as caught:
        srgdqn.train(lambda: Unmasked(wrong, where, 5 if where == "step" else 0), "dqn-adam", **RUN)
    assert said in str(caught.value)
    assert when in str(caught.value)


def test_a_vector_that_gives_no_masks_is_told_so() -> None:
    agent = srgdqn.Agent("dqn-adam", SyncVectorEnv([Slope, Slope]), seed=0, action_masks=True)
    with pytest.raises(srgdqn.EnvironmentFailedError, match=r"gave no info\['action_mask'\].* when it was reset"):
        agent.learn(8)


def test_taxi_is_learned_with_its_own_masks() -> None:
    environment = gym.make("Taxi-v4")
    agent = srgdqn.Agent("dqn-adam", environment, seed=0, action_masks=True, hidden=(8,), learning_starts=32)
    agent.learn(64)
    seen, info = environment.reset(seed=3)
    for _ in range(20):
        action, _ = agent.predict(seen, action_masks=info["action_mask"])
        assert info["action_mask"][action]
        seen, _, terminated, _, info = environment.step(action)
        assert not terminated


def test_where_there_are_no_masks_they_are_refused() -> None:
    with pytest.raises(srgdqn.InputError, match="action_masks is on, but is for Gymnasium environments"):
        srgdqn.train("CartPole", "dqn-adam", action_masks=True)
    with pytest.raises(srgdqn.InputError, match=r"action_masks is on.*a functional environment gives none"):
        srgdqn.train(CartPole(), "dqn-adam", action_masks=True, steps=2_000)
    with pytest.raises(srgdqn.InputError, match="kernel is 'native', but it has no action_masks = True"):
        srgdqn.Agent("dqn-adam", Masked, action_masks=True, kernel="native")
    assert read_mask({"action_mask": allowed(1)}, 3).tolist() == [True, False, False]
