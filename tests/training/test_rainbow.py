"""Rainbow's parts together, in whole rounds."""

from typing import Any

import numpy as np
import pytest

import srgdqn
from host_environments import Slope

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
