"""Several outer iterations after a block: as XLA makes them, and undone one by one."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from native_rounds import chosen, native, random_lanes
from srgdqn.training import Trained, train_rounds
from tiny import bits, tiny

pytestmark = pytest.mark.usefixtures("kernel")

BLOCK, INDEX, LANES, SICK, UPDATES = 4, 10, 9, 5, 3


def trained(kernel: str, **options: Any) -> Trained:
    return train_rounds(*tiny(kernel=kernel, rounds=9, lanes=8, eta=0.01, alpha=0.01, **options), workers=1)


@pytest.mark.parametrize(
    "options",
    [
        dict(algorithm="dqn-storm", steps=100, target="hard", target_period=4),
        dict(algorithm="dqn-storm", steps=100, target="hard", target_update_interval=7),
        dict(algorithm="dqn-storm", outer_iterations=12, step="gradient"),
        dict(algorithm="srg-dqn", outer_iterations=12, epsilon_start=0.5),
        dict(algorithm="sgd-inner", steps=100, anchor_step=False),
    ],
)
def test_rounds_are_those_of_xla(options: dict[str, Any]) -> None:
    ours, theirs = (trained(kernel, gradient_steps=UPDATES, window=16, **options) for kernel in ("native", "xla"))
    for table in ("curves", "episodes", "rounds"):
        assert ours.tables[table].keys() == theirs.tables[table].keys()
        for column, values in theirs.tables[table].items():
            found, wanted = np.ma.asarray(ours.tables[table][column]), np.ma.asarray(values)
            if wanted.dtype.kind != "f":
                assert found.tolist() == wanted.tolist(), column
                continue
            assert np.ma.getmaskarray(found).tolist() == np.ma.getmaskarray(wanted).tolist()
            np.testing.assert_allclose(found.filled(0), wanted.filled(0), rtol=2e-3, atol=1e-5, err_msg=column)


def test_after_one_that_leads_to_no_number_no_other_counts() -> None:
    """A step so long that the parameters are numbers after it, and their gradients not."""
    small = dict(learning_frequency=BLOCK, learning_starts=8, batch_size=5, replay_capacity=40, steps=1_000)
    one, several = (native("CartPole", "dqn-sgd", gradient_steps=steps, **small) for steps in (1, UPDATES))
    before = random_lanes(one, np.random.default_rng(0), LANES, INDEX)
    eta = np.full(LANES, 1e-3, np.float32)
    healthy, _ = several.segment(before, INDEX, 2, dict(eta=eta))
    eta[SICK] = 1e18
    first, _ = one.segment(before, INDEX, 1, dict(eta=eta))
    assert first.active.all()
    after, log = several.segment(before, INDEX, 2, dict(eta=eta))
    others = np.arange(LANES) != SICK
    assert bits(chosen(after, others)) == bits(chosen(healthy, others))
    assert np.asarray(after.diverged_at).tolist() == np.where(others, -1, (INDEX + 1) * BLOCK).tolist()
    assert np.asarray(after.learner.iterations - before.learner.iterations).tolist() == np.where(others, 6, 1).tolist()
    assert bits(chosen(after.learner, SICK)) == bits(chosen(first.learner, SICK))
    assert not np.isfinite([log.delta_norm[SICK, 0], log.theta_norm[SICK, 0]]).all()
    assert np.isnan(np.asarray(log.loss)[SICK, 1])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after.learner))
