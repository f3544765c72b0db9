"""Between the package's forms (trees of arrays, packed rows) and the reference's (flat vectors, transitions)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import reference
import storm_reference
from srgdqn.config import Configuration
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.kernel.structures import ESTIMATORS
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks.mlp import MLP, Layer

# In double precision the two differ by rounding alone.
CLOSE = 1e-9


def options_of(configuration: Configuration, sizes: tuple[int, ...]) -> reference.Options:
    """The reference's options under which it should do what the configuration says."""
    chosen = configuration.options()
    names = [field.name for field in dataclasses.fields(reference.Options) if field.name != "sizes"]
    return reference.Options(sizes, **{name: chosen[name] for name in names})


KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name, each in ALGORITHMS.items() if each.options["estimator"] in ESTIMATORS},
    "storm-gradient-steps": ("dqn-storm", dict(step="gradient")),
    "storm-adam": ("dqn-storm", dict(step="gradient", adam_process=True)),
    "storm-inner": ("srg-dqn", dict(estimator="storm_inner")),
}
"""Algorithms and options of what the kernel learns by."""


def expected_iteration(
    configuration: Configuration,
    sizes: tuple[int, ...],
    state: reference.State,
    before: storm_reference.Before | None,
    data: list[reference.Transition],
    picks: list[list[int]],
    progress: float,
) -> tuple[reference.State, storm_reference.Before | None, reference.Record]:
    """What an outer iteration of the configuration comes to, by the reference that is for its estimator."""
    o, own = options_of(configuration, sizes), dict(configuration.estimator.own)
    optimiser = configuration.optimiser
    if configuration.estimator.estimator == "storm":
        assert before is not None
        storm = storm_reference.Storm(own["a"], own["reset"] > 0.5, optimiser.step == "adam", optimiser.adam_process)
        return storm_reference.outer_iteration(storm, o, state, before, data, progress)
    if configuration.estimator.estimator == "storm_inner":
        o = dataclasses.replace(o, coefficient=1 - own["a"])
    after, record = reference.outer_iteration(configuration.algorithm, o, state, data, picks, progress=progress)
    return after, None, record


def to_parameters(theta: np.ndarray, sizes: tuple[int, ...], activation: str = "relu") -> MLP:
    layers = tuple(Layer(jnp.asarray(weight), jnp.asarray(bias)) for weight, bias in reference.unpack(theta, sizes))
    return MLP(layers, activation)


def flat(tree: Any, axes: int = 0) -> np.ndarray:
    """A tree of parameters as one vector, or as an array of vectors where the leaves have axes before their own."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]
    return np.concatenate([leaf.reshape(*leaf.shape[:axes], -1) for leaf in leaves], axis=-1)


def to_packed(data: Sequence[reference.Transition]) -> np.ndarray:
    """Rows of S, S', A, R and whether S' is terminal."""
    return np.array([[*x.s, *x.s_next, x.a, x.r, x.terminal] for x in data], np.float64)


def from_packed(rows: Any) -> list[reference.Transition]:
    rows = np.asarray(rows, np.float64)
    size = (rows.shape[1] - 3) // 2
    return [
        reference.Transition(row[:size], int(row[-3]), float(row[-2]), row[size : 2 * size], bool(row[-1]))
        for row in rows
    ]


def to_transitions(data: Sequence[reference.Transition], dtype: Any = np.float64) -> Transitions:
    s, a, r, s_next, terminal, _ = (np.array(column) for column in zip(*data, strict=True))
    columns = s.astype(dtype), a.astype(np.int32), r.astype(dtype), s_next.astype(dtype), terminal.astype(dtype)
    return Transitions(*map(jnp.asarray, columns))


def from_transitions(transitions: Transitions) -> list[reference.Transition]:
    s, a, r, s_next, terminal = (np.asarray(part) for part in transitions[:5])
    return [
        reference.Transition(s[i], int(a[i]), float(r[i]), s_next[i], bool(terminal[i])) for i in range(len(terminal))
    ]


def mean_gradient(
    o: reference.Options,
    theta: np.ndarray,
    data: Sequence[reference.Transition],
    frozen: np.ndarray | None = None,
) -> np.ndarray:
    """The gradient over all the data at θ, with y by `frozen` parameters, or else at the same θ."""
    behind = theta if frozen is None else frozen
    return sum(reference.gradient(o, theta, x, reference.bellman_target(o, behind, x)) for x in data) / len(data)


def distance(got: Any, expected: Any, scale: float = 0.0) -> float:
    """‖got - expected‖ as a share of ‖expected‖ (or of `scale` if larger), or as it is where nothing was expected."""
    got, expected = np.ravel(np.asarray(got, np.float64)), np.ravel(np.asarray(expected, np.float64))
    assert got.shape == expected.shape
    assert np.isfinite(got).all()
    return float(np.linalg.norm(got - expected) / (max(np.linalg.norm(expected), scale) or 1.0))


def _quick() -> dict[str, Any] | None:
    """Compile without optimising, which takes a tenth of the time: most programs here run a handful of times."""
    options = dict(
        xla_backend_optimization_level=0, xla_cpu_use_fusion_emitters=False, xla_cpu_parallel_codegen_split_count=1
    )
    try:
        jax.jit(lambda x: x + 1, compiler_options=options)(1.0)
    except jax.errors.JaxRuntimeError:  # another version of XLA may have other options
        return None
    return options


QUICK = _quick()
