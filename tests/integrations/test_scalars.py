"""Named numbers against counting by hand."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from reported import report
from srgdqn.integrations.scalars import Scalars
from srgdqn.training.reports import GreedyEpisodes

NUMBERS = st.floats(-1e3, 1e3)


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.tuples(NUMBERS, st.integers(1, 500)), max_size=130))))
def test_means_are_over_each_rounds_last_hundred_episodes(heard: list) -> None:
    scalars = Scalars()
    ended: dict[int, list] = {0: [], 1: [], 2: []}
    for number, episodes in heard:
        ended[number] += episodes
        returns, lengths = [e[0] for e in episodes], [e[1] for e in episodes]
        ((_, values),) = scalars.rows(report(number, returns=returns, lengths=lengths), 1.0)
        last = ended[number][-100:]
        if not last:
            assert values["rollout/ep_rew_mean"] is values["rollout/ep_len_mean"] is None
        else:
            assert values["rollout/ep_rew_mean"] == pytest.approx(np.mean([e[0] for e in last]), abs=1e-9)
            assert values["rollout/ep_len_mean"] == pytest.approx(np.mean([e[1] for e in last]))


def test_what_is_told_is_named_as_people_know_it() -> None:
    told = report(step=320, reward=-1.5, episodes=7, gradient_variance=0.125, anchor_distance=5.0)
    assert Scalars().rows(told, 4.0) == [
        (
            320,
            {
                "rollout/ep_rew_mean": None,
                "rollout/ep_len_mean": None,
                "rollout/reward": -1.5,
                "rollout/exploration_rate": 0.1,
                "time/episodes": 7,
                "time/fps": 80.0,
                "train/loss": 0.25,
                "train/n_updates": 20,
                "train/max_q": 2.0,
                "train/delta_norm": 3.0,
                "train/theta_norm": 4.0,
                "train/gradient_variance": 0.125,
                "train/anchor_distance": 5.0,
                "train/queries": 160,
                "train/gradient_evaluations": 180,
            },
        )
    ]


def test_what_is_no_number_is_none() -> None:
    told = report(returns=[np.inf], reward=np.nan, loss=np.nan, max_q=np.inf)
    ((_, values),) = Scalars().rows(told, 0.0)
    assert [name for name, value in values.items() if value is None] == [
        "rollout/ep_rew_mean",
        "rollout/reward",
        "time/fps",
        "train/loss",
        "train/max_q",
        "train/gradient_variance",
        "train/anchor_distance",
    ]


def test_evaluations_stand_at_their_own_steps_and_in_order() -> None:
    made = [GreedyEpisodes(step, np.array([step, step + 2.0]), np.array([3, 4])) for step in (60, 80, 100)]
    first, second, last = Scalars().rows(report(step=100, evaluations=tuple(made)), 1.0)
    assert first == (60, {"eval/mean_reward": 61.0, "eval/mean_ep_length": 3.5})
    assert second == (80, {"eval/mean_reward": 81.0, "eval/mean_ep_length": 3.5})
    assert last[0] == 100
    assert last[1]["eval/mean_reward"] == 101.0
    assert last[1]["train/loss"] == 0.25
