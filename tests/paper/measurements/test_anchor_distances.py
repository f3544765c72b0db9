"""The distances of anchors and estimates against the reference's outer iteration, and how they must relate."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given, settings

import reference
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.learner.networks import make_network
from srgdqn.paper.measurements.anchor_distances import ESTIMATORS, Distances, alike, anchor_distances
from translation import CLOSE, distance, mean_gradient, options_of, to_packed, to_parameters, to_transitions

pytestmark = pytest.mark.usefixtures("double")

SIZES = (3, 5, 2)
ROWS, INNER, RECORDED = 5, 3, 23
OPTIONS: dict[str, Any] = dict(hidden=SIZES[1:-1], batch_size=ROWS, inner_iterations=INNER, eta=0.05)
NAMES = {"srg": "srg-dqn-no-adam", "svrg": "svr-dqn-no-adam"}


@functools.cache
def compiled(configuration: Configuration, estimator: str) -> Any:
    network = make_network(configuration.network, SIZES[0], SIZES[-1])
    return jax.jit(
        lambda theta, batch, picks, recording: anchor_distances(
            configuration, network, theta, batch, picks, recording, estimator
        )
    )


@dataclasses.dataclass
class Case:
    """A random θ_0, D and picks, and rows that D is (or is not) among."""

    seed: int
    configuration: Configuration
    recorded: int = RECORDED

    def __post_init__(self) -> None:
        inner = self.configuration.estimator
        self.o = options_of(self.configuration, SIZES)
        self.theta, everything, picks = reference.random_problem(
            self.seed, SIZES, self.recorded, inner.inner_iterations, inner.inner_batch
        )
        self.recording = everything
        self.batch = everything[:ROWS]
        self.picks = [[row % ROWS for row in rows] for rows in picks]

    def measured(self, estimator: str) -> Distances:
        return jax.tree.map(
            np.asarray,
            compiled(self.configuration, estimator)(
                to_parameters(self.theta, SIZES, self.o.activation),
                to_transitions(self.batch),
                np.array(self.picks, np.int32),
                to_packed(self.recording),
            ),
        )

    def expected(self, estimator: str) -> Distances:
        _, record = reference.outer_iteration(
            NAMES[estimator], self.o, reference.init(self.o, self.theta), self.batch, self.picks
        )
        rows: list[list[float]] = []
        for m in range(1, INNER + 1):
            owner = m - 1 if estimator == "srg" else 0  # whose θ and Δ the anchor has
            exact = mean_gradient(self.o, record.theta[m], self.recording)
            at_anchor = mean_gradient(self.o, record.theta[owner], self.recording)
            differences = (
                record.delta[owner] - at_anchor,
                record.delta[owner] - exact,
                record.delta[m] - exact,
                mean_gradient(self.o, record.theta[m], self.batch) - exact,
                at_anchor,
                exact,
            )
            rows.append([float(np.linalg.norm(vector)) for vector in differences])
        return Distances(*(np.array(column) for column in zip(*rows, strict=True)))


def agree(case: Case, estimator: str) -> None:
    got, expected = case.measured(estimator), case.expected(estimator)
    for name in Distances._fields:
        assert getattr(got, name).shape == (INNER,)
        assert distance(getattr(got, name), getattr(expected, name)) < CLOSE, name


@pytest.mark.parametrize("estimator", ESTIMATORS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_all_six_are_the_references(estimator: str, seed: int) -> None:
    agree(Case(seed, configure("CartPole", "srg-dqn", **OPTIONS)), estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "options", [dict(inner_batch=2, coefficient=0.5, activation="tanh"), dict(mask_terminal=False, anchor_step=False)]
)
def test_they_are_those_of_the_configuration(estimator: str, options: dict[str, Any]) -> None:
    agree(Case(3, configure("CartPole", "srg-dqn", **OPTIONS, **options)), estimator)


def test_alike_changes_the_estimator_and_the_adam_process_alone() -> None:
    before = configure("MountainCar", "srg-dqn", gamma=0.7, eta=0.02)
    after = alike(before, "svrg")
    changed = {name for name, value in after.options().items() if value != before.options()[name]}
    assert changed == {"estimator", "adam_process"}
    assert (after.estimator.estimator, after.optimiser.adam_process) == ("svrg", False)
