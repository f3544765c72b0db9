"""A round's bits depend neither on its place, nor on its neighbours, nor on how its blocks are cut into calls."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from native_rounds import chosen, native, random_lanes
from tiny import bits

pytestmark = pytest.mark.usefixtures("kernel")

LANES, BLOCKS, INDEX = 25, 12, 4
ODD: dict[str, Any] = dict(batch_size=33, hidden=(9, 3), inner_batch=2, target="polyak", clip_norm=1.0)


@pytest.mark.parametrize(
    ("task", "algorithm", "options"),
    [
        ("MountainCar", "srg-dqn", {}),
        ("Pendulum", "svr-dqn", {}),
        ("CartPole", "srg-dqn", ODD),
        ("MountainCar", "svr-dqn", ODD),
        ("Pendulum", "dqn-adam-repeated", ODD),
        ("CartPole", "dqn-storm", dict(gradient_steps=3, target="hard", target_period=5)),
    ],
)
def test_places_do_not_matter(task: str, algorithm: str, options: dict[str, Any]) -> None:
    program = native(
        task,
        algorithm,
        steps=1_000,
        learning_starts=100,
        replay_capacity=120,
        time_limit=11,
        inner_iterations=5,
        **options,
    )
    rng = np.random.default_rng(0)
    before = random_lanes(program, rng, LANES, INDEX)
    ring = np.nan_to_num(np.asarray(before.ring))  # later blocks may draw from all of it
    before = before._replace(ring=ring)  # type: ignore[arg-type]
    eta = rng.uniform(1e-4, 1e-3, LANES).astype(np.float32)
    everyone = program.segment(before, INDEX, BLOCKS, dict(eta=eta))
    assert np.isfinite(np.asarray(everyone[1].loss)[:, -1]).all()
    assert len({leaf.tobytes() for leaf in np.asarray(everyone[0].learner.parameters.layers[0].weight)}) == LANES

    some: list[Any] = [[7], [3], range(5), range(8), range(9), range(LANES)[::-1], rng.permutation(LANES), [6, 6, 6]]
    for places in map(np.asarray, some):
        found = program.segment(chosen(before, places), INDEX, BLOCKS, dict(eta=eta[places]))
        assert bits(found) == bits(chosen(everyone, places))

    # With others asleep, and in segments of 1, 4 and 7 blocks.
    awake = np.arange(LANES) % 3 == 1
    lanes, done, logs = before._replace(active=awake), 0, []  # type: ignore[arg-type]
    for blocks in (1, 4, 7):
        lanes, log = program.segment(lanes, INDEX + done, blocks, dict(eta=eta))
        logs.append(log)
        done += blocks
    assert done == BLOCKS
    together = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *logs)
    assert bits(chosen((lanes, together), awake)) == bits(chosen(everyone, awake))
