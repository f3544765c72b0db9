"""How far an outer iteration's direction is from the gradient it stands for, measured beside training.

At a round's present state, `DRAWS` outer iterations are made, each on a D and picks of its own; none of them is kept.
Draw k gives Δ_k = Δ_M and its point θ_k = θ_M. G_k is the gradient at θ_k over the whole replay, with the targets y of
that outer iteration. Two halves of a fresh reference draw, a_k and b_k, are independent estimates of G_k, so that no
sampling error of the reference is charged to the direction: with e_k = Δ_k - (a_k + b_k) / 2,

    ‖G‖²         is the mean of  a_k · b_k
    ‖Δ - G‖²     is the mean of  (Δ_k - a_k) · (Δ_k - b_k)
    ‖E(Δ - G)‖²  is the mean of  e_k · e_l  over k ≠ l
    cos(Δ, G)    is  E(Δ · G) / √(E‖Δ‖² E‖G‖²), with each of the three estimated without bias

Each reference draw serves one k alone: one common to all would stand as a bias in every e_k · e_l. The plain batch is
measured in the same way: its direction is the gradient on all of draw k's D at θ_k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from srgdqn.config import Configuration
from srgdqn.learner.gradients import REFERENCE, Transitions, make_gradients, outer_batch, row_noise
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.outer_iteration import LearnerState, batch_rows, outer_iteration
from srgdqn.learner.prioritised import Priorities
from srgdqn.learner.replay import unpack
from srgdqn.learner.reward_estimation import with_estimates
from srgdqn.training.batches import ChosenRows, choose_rows
from srgdqn.training.draws import draw_apart
from srgdqn.training.jax_setup import hot_program_flags
from srgdqn.training.lane import normalised

DRAWS = 8
"""Outer iterations per measurement."""

REFERENCE_ROWS = 1_024
"""Rows of the replay, drawn with replacement, that each draw's direction is compared on; half of them in each half."""

Gather = Callable[[np.ndarray], Any]
"""From slots of a replay, in one axis, to its rows: packed, or transitions between images."""


class DirectionErrors(NamedTuple):
    """The columns of the table `directions`; means over draws, estimated without bias, so that small ones may be < 0.

    All NaN where nothing was measured, and infinite (missing in the table) where a draw led to numbers that are not
    finite. A cosine is NaN also where the estimate of ‖G‖² is not positive.
    """

    squared_norm: Any  # ‖G‖²
    squared_error: Any  # ‖Δ_M - G‖²
    squared_bias: Any  # ‖E(Δ_M - G)‖²
    cosine: Any  # between Δ_M and G
    plain_squared_error: Any  # the same three of the gradient on D
    plain_squared_bias: Any
    plain_cosine: Any


NOT_MEASURED = DirectionErrors(*[np.nan] * len(DirectionErrors._fields))


class Sums(NamedTuple):
    """What draws add up to, of one kind of direction."""

    length: Any  # Σ ‖Δ_k‖²
    error: Any  # Σ (Δ_k - a_k) · (Δ_k - b_k)
    spread: Any  # Σ ‖e_k‖²
    total: Any  # Σ e_k, shaped as parameters


class Compared(NamedTuple):
    """The sums of some draws."""

    norm: Any  # Σ a_k · b_k
    estimator: Sums
    plain: Sums


class FreshRows(NamedTuple):
    """Where the rows of all draws are in the replay, with an axis of draws first."""

    chosen: ChosenRows
    reference: Int[Array, "draws rows"]


class DirectionProgram(NamedTuple):
    """The compiled functions; they are compiled when they are first called."""

    draw: Callable[..., FreshRows]  # of the round's key as data, its last block, those before its replay, priorities
    compare: Callable[..., Compared]  # of numbers, a learner, a normaliser, draws, their three kinds of rows, progress


def direction_program(shape: Configuration, network: Network, slots: int) -> DirectionProgram:
    """The program of a configuration without its numbers, for replays of so many slots."""
    rows, flags = batch_rows(shape), hot_program_flags()

    def draw(key: Array, block: Array, before: Array, priorities: Priorities | None = None) -> FreshRows:
        written = (block + 1 - before) * shape.training.learning_frequency
        stored = jnp.minimum(written, shape.replay.replay_capacity)

        def one(which: Array) -> FreshRows:
            drawn = draw_apart(shape, jax.random.wrap_key_data(key, impl="threefry2x32"), block, which, rows=rows)
            age = jax.random.randint(drawn.reference, (REFERENCE_ROWS,), 0, stored)
            chosen = choose_rows(shape, slots, block, drawn, before, priorities)
            return FreshRows(chosen, (written - 1 - age) % slots)

        return jax.vmap(one)(jnp.arange(DRAWS, dtype=jnp.uint32))

    def compare(
        numbers: Mapping[str, Array],
        learner: LearnerState,
        normaliser: Normaliser,
        chosen: ChosenRows,
        batches: Any,
        beyond: Any,
        references: Any,
        progress: Float[Array, ""],
    ) -> Compared:
        settings = shape.with_numbers(numbers)

        def seen(gathered: Any) -> Transitions:
            return normalised(normaliser, unpack(gathered))

        def one(rows: ChosenRows, batch: Any, more: Any, reference: Any) -> Compared:
            drawn = seen(batch), rows, None if more is None else seen(more), seen(reference)
            return compared(settings, network, learner, *drawn, progress)

        each = jax.vmap(one)(chosen, batches, beyond, references)
        return jax.tree.map(lambda leaf: leaf.sum(0), each)

    return DirectionProgram(jax.jit(draw), jax.jit(compare, compiler_options=flags))


