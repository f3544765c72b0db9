"""Operations by formula: counted by hand, by numbers that count what is done to them, and by the compiler."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.configure import configure

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


class Counted:
    """A number in arrays of objects; every operation on one of its kind is counted."""

    operations = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def _result(self, value: float) -> Counted:
        Counted.operations += 1
        return Counted(value)

    def __add__(self, other: Any) -> Counted:
        return self._result(self.value + _value(other))

    def __sub__(self, other: Any) -> Counted:
        return self._result(self.value - _value(other))

    def __mul__(self, other: Any) -> Counted:
        return self._result(self.value * _value(other))

    def __truediv__(self, other: Any) -> Counted:
        return self._result(self.value / _value(other))

    def root(self) -> Counted:
        return self._result(self.value**0.5)

    def largest(self, other: Any) -> Counted:
        return self._result(max(self.value, _value(other)))

    __radd__, __rmul__ = __add__, __mul__


def _value(number: Any) -> float:
    return number.value if isinstance(number, Counted) else float(number)


_counted = np.frompyfunc(Counted, 1, 1)
_largest = np.frompyfunc(lambda one, other: one.largest(other), 2, 1)
_root = np.frompyfunc(lambda number: number.root(), 1, 1)
_is_positive = np.frompyfunc(lambda number: float(number.value > 0), 1, 1)  # known since the activation was computed

Layers = list[tuple[np.ndarray, np.ndarray]]


class PlainLearner:
    """DQN in plain NumPy with ReLU, row by row, which does nothing that is not needed."""

    def __init__(self, layers: Sequence[int], seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.sizes = layers
        self.theta: Layers = [(self.draw(i, o), self.draw(o)) for i, o in itertools.pairwise(layers)]
        self.moments = [
            (self.draw(*w.shape), self.draw(*w.shape), self.draw(*b.shape), self.draw(*b.shape)) for w, b in self.theta
        ]

    def draw(self, *shape: int) -> np.ndarray:
        return _counted(self.random.uniform(0.1, 1.0, shape))

    def batch(self, rows: int) -> list[tuple[np.ndarray, int, Counted, np.ndarray]]:
        size, actions = self.sizes[0], self.sizes[-1]
        return [
            (self.draw(size), int(self.random.integers(actions)), Counted(1.0), self.draw(size)) for _ in range(rows)
        ]

    def inputs_and_q(self, theta: Layers, x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        inputs = [x]
        for index, (weight, bias) in enumerate(theta):
            x = x @ weight + bias
            if index < len(theta) - 1:
                x = _largest(x, 0.0)
                inputs.append(x)
        return inputs, x

    def act(self, theta: Layers, x: np.ndarray) -> Counted:
        return _largest.reduce(self.inputs_and_q(theta, x)[1])

    def target(self, theta: Layers, reward: Counted, following: np.ndarray) -> Counted:
        return reward + 0.9 * self.act(theta, following)

    def gradient(self, theta: Layers, batch: Sequence[Any], given: Sequence[Counted] | None = None) -> Layers:
        mean: Layers = []
        for row, (observation, action, reward, following) in enumerate(batch):
            inputs, q = self.inputs_and_q(theta, observation)
            y = self.target(theta, reward, following) if given is None else given[row]
            slope = (q[action] - y) * (2 / len(batch))
            if row == 0:
                mean = [(np.zeros(w.shape, object), np.zeros(b.shape, object)) for w, b in theta]
            self._collect(mean, -1, (slice(None), action), inputs[-1] * slope, action, slope, first=row == 0)
            delta = theta[-1][0][:, action] * slope if len(theta) > 1 else None
            for index in range(len(theta) - 2, -1, -1):
                delta = delta * _is_positive(inputs[index + 1])
                outer = inputs[index][:, None] * delta[None, :]
                everything = (slice(None), slice(None))
                self._collect(mean, index, everything, outer, slice(None), delta, first=row == 0)
                if index:
                    delta = theta[index][0] @ delta
        return mean

    @staticmethod
    def _collect(mean: Layers, index: int, w: Any, outer: Any, b: Any, delta: Any, *, first: bool) -> None:
        weight, bias = mean[index]
        weight[w] = outer if first else weight[w] + outer
        bias[b] = delta if first else bias[b] + delta

    def step(self, theta: Layers, direction: Layers) -> Layers:
        return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(theta, direction, strict=True)]

    def adam(self, direction: Layers) -> Layers:
        def one(g: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * (g * g)
            return (first / 0.1) / (_root(second / 0.001) + 1e-8)

        return [
            (one(dw, mw, vw), one(db, mb, vb))
            for (dw, db), (mw, vw, mb, vb) in zip(direction, self.moments, strict=True)
        ]

    def recursion(self, present: Layers, reference: Layers, anchor: Layers) -> Layers:
        # Zeros of a gradient count as any of its elements, as in the formula.
        def one(g: np.ndarray, g_ref: np.ndarray, a: np.ndarray) -> np.ndarray:
            return _as_counted(g) - 1.0 * (_as_counted(g_ref) - _as_counted(a))

        return [
            tuple(one(*parts) for parts in zip(*layers, strict=True))
            for layers in zip(present, reference, anchor, strict=True)
        ]


def _as_counted(array: np.ndarray) -> np.ndarray:
    return np.frompyfunc(lambda number: number if isinstance(number, Counted) else Counted(number), 1, 1)(array)


def _dense(direction: Layers) -> Layers:
    return [(_as_counted(w), _as_counted(b)) for w, b in direction]


def counted(function: Any) -> int:
    before = Counted.operations
    function()
    return Counted.operations - before


@pytest.mark.parametrize("layers", [(3, 2), (2, 3, 2), (4, 5, 3, 2), (2, 4, 3, 5, 3)], ids=str)
@pytest.mark.parametrize("rows", [1, 4])
def test_gradients_take_what_numbers_count(layers: tuple[int, ...], rows: int) -> None:
    from arithmetic import acting, gradient, targets

    plain = PlainLearner(layers)
    batch = plain.batch(rows)
    assert counted(lambda: [plain.act(plain.theta, row[0]) for row in batch]) == acting(layers, rows).total
    assert counted(lambda: plain.gradient(plain.theta, batch)) == gradient(layers, rows).total
    assert counted(lambda: [plain.target(plain.theta, row[2], row[3]) for row in batch]) == targets(layers, rows).total
    given = [Counted(1.0)] * rows
    assert counted(lambda: plain.gradient(plain.theta, batch, given)) == gradient(layers, rows, own_targets=False).total


@pytest.mark.parametrize("algorithm", ["dqn-sgd", "dqn-adam", "sgd-inner", "dqn-gd-adam", "svr-dqn", "srg-dqn"])
def test_outer_iterations_take_what_numbers_count(algorithm: str) -> None:
    from arithmetic import outer_iteration

    layers, rows, inner, picked = (2, 4, 3, 3), 6, 3, 2
    options = dict(hidden=layers[1:-1], batch_size=rows, inner_iterations=inner, inner_batch=picked)
    configuration = configure("MountainCar", algorithm, **options)
    plain = PlainLearner(layers)
    estimator, settings = configuration.estimator.estimator, configuration.optimiser

    def step(theta: Layers, direction: Layers) -> Layers:
        return plain.step(theta, plain.adam(direction) if settings.step == "adam" else direction)

    def iterate() -> None:
        batch = plain.batch(rows)
        first, anchor = plain.theta, _dense(plain.gradient(plain.theta, batch))
        before, theta, delta = first, step(first, anchor), anchor
        for _ in range(0 if estimator == "none" else inner):
            picks = batch[:picked]
            if estimator == "full":
                delta = plain.gradient(theta, batch)
            elif estimator == "sgd":
                delta = plain.gradient(theta, picks)
            else:
                reference, moving = (first, anchor) if estimator == "svrg" else (before, delta)
                delta = plain.recursion(plain.gradient(theta, picks), plain.gradient(reference, picks), moving)
            delta = _dense(delta)
            before, theta = theta, step(theta, delta)
        if settings.adam_process:
            plain.step(theta, plain.adam(delta))

    assert counted(iterate) == outer_iteration(configuration, layers).total


def test_targets_that_are_given_are_computed_once() -> None:
    from arithmetic import FULL_BATCH, INNER, gradient, parts_of_a_block, targets

    layers = (2, 20, 3)
    moving, frozen = (
        parts_of_a_block(configure("MountainCar", "srg-dqn", hidden=(20,), target=target), layers)
        for target in ("current", "hard")
    )
    assert frozen[FULL_BATCH] == moving[FULL_BATCH]
    saved = moving[INNER].total - frozen[INNER].total
    assert saved == 16 * 2 * targets(layers, 1).total
    assert gradient(layers, 1, own_targets=False).total + targets(layers, 1).total == gradient(layers, 1).total


def test_xla_counts_a_loops_body_once_and_we_every_time() -> None:
    import jax
    import jax.numpy as jnp

    from problems import compiler_count

    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (carry @ x, None), x, None, length=7)[0]

    def written_out(x: Any) -> Any:
        return functools.reduce(lambda carry, _: carry @ x, range(7), x)

    square = jax.ShapeDtypeStruct((10, 10), jnp.float32)
    product = 2 * 10**3
    assert jax.jit(loop).lower(square).cost_analysis()["flops"] == pytest.approx(product, rel=0.01)
    assert compiler_count(loop, square) == pytest.approx(7 * product, rel=0.01)
    assert compiler_count(written_out, square) == 7 * product


@pytest.mark.parametrize(
    ("algorithm", "hidden"), [*((name, (20, 20)) for name in ALGORITHMS), ("srg-dqn", (20,)), ("svr-dqn", (64, 64))]
)
def test_the_compiler_counts_somewhat_more(algorithm: str, hidden: tuple[int, ...]) -> None:
    from problems import counts_of

    # Products with one-hot rows are the largest share of the difference, and the smaller the wider the layers are.
    least = {(20,): 0.65, (20, 20): 0.90, (64, 64): 0.96}[hidden]
    row = counts_of("MountainCar", hidden, algorithm)
    assert least < row["formula"] / row["compiler"] < 1
