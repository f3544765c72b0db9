"""One outer iteration of the kernel, in any composition, beside the plain NumPy reference in double precision."""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import assume, given, settings

import random_words
import reference
from native_rounds import Native, chosen, live_slots, native, random_lanes, words_of
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.kernel.structures import MOST_LAYERS
from srgdqn.learner.normalisation import Normaliser, Scale
from srgdqn.training.lane import BlockLog, Lane, Probe
from srgdqn.training.probes import first_layer
from storm_reference import Before
from tiny import bits
from translation import KERNELS, expected_iteration, from_packed, options_of

pytestmark = pytest.mark.usefixtures("kernel")

# One rounding is 6e-8 of a number; a step is a sum of hundreds of products, and 1 - β2^s loses four digits of β2^s.
CLOSE = 1e-4
ROUNDING = 1e-6
MARGIN = 2e-5  # nearer to the kink of a relu, float32 may rightly find itself on its other side
MOST_COMPARED = 3  # lanes of an example: the reference takes its time


def numbers_for(program: Native, rng: np.random.Generator, lanes: int) -> dict[str, np.ndarray]:
    """Numbers of its own for every lane."""
    ranges = dict(
        reward_scale=(0.5, 2),
        gamma=(0, 1),
        target_tau=(0.01, 1),
        huber_delta=(0.1, 2),
        coefficient=(0, 1),
        eta=(1e-3, 0.05),
        alpha=(1e-3, 0.02),
        beta1=(0, 0.95),
        beta2=(0.5, 0.999),
        adam_epsilon=(1e-8, 0.1),
        clip_norm=(0.05, 2),
        schedule_end=(0, 1),
        a=(0, 1),
    )
    drawn = {name: rng.uniform(low, high, lanes) for name, (low, high) in ranges.items()}
    drawn["target_period"], drawn["reset"] = rng.integers(1, 4, lanes), rng.integers(2, size=lanes)
    used = program.configuration.numbers()
    return {name: np.float32(values) for name, values in drawn.items() if name in used}


class Learned(NamedTuple):
    """What an outer iteration leaves, in the order in which it is compared."""

    theta: np.ndarray
    first: np.ndarray
    second: np.ndarray
    target: np.ndarray | None
    updates: int
    iterations: int
    before: Before | None


def learned(lanes: Lane, lane: int) -> Learned:
    def flat(tree: Any) -> np.ndarray:
        return np.concatenate([np.asarray(leaf[lane], np.float64).ravel() for leaf in jax.tree.leaves(tree)])

    learner = lanes.learner
    target = None if learner.target is None else flat(learner.target)
    moments = flat(learner.adam.first), flat(learner.adam.second)
    return Learned(
        flat(learner.parameters),
        *moments,
        target,
        int(learner.adam.updates[lane]),
        int(learner.iterations[lane]),
        None if learner.memory is None else Before(*map(flat, learner.memory)),
    )


def served(
    program: Native, after: Lane, lane: int, index: int, update: int = 0
) -> tuple[list[reference.Transition], list[list[int]]]:
    """D and the picks of one of a block's outer iterations, from the round's words and its ring after the block."""
    configuration, drawn, block = program.configuration, program.rows, program.program.block
    inner = configuration.estimator
    size = inner.inner_iterations * inner.inner_batch
    which = dict(update=update, updates=configuration.training.gradient_steps)
    words = random_words.of_block(words_of(after)[lane], index, block=block, rows=drawn, picks=size, **which)
    slots = live_slots(program, (index + 1) * block)
    newest = configuration.replay.sampling == "newest"
    ages = range(drawn) if newest else [int(word) % len(slots) for word in words.batch]
    rows = np.asarray(after.ring, np.float64)[lane, [slots[age] for age in ages]]
    if after.normaliser.observations is not None:
        mean, deviation = (np.tile(each[lane], 2) for each in after.normaliser.observations)
        rows[:, :-3] = (rows[:, :-3] - mean) / deviation
    data = from_packed(rows)
    picks = [int(word) % drawn for word in words.picks]
    return data, [picks[m * inner.inner_batch : (m + 1) * inner.inner_batch] for m in range(inner.inner_iterations)]