def compared(
    configuration: Configuration,
    network: Network,
    learner: LearnerState,
    batch: Transitions,
    rows: ChosenRows,
    beyond: Transitions | None,
    reference: Transitions,
    progress: Float[Array, ""] | float,
) -> Compared:
    """One draw's: of Δ_M and of the gradient on D, both at θ_M."""
    after, trace = outer_iteration(
        configuration,
        network,
        learner,
        batch,
        rows.picks,
        weights=rows.weights,
        origin=rows.origin,
        replay=None if beyond is None else lambda: beyond,
        coins=rows.coins,
        noise=rows.noise,
        progress=progress,
        keep_last=True,
    )
    theta = trace.last_theta
    assert theta is not None
    source = make_gradients(configuration.gradients, network)

    half = reference.reward.shape[0] // 2
    noise = row_noise(configuration.network, rows.noise)
    seen = with_estimates(network, after.rewards, reference)
    given = (configuration.gradients, network, seen, learner.parameters, learner.target)
    whole = outer_batch(*given, noise=noise and noise.of(REFERENCE))
    first, second = (source.mean(theta, whole.rows(part))[0] for part in (slice(None, half), slice(half, None)))
    assert trace.batch is not None
    plain = source.mean(theta, trace.batch)[0]
    return Compared(_dot(first, second), *(_sums(each, first, second) for each in (trace.last_delta, plain)))


def _sums(direction: Parameters, first: Parameters, second: Parameters) -> Sums:
    from_first, from_second = (jax.tree.map(jnp.subtract, direction, half) for half in (first, second))
    between = jax.tree.map(lambda one, other: (one + other) / 2, from_first, from_second)
    return Sums(_dot(direction, direction), _dot(from_first, from_second), _dot(between, between), between)


def _dot(one: Parameters, other: Parameters) -> Array:
    product: Array = optax.tree.vdot(one, other)
    return product


def measure(
    program: DirectionProgram,
    key: Any,
    block: int,
    numbers: Mapping[str, Any],
    learner: LearnerState,
    normaliser: Normaliser,
    gather: Gather,
    progress: float,
    *,
    before: int = 0,
    together: int = DRAWS,
) -> DirectionErrors:
    """The errors of a round whose last block had this number, and whose replay was empty after `before` blocks.

    `together` draws are computed side by side: as many as memory has room for.
    """
    fresh = jax.tree.map(np.asarray, program.draw(key, np.int32(block), np.int32(before), learner.priorities))
    kind = jnp.result_type(float)
    numbers, share = {name: np.asarray(value, kind) for name, value in numbers.items()}, np.asarray(progress, kind)

    def gathered(slots: np.ndarray) -> Any:
        return jax.tree.map(lambda leaf: leaf.reshape(*slots.shape, *leaf.shape[1:]), gather(slots.ravel()))

    parts = []
    for start in range(0, DRAWS, together):
        chosen, reference = jax.tree.map(lambda leaf, s=start: leaf[s : s + together], fresh)
        beyond = None if chosen.beyond is None else gathered(chosen.beyond)
        given = chosen, gathered(chosen.origin.slots), beyond, gathered(reference)
        part = program.compare(numbers, learner, normaliser, *given, share)
        parts.append(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), part))
    return errors_of(jax.tree.map(lambda *leaves: sum(leaves), *parts), DRAWS)


def errors_of(sums: Compared, draws: int) -> DirectionErrors:
    """The estimates, from the sums of so many draws."""
    norm = float(sums.norm) / draws
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(sums)):
        return DirectionErrors(*[np.inf] * len(DirectionErrors._fields))
    return DirectionErrors(norm, *_errors(sums.estimator, norm, draws), *_errors(sums.plain, norm, draws))


def _errors(sums: Sums, norm: float, draws: int) -> tuple[float, float, float]:
    length, error, spread = (float(each) / draws for each in (sums.length, sums.error, sums.spread))
    total = sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(sums.total))
    inner = (length + norm - error) / 2  # the mean of Δ_k · (a_k + b_k) / 2
    cosine = inner / np.sqrt(length * norm) if length * norm > 0 else np.nan
    return error, (total - draws * spread) / (draws * (draws - 1)), float(cosine)
