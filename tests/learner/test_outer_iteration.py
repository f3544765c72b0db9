"""`outer_iteration` against the plain NumPy reference, and against properties that hold whatever the reference says."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from jax.flatten_util import ravel_pytree

import reference
from srgdqn.config import Configuration
from srgdqn.config.algorithms import ALGORITHMS, READINGS, algorithm, readings
from srgdqn.errors import InputError
from srgdqn.learner.estimators import ESTIMATORS, Direction, Estimator, Query, register_estimator
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import (
    LearnerState,
    Trace,
    batch_rows,
    evaluations_per_iteration,
    init_learner,
    outer_iteration,
    queries_per_iteration,
)
from translation import QUICK, distance, flat, mean_gradient, options_of, to_parameters, to_transitions

SIZES = (3, 5, 2)
ROWS, INNER = 5, 3

# In x64 the two differ by rounding alone, 1e-16 times the operations between them.
CLOSE = 1e-10


def configure(name: str, which: str = "corrected", sizes: tuple[int, ...] = SIZES, **options: Any) -> Configuration:
    usual = dict(hidden=sizes[1:-1], batch_size=ROWS, inner_iterations=INNER, eta=0.05, alpha=0.01)
    return Configuration().with_options({**readings(which), **algorithm(name).options, **usual, **options})


def to_picks(picks: list[list[int]], inner_batch: int) -> jax.Array:
    return jnp.asarray(np.array(picks, np.int32).reshape(-1, inner_batch))


def rows_of(tree: Any) -> np.ndarray:
    """A stack of parameters as one row each."""
    return flat(tree, axes=1)


# Running both


def program(shape: Configuration, sizes: tuple[int, ...]) -> Any:
    """One program for every value of the numbers, as the package promises."""
    network = make_network(shape.network, sizes[0], sizes[-1])

    def run(numbers: Any, state: Any, data: Any, picks: Any, anchor: Any, progress: Any) -> tuple[LearnerState, Trace]:
        configuration = shape.with_numbers(numbers)
        return outer_iteration(
            configuration, network, state, data, picks, anchor=anchor, progress=progress, keep_iterates=True
        )

    return run


@functools.cache
def compiled(shape: Configuration, sizes: tuple[int, ...], optimised: bool) -> Any:
    return jax.jit(program(shape, sizes), compiler_options=None if optimised else QUICK)


def iterate(
    configuration: Configuration,
    sizes: tuple[int, ...],
    state: LearnerState,
    data: Transitions,
    picks: jax.Array,
    anchor: Any = None,
    progress: float = 0.0,
    optimised: bool = False,
) -> tuple[LearnerState, Trace]:
    run = compiled(configuration.shape(), sizes, optimised)
    return run(configuration.numbers(), state, data, picks, anchor, progress)


def disagreements(
    name: str,
    which: str = "corrected",
    sizes: tuple[int, ...] = SIZES,
    *,
    seed: int = 0,
    iterations: int = 3,
    rows: int = ROWS,
    progress: float = 0.0,
    other_anchor: bool = False,
    optimised: bool = False,
    dtype: Any = np.float64,
    margin: float = 0.0,
    **options: Any,
) -> dict[str, float]:
    """How far every quantity of several consecutive outer iterations is from the reference, at worst."""
    configuration = configure(name, which, sizes, batch_size=rows, **options)
    o = options_of(configuration, sizes)
    inner_batch, inner = configuration.estimator.inner_batch, configuration.estimator.inner_iterations
    worst: dict[str, float] = {}

    def note(what: str, got: Any, expected: Any, scale: float = 0.0) -> None:
        worst[what] = max(worst.get(what, 0.0), distance(got, expected, scale))

    problems = [
        reference.random_problem(seed + 1000 * s, sizes, batch_rows(configuration), inner, inner_batch)
        for s in range(iterations)
    ]
    if dtype == np.float32:  # both are to solve the same problem
        problems = [jax.tree.map(lambda v: np.float32(v).astype(float) if _is_float(v) else v, p) for p in problems]

    theta = problems[0][0]
    expected_state = reference.init(o, theta)
    state = init_learner(configuration, to_parameters(theta.astype(dtype), sizes, o.activation))
    for theta_s, data, picks in problems:
        anchor = theta_s if other_anchor else None
        expected_state, expected = reference.outer_iteration(name, o, expected_state, data, picks, anchor, progress)
        if margin:
            assume(reference.smallest_preactivation(o, expected.theta, data) > margin)
        given_anchor = None if anchor is None else to_parameters(anchor.astype(dtype), sizes, o.activation)
        state, trace = iterate(
            configuration,
            sizes,
            state,
            to_transitions(data, dtype),
            to_picks(picks, inner_batch),
            given_anchor,
            progress,
            optimised,
        )
        assert {leaf.dtype for leaf in jax.tree.leaves((state.parameters, trace.deltas))} == {np.dtype(dtype)}
        # The one gradient g_M, or a Δ_m, can be small because y is close to Q; rounding is then that of y and Q.
        largest = max(np.linalg.norm(v) for v in (*expected.delta, expected.raw)) if dtype == np.float32 else 0.0
        note("parameters", flat(state.parameters), expected_state.theta)
        note("first moment", flat(state.adam.first), expected_state.first, (1 - o.beta1) * largest)
        note("second moment", flat(state.adam.second), expected_state.second, (1 - o.beta2) * largest**2)
        note("last gradient", flat(trace.last_gradient), expected.raw, largest)
        note("last delta", flat(trace.last_delta), expected.delta[-1], largest)
        note("loss", trace.loss, expected.loss)
        note("max q", trace.max_q, expected.max_q, 1.0 if dtype == np.float32 else 0.0)  # a mean of either sign
        deltas, iterates = rows_of(trace.deltas), rows_of(trace.iterates)
        assert (len(deltas), len(iterates)) == (len(expected.delta), len(expected.theta))
        for m, delta in enumerate(expected.delta):
            note(f"delta {m}", deltas[m], delta, largest)
        for m, theta_m in enumerate(expected.theta):
            note(f"theta {m}", iterates[m], theta_m)
        if expected_state.target is None:
            assert state.target is None
        else:
            axes = expected_state.target.ndim - 1
            note("target", flat(state.target, axes), expected_state.target)
        if anchor is None:  # the reference counted every gradient it computed
            assert int(trace.queries) == queries_per_iteration(configuration) == expected.queries
        assert int(state.iterations) == expected_state.iterations
        assert int(state.adam.updates) == expected_state.adam_count
    return worst


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype == np.float64)


def assert_close(worst: dict[str, float], tolerance: float) -> None:
    assert worst
    assert not {what: error for what, error in worst.items() if error > tolerance}


def test_names_are_those_of_the_reference() -> None:
    across_batches = {"dqn-storm", "dqn-mars"}  # which the family has
    assert set(ALGORITHMS) == set(reference.ALGORITHMS) | across_batches


def test_printed_differs_from_corrected_in_rows_3_6_7_and_8() -> None:
    defaults = Configuration().options()
    of_reference = {name: getattr(reference.Options(SIZES), name) for name in reference.PRINTED}
    assert READINGS["printed"] == reference.PRINTED
    assert READINGS["corrected"] == of_reference == {name: defaults[name] for name in reference.PRINTED}


numbers = st.fixed_dictionaries(
    dict(
        seed=st.integers(0, 999),
        eta=st.floats(1e-4, 0.05),
        gamma=st.floats(0, 1),
        coefficient=st.floats(0, 1),
        alpha=st.floats(1e-4, 0.02),
        beta1=st.floats(0, 0.95),
        beta2=st.floats(0.5, 0.999),
    )
)


@pytest.mark.parametrize("differentiation", ["closed-form", "autodiff"])
@pytest.mark.parametrize("which", ["corrected", "printed"])
@pytest.mark.parametrize("name", reference.ALGORITHMS)
@settings(max_examples=3)
@given(numbers=numbers)
def test_every_algorithm_is_the_references(name: str, which: str, differentiation: str, numbers: Any) -> None:
    with jax.enable_x64(True):
        assert_close(disagreements(name, which, differentiation=differentiation, **numbers), CLOSE)


OPTIONS: dict[str, dict[str, Any]] = {
    "row 2, outer": dict(target="outer"),
    "row 2, hard": dict(target="hard", target_period=2, iterations=4),
    "row 2, polyak": dict(target="polyak", target_tau=0.3),
    "double, hard": dict(target="hard", bootstrap="double", target_period=2, iterations=4),
    "double, polyak": dict(target="polyak", bootstrap="double", target_tau=0.3, iterations=3),
    "Adam begun anew": dict(target="hard", target_period=2, adam_at_copy="reset", iterations=5),
    "Adam's clock restarted": dict(target="hard", target_period=2, adam_at_copy="restart-clock", iterations=5),
    "averaged": dict(target="hard", target_networks=3, target_period=2, iterations=7),
    "averaged, double": dict(target="hard", target_networks=2, bootstrap="double", target_period=1, iterations=4),
    "munchausen, outer": dict(
        target="outer", bootstrap="munchausen", munchausen_temperature=0.3, munchausen_floor=-0.5
    ),
    "munchausen, averaged": dict(
        target="hard",
        target_networks=2,
        target_period=1,
        bootstrap="munchausen",
        munchausen_share=0.5,
        munchausen_temperature=0.2,
        mask_terminal=False,
        iterations=4,
    ),
    "munchausen, polyak": dict(target="polyak", bootstrap="munchausen", target_tau=0.3, munchausen_temperature=0.1),
    "row 2, huber": dict(loss="huber", huber_delta=0.5),
    "row 3, unmasked": dict(mask_terminal=False),
    "row 5, mini-batch": dict(inner_batch=3),
    "row 6, raw gradient": dict(adam_input="gradient"),
    "row 7, from the previous": dict(adam_from="previous"),
    "rows 6 and 7": dict(adam_input="gradient", adam_from="previous"),
    "row 8, norm": dict(adam_denominator="norm"),
    "row 9, other moments": dict(beta1=0.5, beta2=0.9, adam_epsilon=0.1),
    "row 26, no step along the anchor": dict(anchor_step=False),
    "tanh": dict(activation="tanh"),
    "softplus": dict(activation="softplus"),
    "half the correction": dict(coefficient=0.5),
    "clipped": dict(clip_norm=0.3),
    "linear schedule": dict(schedule="linear", schedule_end=0.2, progress=0.25),
    "cosine schedule": dict(schedule="cosine", schedule_end=0.1, progress=0.7),
    "two hidden layers": dict(sizes=(3, 4, 5, 2)),
    "anchor given": dict(other_anchor=True),
}


@pytest.mark.parametrize("which", OPTIONS)
def test_every_option_is_the_references(which: str) -> None:
    with jax.enable_x64(True):
        assert_close(disagreements("srg-dqn", **{"iterations": 2, **OPTIONS[which]}), CLOSE)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("svr-dqn", dict(differentiation="autodiff", loss="huber", huber_delta=0.5, target="outer", inner_batch=3)),
        ("svr-dqn", dict(differentiation="autodiff", mask_terminal=False, anchor_step=False, activation="softplus")),
        ("svr-dqn", dict(coefficient=0.5, adam_input="gradient", adam_from="previous", other_anchor=True)),
        ("sgd-inner-adam", dict(inner_batch=2, clip_norm=0.2, target="polyak", target_tau=0.5)),
        ("dqn-gd-adam", dict(clip_norm=0.2, target="outer", loss="huber", huber_delta=0.3)),
        ("dqn-gd", dict(anchor_step=False, target="hard", target_period=1)),
        ("dqn-sgd-17eta", dict(clip_norm=0.2, schedule="linear", progress=0.5)),
        ("dqn-sgd-queries", dict(inner_batch=2, target="outer")),
        ("dqn-adam", dict(clip_norm=0.2, schedule="cosine", progress=0.5)),
        ("dqn-adam-repeated", dict(clip_norm=0.2, schedule="linear", progress=0.5)),
        ("dqn-adam-repeated", dict(anchor_step=False, adam_denominator="norm")),
        ("srg-adam-steps", dict(target="hard", target_period=2, loss="huber", huber_delta=0.5, iterations=4)),
        ("svr-adam-steps", dict(target="hard", target_period=2, loss="huber", huber_delta=0.5, iterations=4)),
        ("sgd-adam-steps-b2", dict(target="hard", target_period=2, loss="huber", huber_delta=0.5, iterations=4)),
        ("svr-adam-steps", dict(target="hard", target_period=2, adam_at_copy="reset", iterations=5)),
        ("dqn-adam", dict(target="hard", target_period=1, adam_at_copy="restart-clock", iterations=4)),
        ("sgd-adam-steps", dict(clip_norm=0.2, schedule="linear", progress=0.5, adam_denominator="norm")),
    ],
)
def test_options_together_are_the_references(name: str, options: dict[str, Any]) -> None:
    with jax.enable_x64(True):
        assert_close(disagreements(name, **options), CLOSE)


@settings(max_examples=12)
@given(
    name=st.sampled_from(sorted(reference.ALGORITHMS)),
    which=st.sampled_from(["corrected", "printed"]),
    hidden=st.lists(st.integers(1, 6), min_size=1, max_size=2),
    ends=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    rows=st.integers(1, 7),
    inner_iterations=st.integers(0, 5),
    inner_batch=st.integers(1, 3),
    options=st.fixed_dictionaries(
        dict(
            target=st.sampled_from(["current", "outer", "hard", "polyak"]),
            loss=st.sampled_from(["squared", "huber"]),
            activation=st.sampled_from(["relu", "tanh", "softplus"]),
            differentiation=st.sampled_from(["closed-form", "autodiff"]),
            clip_norm=st.one_of(st.none(), st.floats(0.1, 2)),
            anchor_step=st.booleans(),
            target_period=st.integers(1, 3),
            target_tau=st.floats(0, 1),
            huber_delta=st.floats(0.1, 2),
        )
    ),
    numbers=numbers,
)
def test_any_composition_is_the_references(
    name: str,
    which: str,
    hidden: list[int],
    ends: tuple[int, int],
    rows: int,
    inner_iterations: int,
    inner_batch: int,
    options: Any,
    numbers: Any,
) -> None:
    assume(options["anchor_step"] or reference.ALGORITHMS[name].direction is not None)
    sizes = (ends[0], *hidden, ends[1])
    sampled = dict(rows=rows, inner_iterations=inner_iterations, inner_batch=inner_batch, iterations=4)
    with jax.enable_x64(True):
        assert_close(disagreements(name, which, sizes, **sampled, **options, **numbers), CLOSE)


# In float32 one rounding is 6e-8 of a number. Sums of some ten products, a few such sums after each other and Δ_m as a
# difference of gradients larger than itself leave a few dozen roundings. The largest single error is that of 1 - β2: it
# is taken of 0.999 as float32 knows it and is off by 1.3e-5, and so is v; v̂ is not, as 1 - β2^s is off alike. Adam
# divides each element by its own size, which magnifies the relative error of a small one, but in a step of length α.
FLOAT32 = 5e-5


@pytest.mark.parametrize(
    ("name", "differentiation"),
    [("srg-dqn", "closed-form"), ("svr-dqn", "autodiff")],
)
@settings(max_examples=8)
@given(seed=st.integers(0, 999))
def test_float32_rounds_the_reference(name: str, differentiation: str, seed: int) -> None:
    """With a smooth network; a maximum over actions is continuous, so a tie that rounding breaks does no harm."""
    options = dict(activation="tanh", differentiation=differentiation, clip_norm=2.0, dtype=np.float32, optimised=True)
    assert_close(disagreements(name, seed=seed, **options), FLOAT32)


@settings(max_examples=8)
@given(seed=st.integers(0, 999))
def test_float32_rounds_the_reference_away_from_the_kinks_of_relu(seed: int) -> None:
    """Where a unit is within rounding of 0, float32 may rightly find it on the other side: such draws are left out."""
    assert_close(disagreements("srg-dqn", "printed", seed=seed, margin=1e-4, dtype=np.float32, optimised=True), FLOAT32)


# Properties. Each is about Δ_m and the iterates alone; gradients to compare with are the reference's.


def single_run(
    name: str, seed: int, data: list[reference.Transition] | None = None, picks: Any = None, **options: Any
) -> tuple[LearnerState, Trace, reference.Options, list[reference.Transition]]:
    """One outer iteration from a random θ; D and the picks are random too unless given."""
    theta, random_data, random_picks = reference.random_problem(
        seed, SIZES, ROWS, options.get("inner_iterations", INNER), options.get("inner_batch", 1)
    )
    data = random_data if data is None else data
    picks = random_picks if picks is None else picks
    configuration = configure(name, **options)
    state = init_learner(configuration, to_parameters(theta, SIZES, configuration.network.activation))
    given_picks = to_picks(picks, configuration.estimator.inner_batch)
    state, trace = iterate(configuration, SIZES, state, to_transitions(data), given_picks)
    return state, trace, options_of(configuration, SIZES), data


@settings(max_examples=5)
@given(seed=st.integers(0, 999))
def test_srg_and_svrg_coincide_for_one_inner_iteration(seed: int) -> None:
    """At m = 1 the parameters before θ_m are θ_0, and the direction before Δ_m is Δ_0."""
    with jax.enable_x64(True):
        recursive, recursive_trace, *_ = single_run("srg-dqn", seed, inner_iterations=1)
        anchored, anchored_trace, *_ = single_run("svr-dqn", seed, inner_iterations=1)
    assert distance(flat(recursive.parameters), flat(anchored.parameters)) < CLOSE
    assert distance(flat(recursive_trace.deltas), flat(anchored_trace.deltas)) < CLOSE


@pytest.mark.parametrize("name", ["srg-dqn-no-adam", "svr-dqn-no-adam", "sgd-inner", "dqn-gd"])
@settings(max_examples=3)
@given(seed=st.integers(0, 999))
def test_every_estimator_is_exact_on_one_repeated_transition(name: str, seed: int) -> None:
    with jax.enable_x64(True):
        data = [reference.random_problem(seed, SIZES, 1, 0)[1][0]] * ROWS
        _, trace, o, _ = single_run(name, seed, data)
    deltas, iterates = rows_of(trace.deltas), rows_of(trace.iterates)
    for m in range(INNER + 1):
        assert distance(deltas[m], mean_gradient(o, iterates[m], data)) < CLOSE


@pytest.mark.parametrize("name", ["srg-dqn-no-adam", "svr-dqn-no-adam"])
@settings(max_examples=3)
@given(seed=st.integers(0, 999), shuffle=st.randoms(use_true_random=False))
def test_picks_of_all_rows_give_the_mean_gradient(name: str, seed: int, shuffle: Any) -> None:
    """With b = N without replacement g_m is ∇F_D(θ_m), and the correction cancels."""
    picks = [shuffle.sample(range(ROWS), ROWS) for _ in range(INNER)]
    with jax.enable_x64(True):
        sampling = dict(inner_batch=ROWS, inner_sampling="without-replacement")
        _, trace, o, data = single_run(name, seed, picks=picks, **sampling)
    deltas, iterates = rows_of(trace.deltas), rows_of(trace.iterates)
    for m in range(INNER + 1):
        assert distance(deltas[m], mean_gradient(o, iterates[m], data)) < CLOSE


@pytest.mark.parametrize("name", ["srg-dqn-no-adam", "svr-dqn-no-adam"])
def test_error_of_an_estimator_is_zero_on_average_over_all_paths(name: str) -> None:
    """θ_m depends on x_1 … x_{m-1} alone, so over the N equally likely values of x_m, g(θ; x_m) averages to ∇F_D(θ) at
    each θ already reached. For SVRG the error Δ_m - ∇F_D(θ_m) then averages to c (Δ_0 - ∇F_D(θ_0)) = 0 at once; for SRG
    to c times the error at m - 1, a martingale that starts from 0. All N^M paths weigh the same, so their plain average
    is that expectation and not an estimate of it. That g is the gradient of no function (y moves with θ) is no matter.
    """
    rows, inner = 3, 3
    theta, data, _ = reference.random_problem(3, SIZES, rows, 0)
    paths = np.array(list(itertools.product(range(rows), repeat=inner)), np.int32)[:, :, None]
    options = dict(batch_size=rows, inner_iterations=inner, eta=0.2, activation="tanh")
    shape = configure(name, **options).shape()
    with jax.enable_x64(True):
        run = jax.vmap(program(shape, SIZES), in_axes=(None, None, None, 0, None, None))
        run = jax.jit(run, compiler_options=QUICK)
    for coefficient in (1.0, 0.5):
        configuration = configure(name, **options, coefficient=coefficient)
        o = options_of(configuration, SIZES)
        with jax.enable_x64(True):
            state = init_learner(configuration, to_parameters(theta, SIZES, "tanh"))
            _, trace = run(configuration.numbers(), state, to_transitions(data), jnp.asarray(paths), None, 0.0)
        deltas, iterates = flat(trace.deltas, axes=2), flat(trace.iterates, axes=2)  # by path and m
        for m in range(inner + 1):
            errors = np.array([deltas[p, m] - mean_gradient(o, iterates[p, m], data) for p in range(len(paths))])
            size = np.linalg.norm(deltas[:, m], axis=1).mean()
            assert np.linalg.norm(errors.mean(axis=0)) < 1e-14 * size * len(paths)
            if m > 0:  # and not because there is no error
                assert np.linalg.norm(errors, axis=1).min() > 1e-4 * size


@pytest.mark.parametrize("which", READINGS)
@pytest.mark.parametrize("name", reference.ALGORITHMS)
def test_no_inner_iterations(name: str, which: str) -> None:
    """One step along Δ_0, then the Adam process on Δ_0: from where the step led, or (printed) from θ_0."""
    configuration = configure(name, which, inner_iterations=0)
    o = options_of(configuration, SIZES)
    theta, data, _ = reference.random_problem(5, SIZES, ROWS, 0)
    assert batch_rows(configuration) == ROWS
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES))
        state, trace = iterate(configuration, SIZES, state, to_transitions(data), to_picks([], 1))
    delta = mean_gradient(o, theta, data)
    # Adam's first step: both bias corrections undo the decay, so m̂ = Δ_0 and v̂ = Δ_0².
    size = np.sqrt(np.linalg.norm(delta**2)) if which == "printed" else np.abs(delta)
    first_adam = 0.01 * delta / (size + 1e-8)
    if reference.ALGORITHMS[name].adam_steps:
        expected = theta - first_adam
    elif name in ("srg-dqn", "svr-dqn", "sgd-inner-adam", "dqn-gd-adam"):
        expected = (theta if which == "printed" else theta - 0.05 * delta) - first_adam
    else:
        expected = theta - 0.05 * delta
    assert distance(flat(state.parameters), expected) < CLOSE
    assert distance(flat(trace.last_delta), delta) < CLOSE
    assert distance(flat(trace.last_gradient), delta) < CLOSE
    assert rows_of(trace.deltas).shape[0] == 1
    assert rows_of(trace.iterates).shape[0] == 2
    assert int(trace.queries) == ROWS


@pytest.mark.parametrize("adam_input", ["delta", "gradient"])
@pytest.mark.parametrize("adam_from", ["last", "previous"])
def test_rows_6_and_7_in_all_four_combinations(adam_input: str, adam_from: str) -> None:
    """The first Adam process moves each parameter by α against the sign of what entered."""
    with jax.enable_x64(True):
        state, trace, o, data = single_run("srg-dqn", 11, adam_input=adam_input, adam_from=adam_from, adam_epsilon=0.0)
        *_, picks = reference.random_problem(11, SIZES, ROWS, INNER)
    iterates, deltas = rows_of(trace.iterates), rows_of(trace.deltas)
    x = data[picks[INNER - 1][0]]
    raw = reference.gradient(o, iterates[INNER], x, reference.bellman_target(o, iterates[INNER], x))
    assert distance(raw, deltas[INNER]) > 0.1  # so that the two differ
    enters = {"delta": deltas[INNER], "gradient": raw}[adam_input]
    start = {"last": iterates[INNER + 1], "previous": iterates[INNER]}[adam_from]
    moves = enters != 0  # a dead unit's 0 / 0 is looked at nowhere else: ϵ is never 0 in earnest
    assert moves.sum() > 5
    assert distance(flat(state.parameters)[moves], (start - 0.01 * np.sign(enters))[moves]) < CLOSE
    assert distance(flat(state.adam.first), 0.1 * enters) < CLOSE


@pytest.mark.parametrize("name", ["srg-dqn", "svr-dqn"])
def test_without_correction_both_are_plain_gradients(name: str) -> None:
    with jax.enable_x64(True):
        plain, plain_trace, *_ = single_run("sgd-inner-adam", 13)
        state, trace, *_ = single_run(name, 13, coefficient=0.0)
    assert distance(flat(state.parameters), flat(plain.parameters)) < CLOSE
    assert distance(flat(trace.deltas), flat(plain_trace.deltas)) < CLOSE


@pytest.mark.parametrize("name", ["srg-dqn", "svr-dqn"])
def test_an_anchor_enters_as_the_first_direction(name: str) -> None:
    theta, data, picks = reference.random_problem(17, SIZES, ROWS, INNER)
    configuration = configure(name)
    o = options_of(configuration, SIZES)
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES))
        arguments = (configuration, SIZES, state, to_transitions(data), to_picks(picks, 1))
        ordinary, ordinary_trace = iterate(*arguments)
        same, same_trace = iterate(*arguments, to_parameters(mean_gradient(o, theta, data), SIZES))
        other = np.linspace(-1, 1, len(theta))
        _, other_trace = iterate(*arguments, to_parameters(other, SIZES))
    assert distance(flat(same.parameters), flat(ordinary.parameters)) < CLOSE
    assert distance(flat(same_trace.deltas), flat(ordinary_trace.deltas)) < CLOSE
    np.testing.assert_array_equal(rows_of(other_trace.deltas)[0], other)
    assert distance(rows_of(other_trace.iterates)[1], theta - 0.05 * other) < CLOSE
    assert float(same_trace.loss) == pytest.approx(float(other_trace.loss))  # D's, whatever the anchor


# Work


COSTS = {  # N = 5, M = 3, b = 2: queries by the formula, and gradients evaluated
    "srg-dqn": (5 + 2 * 2 * 3, 5 + (2 * 3 + 1) * 2),  # one more than it needs, as the next pick is asked for early
    "srg-dqn-no-adam": (5 + 2 * 2 * 3, 5 + (2 * 3 + 1) * 2),
    "svr-dqn": (5 + 2 * 2 * 3, 5 + 2 * 2 * 3),
    "svr-dqn-no-adam": (5 + 2 * 2 * 3, 5 + 2 * 2 * 3),
    "sgd-inner": (5 + 2 * 3, 5 + 2 * 3),
    "sgd-inner-adam": (5 + 2 * 3, 5 + 2 * 3),
    "dqn-sgd": (5, 5),
    "dqn-sgd-17eta": (5, 5),
    "dqn-adam": (5, 5),
    "dqn-sgd-queries": (5 + 2 * 2 * 3, 5 + 2 * 2 * 3),
    "dqn-gd": (4 * 5, 4 * 5),
    "dqn-gd-adam": (4 * 5, 4 * 5),
    "dqn-adam-repeated": (4 * 5, 4 * 5),
    "srg-adam-steps": (5 + 2 * 2 * 3, 5 + (2 * 3 + 1) * 2),
    "svr-adam-steps": (5 + 2 * 2 * 3, 5 + 2 * 2 * 3),
    "sgd-adam-steps": (5 + 2 * 3, 5 + 2 * 3),
    "sgd-adam-steps-b2": (5 + 2 * 3, 5 + 2 * 3),
}


class Counting(eqx.Module):
    """A network that reports each observation it is really applied to."""

    inner: eqx.nn.Linear
    report: Callable[[np.ndarray], None] = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        jax.debug.callback(self.report, x)
        return self.inner(x)


@pytest.mark.parametrize("name", reference.ALGORITHMS)
def test_work_is_as_tabulated_and_as_done(name: str) -> None:
    queries, evaluations = COSTS[name]
    configuration = configure(name, inner_batch=2, differentiation="autodiff", target="outer")
    assert queries_per_iteration(configuration) == queries
    assert evaluations_per_iteration(configuration) == evaluations

    gradients = 0

    def report(row: np.ndarray) -> None:
        nonlocal gradients
        gradients += int(row[0] == 1)

    _, data, picks = reference.random_problem(19, (3, 2), batch_rows(configuration), INNER, 2)
    # The first entry separates S from S', so that targets are not counted as gradients.
    data = [x._replace(s=np.array([1.0, *x.s[1:]]), s_next=np.array([0.0, *x.s_next[1:]])) for x in data]
    module = Counting(eqx.nn.Linear(3, 2, key=jax.random.key(0)), report)
    network = make_network(configuration.network, 3, 2, module)
    state = init_learner(configuration, network.init(jax.random.key(0)))
    run = jax.jit(functools.partial(outer_iteration, configuration, network), compiler_options=QUICK)
    _, trace = run(state, to_transitions(data, np.float32), to_picks(picks, 2))
    jax.effects_barrier()
    assert (int(trace.queries), int(trace.evaluations)) == (queries, evaluations)
    assert gradients == evaluations
    assert trace.deltas is None
    assert trace.iterates is None


# Any equinox module


def test_equinox_mlp_with_the_same_weights_is_the_reference() -> None:
    """equinox stores a layer's weights outputs first, so they are transposed on the way in and on the way out."""
    configuration = configure("srg-dqn", activation="tanh")
    o = options_of(configuration, SIZES)
    theta, data, picks = reference.random_problem(23, SIZES, ROWS, INNER)

    def mine(parameters: Any) -> np.ndarray:
        pieces = [np.ravel(part) for layer in parameters.layers for part in (np.asarray(layer.weight).T, layer.bias)]
        return np.concatenate(pieces)

    with jax.enable_x64(True):
        module = eqx.nn.MLP(SIZES[0], SIZES[-1], SIZES[1], depth=1, activation=jnp.tanh, key=jax.random.key(0))
        for i, (weight, bias) in enumerate(reference.unpack(theta, SIZES)):
            layer = (jnp.asarray(weight.T), jnp.asarray(bias))
            module = eqx.tree_at(lambda m, i=i: (m.layers[i].weight, m.layers[i].bias), module, layer)
        network = make_network(configuration.network, SIZES[0], SIZES[-1], module)
        state = init_learner(configuration, network.init(jax.random.key(0)))
        run = jax.jit(functools.partial(outer_iteration, configuration, network), compiler_options=QUICK)
        expected = reference.init(o, theta)
        for _ in range(2):
            state, _ = run(state, to_transitions(data), to_picks(picks, 1))
            expected, _ = reference.outer_iteration("srg-dqn", o, expected, data, picks)
    assert distance(mine(state.parameters), expected.theta) < CLOSE
    assert distance(mine(state.adam.second), expected.second) < CLOSE