def misfits(
    program: Native, before: Lane, after: Lane, log: BlockLog, numbers: dict[str, np.ndarray], lane: int, index: int
) -> dict[str, float] | None:
    """How far a lane is from the reference, in tolerances; None where that leaves no common ground: it exploded, or a
    unit is too near to the kink of its relu.
    """
    mine = {name: float(values[lane]) for name, values in numbers.items()}
    configuration = program.configuration.with_options(mine)
    o = options_of(configuration, program.sizes)
    data, picks = served(program, after, lane, index)
    start, end = learned(before, lane), learned(after, lane)
    state = reference.State(start.theta, start.first, start.second, start.updates, start.target, start.iterations)
    budget = configuration.training
    if budget.steps is not None:
        progress = (index + 1) * program.program.block / budget.steps
    elif budget.outer_iterations is not None:
        progress = start.iterations / budget.outer_iterations
    else:
        assert budget.episodes is not None
        progress = int(after.episodes[lane]) / budget.episodes
    expected, before_next, record = expected_iteration(
        configuration, program.sizes, state, start.before, data, picks, min(progress, 1.0)
    )
    exploded = max(np.linalg.norm(theta) for theta in record.theta) > 1e3 * (1 + np.linalg.norm(start.theta))
    has_units = len(program.sizes) > 2
    if exploded or (has_units and reference.smallest_preactivation(o, record.theta, data) < MARGIN):
        return None
    assert after.diverged_at[lane] == -1
    assert (end.updates, end.iterations) == (expected.adam_count, expected.iterations)

    largest = max(np.linalg.norm(v) for v in (*record.delta, record.raw))
    # A Δ_m or g_M can be small because y is close to Q, or because terms cancel: rounding is then theirs.
    values = [reference.q_values(o, start.theta, x.s) for x in data]
    q = float(np.abs(values).max())
    slopes = [reference.gradient(o, start.theta, x, value[x.a] - 0.05) for x, value in zip(data, values, strict=True)]
    largest = max(largest, ROUNDING / CLOSE * q * 10 * max(map(np.linalg.norm, slopes)))
    along = max(np.linalg.norm(expected.theta - start.theta), mine["eta"] * largest)
    found: dict[str, float] = {}

    def note(what: str, got: Any, wanted: Any, scale: float, rounded: float = 0.0) -> None:
        error = np.linalg.norm(np.asarray(got, np.float64) - wanted)
        assert np.isfinite(error), what
        found[what] = float(error / (CLOSE * scale + ROUNDING * rounded))

    size = float(np.linalg.norm(expected.theta))
    note("theta", end.theta, expected.theta, along, size)
    note("first", end.first, expected.first, (1 - o.beta1) * largest, float(np.linalg.norm(expected.first)))
    note("second", end.second, expected.second, (1 - o.beta2) * largest**2, float(np.linalg.norm(expected.second)))
    if expected.target is None:
        assert end.target is None
    else:
        assert end.target is not None
        note("target", end.target, expected.target, along, size + float(np.linalg.norm(expected.target)))
    if before_next is not None:
        assert end.before is not None
        assert start.before is not None
        largest = max(largest, float(np.linalg.norm(start.before.delta)))
        note("theta before", end.before.theta, before_next.theta, 0.0, size)
        note("delta before", end.before.delta, before_next.delta, float(largest))
    logged = {column: float(np.asarray(getattr(log, column))[lane, 0]) for column in BlockLog._fields[2:6]}
    note("loss", logged["loss"], record.loss, record.loss, 10 * np.sqrt(record.loss) * q)
    note("max_q", logged["max_q"], record.max_q, 0.0, 10 * q)
    note("delta_norm", logged["delta_norm"], np.linalg.norm(record.delta[-1]), float(largest))
    if log.probed is not None:
        first = program.sizes[1] * (program.sizes[0] + 1)
        note("first delta", log.probed.delta[lane, 0], record.delta[-1][:first], float(largest))
        note("first gradient", log.probed.gradient[lane, 0], record.raw[:first], float(largest))
    note("theta_norm", logged["theta_norm"], np.linalg.norm(expected.theta), float(along), size)
    return found


WIDTHS = st.sampled_from([1, 3, 8, 9, 20, 33])

