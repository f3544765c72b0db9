"""Rainbow's parts together, in whole rounds."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import srgdqn
from host_environments import Slope
from srgdqn.training.program import programs_for
from tiny import lane_segments, tiny

RAINBOW: dict[str, Any] = dict(
    bootstrap="double",
    target="hard",
    target_period=2,
    dueling=True,
    noisy=True,
    sampling="prioritised",
    n_step=3,
    loss="c51",
    atoms=11,
    value_min=0.0,
    value_max=20.0,
    hidden=(8,),
    batch_size=8,
    replay_capacity=128,
    learning_starts=32,
    epsilon_start=0.0,
    epsilon_end=0.0,
    evaluation_interval=None,
    evaluation_episodes=1,
    alpha=1e-2,
    gamma=0.9,
    lanes=4,
)


@pytest.mark.parametrize("task", ["CartPole", Slope], ids=["compiled", "host"])
def test_a_rainbow_learns_and_repeats_to_the_bit(task: Any) -> None:
    def trained(**options: Any) -> Any:
        return srgdqn.train(task, "dqn-adam", **{**RAINBOW, "steps": 320, "progress": False, **options})

    one, other, still = trained(), trained(), trained(alpha=0.0)
    first, again, before = (result.parameters_of(0) for result in (one, other, still))
    assert one.rounds["diverged_at"].is_null().all()
    for path, array in first.items():
        np.testing.assert_array_equal(array, again[path])
    moved = {path for path, array in first.items() if not np.array_equal(array, before[path])}
    # Every weight, its scale of noise, and both heads are learned.
    assert {path for path in first if path.startswith("network")} == moved
    # A cross entropy to a target that lies on 11 atoms begins below that of guessing, and falls.
    losses = one.run.tables["curves"]["loss"].drop_nulls().drop_nans().to_numpy()
    assert 0 < losses[-1] < np.log(11)


def test_a_vector_environment_may_reset_all_at_once() -> None:
    """Where each step after an episode's end begins another, there are steps for which no action is asked."""
    options = {name: value for name, value in RAINBOW.items() if not name.startswith(("evaluation", "lanes"))}
    agent = srgdqn.Agent("dqn-adam", gym.make_vec("CartPole-v1", num_envs=1), **options)
    agent.learn(200)
    assert agent.num_timesteps >= 200


def test_a_lane_that_has_ended_remembers_no_more() -> None:
    """Priorities of slots that were never written are 0, however long its neighbours go on."""
    budget = dict(rounds=4, steps=None, episodes=12, time_limit=60, replay_capacity=720)
    configuration, task = tiny("dqn-adam", **budget, kernel="xla", sampling="prioritised")
    programs, _ = programs_for(configuration, task)
    for segment in lane_segments(configuration, programs, range(4)):
        lanes = segment.lanes
        p, written = np.asarray(lanes.learner.priorities.p), np.abs(np.asarray(lanes.ring)).sum(-1) > 0
    assert len(set(written.sum(1).tolist())) > 1  # they ended at different times
    slots = written.shape[1]
    assert not p[:, slots:].any()
    assert ((p[:, :slots] > 0) <= written).all()


def test_an_agent_in_another_environment_chooses_its_best_anew() -> None:
    agent = srgdqn.Agent("dqn-adam", Slope, hidden=(8,), learning_starts=32, evaluation_interval=64, keep_best=True)
    agent.learn(128)
    best = agent._round.best
    assert best is not None
    assert best.made_at[0] > 0
    agent.set_env(Slope())
    changed = agent._round.best
    assert changed is not None
    assert changed.made_at[0] == -1
