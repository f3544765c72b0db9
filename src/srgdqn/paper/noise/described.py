"""Two tasks beside the four, which are described and not tested: LunarLander, and one of images.

Plain Adam with two batch sizes, one α each, one update per 8 steps.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn.config.configure import configure
from srgdqn.paper.cells import RunCell
from srgdqn.paper.noise.rules import COMMON, EVALUATIONS, PER_STEPS, PERIOD, Plan, alpha_of
from srgdqn.paper.report.contents import Table
from srgdqn.results.comparison import areas, greedy_returns
from srgdqn.results.result import Result
from srgdqn.results.statistics import bootstrap_interval
from srgdqn.session.prepare import what_is_given

SIZE = 10
"""Pixels of an image's side."""

DESCRIBED = "noise-described"


class Catch(FuncEnv[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array, None, None]):
    """A ball falls through a 10 × 10 image along a diagonal, bouncing off the sides, and is to be caught by a paddle.

    The state is the array (row, column and direction of the ball, column of the paddle). The only reward is that of the
    last step: 1 for a ball that is caught, -1 for one that is not.
    """

    observation_space = Box(0.0, 1.0, (SIZE, SIZE), np.float32)
    action_space = Discrete(3)

    def initial(self, rng: jax.Array, params: None = None) -> jax.Array:
        """The ball anywhere in the top row, the paddle in the middle of the bottom row."""
        column, direction = (jax.random.fold_in(rng, part) for part in range(2))
        return jnp.stack(
            [
                jnp.zeros(()),
                jax.random.randint(column, (), 0, SIZE).astype(float),
                jax.random.randint(direction, (), -1, 2).astype(float),
                jnp.full((), SIZE // 2, float),
            ]
        )

    def transition(self, state: jax.Array, action: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """The paddle moves left (0), not (1) or right (2), the ball one row down."""
        row, column, direction, paddle = state
        beyond = (column + direction < 0) | (column + direction > SIZE - 1)
        direction = jnp.where(beyond, -direction, direction)
        return jnp.stack([row + 1, column + direction, direction, jnp.clip(paddle + action - 1, 0, SIZE - 1)])

    def observation(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Ones where ball and paddle are."""
        row, column, _, paddle = state.astype(int)
        return jnp.zeros((SIZE, SIZE)).at[row, column].set(1.0).at[SIZE - 1, paddle].set(1.0)

    def reward(
        self, state: jax.Array, action: jax.Array, next_state: jax.Array, rng: Any = None, params: None = None
    ) -> jax.Array:
        """What the last row brings."""
        caught = jnp.where(next_state[1] == next_state[3], 1.0, -1.0)
        return jnp.where(self.terminal(next_state), caught, 0.0)

    def terminal(self, state: jax.Array, rng: Any = None, params: None = None) -> jax.Array:
        """Whether the ball is in the last row."""
        return state[0] >= SIZE - 1


class Pixels(eqx.Module):
    """A convolution of 3 × 3 and a hidden layer, on a flat image."""

    convolution: eqx.nn.Conv2d
    hidden: eqx.nn.Linear
    values: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 3)
        self.convolution = eqx.nn.Conv2d(1, 8, 3, key=keys[0])
        self.hidden = eqx.nn.Linear(8 * (SIZE - 2) ** 2, 64, key=keys[1])
        self.values = eqx.nn.Linear(64, 3, key=keys[2])

    def __call__(self, observation: jax.Array) -> jax.Array:
        """A Q-value per action."""
        image = observation.reshape(1, SIZE, SIZE)
        seen = jax.nn.relu(self.convolution(image)).reshape(-1)
        return self.values(jax.nn.relu(self.hidden(seen)))


def cells(plan: Plan) -> dict[tuple[str, int], RunCell]:
    """The runs by task and batch size; LunarLander is left out where Box2D is not installed."""
    found = {}
    for task, steps in plan.described_steps.items():
        if task == "Catch":
            given = what_is_given(Catch(), Pixels)
            options: dict[str, Any] = {**given.options, "gamma": 0.99}
        elif find_spec("Box2D") is not None:
            given = what_is_given("LunarLander-v3")
            options = {**given.options, "gamma": 0.99, "reward_scale": 0.1}
        else:
            continue
        for batch in plan.described_batches:
            configuration = configure(
                given.task,
                "dqn-adam",
                defaults=given.defaults,
                **{**COMMON, "reward": "raw", **options},
                steps=steps,
                rounds=plan.described_rounds,
                lanes=plan.described_rounds,
                seed=plan.described_seed,
                batch_size=batch,
                alpha=alpha_of(batch, -1),
                learning_frequency=PER_STEPS,
                target_period=PERIOD // PER_STEPS,
                evaluation_interval=steps // EVALUATIONS,
            )
            found[task, batch] = RunCell(f"described-{task}-{batch}", configuration, own=given.own)
    return found


def table_of(results: dict[tuple[str, int], Result]) -> Table:
    """What came of them."""
    rows = []
    for (task, batch), result in results.items():
        row: dict[str, Any] = {"task": task, "B": batch, "α": result.configuration.optimiser.alpha}
        for name, values in (("area", areas(result)), ("final", greedy_returns(result))):
            mean = bootstrap_interval(list(values.values()))
            row |= {name: mean.estimate, f"{name}_low": _known(mean.low), f"{name}_high": _known(mean.high)}
        rows.append({**row, "rounds": result.rounds.height, "diverged": result.rounds["diverged_at"].count()})
    return shown(pl.DataFrame(rows, infer_schema_length=None))


def shown(frame: pl.DataFrame) -> Table:
    """The table of that."""
    note = "One α each, not tuned: described, and not tested. One update per 8 steps; 95 % intervals."
    return Table(DESCRIBED, "Beside the four tasks", frame, note)


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