class Normed(eqx.Module):
    """A hand-made network with a layer normalisation."""

    first: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    second: eqx.nn.Linear

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.second(jnp.tanh(self.norm(self.first(x))))


def test_hand_made_module_follows_algorithm_1() -> None:
    """Lines 5 to 14 once more, with a gradient for the module that is differentiated here, one transition at a time."""
    configuration = configure("srg-dqn-no-adam", gamma=0.8)
    _, data, picks = reference.random_problem(29, SIZES, ROWS, INNER)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(1), 2)
        module = Normed(eqx.nn.Linear(3, 4, key=keys[0]), eqx.nn.LayerNorm(4), eqx.nn.Linear(4, 2, key=keys[1]))
        network = make_network(configuration.network, 3, 2, module)
        state = init_learner(configuration, network.init(jax.random.key(0)))
        start, unravel = ravel_pytree(state.parameters)

        def squared(theta: jax.Array, y: Any, s: Any, a: Any) -> jax.Array:
            return (y - eqx.combine(unravel(theta), module)(s)[a]) ** 2

        slope = jax.jit(jax.grad(squared))
        q = jax.jit(lambda theta, s: eqx.combine(unravel(theta), module)(s))

        def g(theta: jax.Array, i: int) -> jax.Array:
            x = data[i]
            y = x.r + 0.8 * (not x.terminal) * float(max(q(theta, jnp.asarray(x.s_next))))
            return slope(theta, y, jnp.asarray(x.s), x.a)

        theta = [start]
        delta = [sum(g(theta[0], i) for i in range(ROWS)) / ROWS]
        theta.append(theta[0] - 0.05 * delta[0])
        for m in range(1, INNER + 1):
            (i,) = picks[m - 1]
            delta.append(g(theta[m], i) - g(theta[m - 1], i) + delta[m - 1])
            theta.append(theta[m] - 0.05 * delta[m])

        run = jax.jit(
            functools.partial(outer_iteration, configuration, network, keep_iterates=True), compiler_options=QUICK
        )
        state, trace = run(state, to_transitions(data), to_picks(picks, 1))
        got = [ravel_pytree(jax.tree.map(lambda leaf, m=m: leaf[m], trace.deltas))[0] for m in range(INNER + 1)]
        result = ravel_pytree(state.parameters)[0]
    for m in range(INNER + 1):
        assert distance(got[m], delta[m]) < CLOSE
    assert distance(result, theta[-1]) < CLOSE