shapes = st.fixed_dictionaries(
    dict(
        hidden=st.lists(WIDTHS, min_size=0, max_size=3).map(tuple),
        batch_size=st.sampled_from([1, 2, 7, 31, 32, 33, 34, 65]),
        inner_iterations=st.integers(0, 4),
        inner_batch=st.integers(1, 3),
        anchor_step=st.booleans(),
        target=st.sampled_from(["current", "outer", "hard", "polyak"]),
        double=st.booleans(),
        loss=st.sampled_from(["squared", "huber"]),
        clip_norm=st.sampled_from([None, 1.0]),
        schedule=st.sampled_from(["constant", "linear", "cosine"]),
        sampling=st.sampled_from(["with-replacement", "newest"]),
        learning_frequency=st.sampled_from([1, 3, 16]),
    )
)


def run(
    task: str,
    algorithm: str,
    options: dict[str, Any],
    unit: str,
    lanes: int,
    seed: int,
    probe: Probe | None = None,
    *,
    scaled: bool = False,
) -> tuple[Native, Lane, Lane, BlockLog, dict[str, np.ndarray], int]:
    """One block with an outer iteration, of lanes some of which are not active."""
    rng = np.random.default_rng(seed)
    inner, block = 2 * options["inner_batch"] * options["inner_iterations"], options["learning_frequency"]
    rows = options["batch_size"] + (inner if algorithm == "dqn-sgd-queries" else 0)
    first = -(-rows // block)
    index = first + int(rng.integers(4 * first))
    budget = {unit: {"steps": (index + 1) * block + int(rng.integers(1, 99)), "outer_iterations": 60}.get(unit, 2_000)}
    capacity = max(rows, block) + int(rng.integers(2 * rows))
    usual = {**budget, "learning_starts": rows, "replay_capacity": capacity, "time_limit": 3 * block + 1}
    made = native(task, algorithm, probe=probe, **usual, **options)
    before = random_lanes(made, rng, lanes, index)
    before = before._replace(active=np.append(True, rng.random(lanes - 1) < 0.8))  # type: ignore[arg-type]
    if scaled:
        size = (lanes, made.sizes[0])
        scale = Scale(np.float32(rng.normal(size=size)), np.float32(rng.uniform(0.3, 3, size)))  # type: ignore[arg-type]
        before = before._replace(normaliser=Normaliser(scale, None, None))
    numbers = numbers_for(made, rng, lanes)
    after, log = made.segment(before, index, 1, numbers)
    return made, before, after, log, numbers, index


@settings(max_examples=60)
@given(
    task=st.sampled_from(["MountainCar", "Pendulum", "CartPole", "Acrobot"]),
    name=st.sampled_from(sorted(KERNELS)),
    readings=st.sampled_from(["corrected", "printed"]),
    options=shapes,
    unit=st.sampled_from(["steps", "outer_iterations", "episodes"]),
    lanes=st.integers(1, 9),
    seed=st.integers(0, 2**20),
    probe=st.sampled_from([None, first_layer]),
    scaled=st.booleans(),
)
def test_any_composition_is_the_references(
    task: str,
    name: str,
    readings: str,
    options: dict[str, Any],
    unit: str,
    lanes: int,
    seed: int,
    probe: Probe | None,
    scaled: bool,
) -> None:
    algorithm, more = KERNELS[name]
    inner = ALGORITHMS[algorithm].options["estimator"] != "none" and options["inner_iterations"] > 0
    assume(options["anchor_step"] or inner)
    bootstrap = "double" if options.pop("double") and options["target"] in ("hard", "polyak") else "max"
    program, before, after, log, numbers, index = run(
        task,
        algorithm,
        {"readings": readings, "bootstrap": bootstrap, **options, **more},
        unit,
        lanes,
        seed,
        probe,
        scaled=scaled,
    )
    active = np.flatnonzero(before.active)
    compared = 0
    for lane in active:
        found = misfits(program, before, after, log, numbers, lane, index) if compared < MOST_COMPARED else None
        if found is not None:
            assert not {what: error for what, error in found.items() if error > 1}
            compared += 1
    assume(compared)
    idle = np.flatnonzero(~before.active)
    assert bits(chosen(after, idle)) == bits(chosen(before, idle))
    assert not np.asarray(log.flags)[idle].any()
    assert np.isnan(np.asarray(log.loss)[idle]).all()
    assert probe is None or all(np.isnan(vectors[idle]).all() for vectors in log.probed)


@pytest.mark.parametrize("name", ["dqn-adam", "srg-dqn", "dqn-storm", "storm-inner", "svr-dqn"])
@pytest.mark.parametrize("target", ["current", "hard"])
def test_each_of_several_is_the_references_on_its_own_batch(name: str, target: str) -> None:
    algorithm, more = KERNELS[name]
    options: dict[str, Any] = dict(learning_frequency=4, learning_starts=16, batch_size=9, replay_capacity=40)
    schedule: dict[str, Any] = dict(outer_iterations=120, schedule="linear", target=target, target_period=2)
    program = native("CartPole", algorithm, gradient_steps=3, **options, **schedule, **more)
    rng, index = np.random.default_rng(0), 10
    before = random_lanes(program, rng, 9, index)
    numbers = numbers_for(program, rng, 9)
    numbers["eta"] = np.float32(0.05) * numbers["eta"]  # so that nobody explodes
    after, _ = program.segment(before, index, 1, numbers)
    for lane in range(9):
        configuration = program.configuration.with_options({name: float(v[lane]) for name, v in numbers.items()})
        start, end = learned(before, lane), learned(after, lane)
        state = reference.State(start.theta, start.first, start.second, start.updates, start.target, start.iterations)
        memory, way = start.before, 0.0
        for update in range(3):
            data, picks = served(program, after, lane, index, update)
            progress = state.iterations / 120
            new, memory, _ = expected_iteration(configuration, program.sizes, state, memory, data, picks, progress)
            way += float(np.linalg.norm(new.theta - state.theta))
            state = new
        assert end.iterations == start.iterations + 3 == state.iterations
        assert end.updates == state.adam_count
        o = options_of(configuration, program.sizes)
        if reference.smallest_preactivation(o, [start.theta, state.theta], data) > 1e-3 and way < 10:
            assert np.linalg.norm(end.theta - state.theta) < 5 * CLOSE * way


def test_the_deepest_perceptron_is_the_references() -> None:
    options: dict[str, Any] = dict(
        hidden=(5, 4, 6, 3, 5, 4, 6), batch_size=33, inner_iterations=3, inner_batch=1, learning_frequency=3
    )
    program, before, after, log, numbers, index = run("Pendulum", "srg-dqn", options, "steps", 9, 1)
    assert len(program.sizes) == MOST_LAYERS + 1
    found = [misfits(program, before, after, log, numbers, lane, index) for lane in np.flatnonzero(before.active)]
    compared = [each for each in found if each is not None]
    assert len(compared) > 3
    assert max(max(each.values()) for each in compared) < 1


def test_tiny_gradients_have_a_norm() -> None:
    """The squares of v vanish in single precision where those of v̂ do not, which line 21 asks for."""
    small = dict(learning_frequency=4, learning_starts=8, batch_size=4, steps=100, hidden=())
    program = native("CartPole", readings="printed", **small)
    before = random_lanes(program, np.random.default_rng(0), 1, 5)
    for leaf in jax.tree.leaves(before.learner.adam):
        leaf[:] = 0
    for leaf in [*jax.tree.leaves(before.learner.parameters), np.asarray(before.ring)[..., -2]]:
        leaf *= np.float32(1e-9)
    numbers = dict(reward_scale=1e-9, adam_epsilon=1e-12, eta=0.0, alpha=1e-3)
    each = {name: np.full(1, value, np.float32) for name, value in numbers.items()}
    after, log = program.segment(before, 5, 1, each)
    found = misfits(program, before, after, log, each, 0, 5)
    assert found is not None
    assert found["theta"] < 1


def test_means_over_large_batches_have_their_digits() -> None:
    rows = 400_000
    large = dict(replay_capacity=rows, batch_size=rows, learning_starts=rows, learning_frequency=1_000, hidden=())
    program = native("CartPole", "dqn-sgd", steps=10**9, sampling="newest", gamma=0.0, **large)
    before = random_lanes(program, np.random.default_rng(0), 1, rows)
    after, log = program.segment(before, rows, 1)
    s, a, r = np.split(np.asarray(after.ring, np.float64)[0][:, [0, 1, 2, 3, -3, -2]], [4, 5], axis=1)
    [layer] = before.learner.parameters.layers
    q = s @ np.asarray(layer.weight[0], np.float64) + np.asarray(layer.bias[0])
    error = np.take_along_axis(q, a.astype(int), axis=1) - r
    assert log.loss[0, 0] == pytest.approx((error**2).mean(), rel=5e-6)
    assert log.max_q[0, 0] == pytest.approx(q.max(axis=1).mean(), rel=5e-6)