# Estimators of the user's own


@pytest.fixture
def registry() -> Any:
    before = dict(ESTIMATORS)
    yield ESTIMATORS
    ESTIMATORS.clear()
    ESTIMATORS.update(before)


def _add(*terms: tuple[float, Any]) -> Any:
    return jax.tree.map(lambda *leaves: sum(f * leaf for (f, _), leaf in zip(terms, leaves)), *(t for _, t in terms))  # noqa: B905


def _storm(a: float) -> Estimator:
    """Δ_m = g(θ_m) + (1 - a)(Δ_{m-1} - g(θ_{m-1})), Cutkosky and Orabona's recursive momentum."""

    def direction(before: Any, theta: Any, delta: Any, query: Query) -> Direction:
        present, past = query.dense(query.on_present(theta)), query.dense(query.on_present(before))
        return Direction(_add((1, present), (1 - a, delta), (a - 1, past)), present, theta)

    return Estimator(
        direction,
        queries=lambda work: 2 * work.inner_batch * work.inner_iterations,
        evaluations=lambda work: 2 * work.inner_batch * work.inner_iterations,
        begin=lambda memory, theta, delta, query: theta,
    )


@pytest.mark.parametrize("differentiation", ["closed-form", "autodiff"])
def test_a_registered_estimator_runs(registry: dict[str, Estimator], differentiation: str) -> None:
    """STORM is the recursion of SRG with c = 1 - a."""
    register_estimator("mine", _storm(0.3))
    with jax.enable_x64(True):
        options = dict(inner_batch=2, differentiation=differentiation)
        state, trace, *_ = single_run("srg-dqn", 31, estimator="mine", **options)
        theta, data, picks = reference.random_problem(31, SIZES, ROWS, INNER, 2)
    o = options_of(configure("srg-dqn", coefficient=0.7), SIZES)
    expected_state, expected = reference.outer_iteration("srg-dqn", o, reference.init(o, theta), data, picks)
    assert distance(flat(state.parameters), expected_state.theta) < CLOSE
    assert distance(flat(trace.deltas), flat(to_stack(expected.delta))) < CLOSE
    assert queries_per_iteration(configure("srg-dqn", estimator="mine", inner_batch=2)) == ROWS + 2 * 2 * INNER


def to_stack(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Rows of flat vectors as the leaves a stack of parameters has."""
    parts = [[part for layer in reference.unpack(row, SIZES) for part in layer] for row in rows]
    return [np.stack(leaves) for leaves in zip(*parts, strict=True)]


def test_memory_of_an_estimator_survives_outer_iterations(registry: dict[str, Estimator]) -> None:
    """A momentum that carries on from one outer iteration to the next, counted by hand."""

    def direction(state: Any, theta: Any, delta: Any, query: Query) -> Direction:
        present = query.dense(query.on_present(theta))
        state = _add((0.5, state), (0.5, present))
        return Direction(state, present, state)

    momentum = Estimator(
        direction,
        queries=lambda work: work.inner_batch * work.inner_iterations,
        evaluations=lambda work: work.inner_batch * work.inner_iterations,
        init=lambda theta, work: jax.tree.map(jnp.zeros_like, theta),
        finish=lambda state, theta: state,
    )
    register_estimator("momentum", momentum)
    configuration = configure("sgd-inner", estimator="momentum")
    o = options_of(configuration, SIZES)
    theta, data, picks = reference.random_problem(37, SIZES, ROWS, INNER)
    expected = np.zeros_like(theta)
    with jax.enable_x64(True):
        state = init_learner(configuration, to_parameters(theta, SIZES))
        for _ in range(2):
            state, trace = iterate(configuration, SIZES, state, to_transitions(data), to_picks(picks, 1))
            for m, ((i,), at) in enumerate(zip(picks, rows_of(trace.iterates)[1:-1], strict=True), start=1):
                y = reference.bellman_target(o, at, data[i])
                expected = 0.5 * expected + 0.5 * reference.gradient(o, at, data[i], y)
                assert distance(rows_of(trace.deltas)[m], expected) < CLOSE
            assert distance(flat(state.memory), expected) < CLOSE


def test_names_of_estimators_are_taken_once(registry: dict[str, Estimator]) -> None:
    mine = _storm(0.1)
    register_estimator("mine", mine)
    register_estimator("mine", mine)  # a module that is imported twice does no harm
    again = _storm(0.2)
    register_estimator("mine", again)  # nor does a cell that is run again
    assert ESTIMATORS["mine"] is again
    for taken in ("mine", "storm", "srg", "none"):
        with pytest.raises(InputError, match=f"already is an estimator called '{taken}'"):
            register_estimator(taken, mine._replace(direction=lambda *given: mine.direction(*given)))
    with pytest.raises(InputError, match=r"unknown estimator 'mien'\. Did you mean 'mine'"):
        single_run("srg-dqn", 0, estimator="mien")
