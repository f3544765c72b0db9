"""The family of estimators in plain NumPy, to be read beside the papers they come from; a companion of `reference`.

Nothing of the package is used here. Nothing is carried on that can be looked up: a round has all its iterates and all
its batches, and every direction is written with the indices of its paper. Tables of gradients are dictionaries. Every
vector in parameter space is one flat float64 array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

import reference
from reference import Options, Transition

Vector = np.ndarray


class Given(NamedTuple):
    """What one outer iteration is made on."""

    data: Sequence[Transition]  # D
    picks: Sequence[Sequence[int]] = ()
    coins: Sequence[float] = ()
    beyond: Sequence[Transition] = ()  # rows of the replay beyond D
    made_at: Sequence[int] = ()  # the step that made each row of D
    written: int = 0  # steps made so far
    progress: float = 0.0


class Made(NamedTuple):
    """What happened: Δ_0 … Δ_M and θ_0 … θ_{M+1}; per batch Δ, and θ before and after the step."""

    delta: list[Vector]
    theta: list[Vector]
    queries: int  # gradients that the algorithm asks for


@dataclass
class Round:
    """A round with one estimator, whose outer iterations are made one after the other."""

    name: str
    o: Options
    start: Vector
    numbers: dict[str, float] = field(default_factory=dict)
    adam_steps: bool = False
    adam_process: bool = False
    capacity: int = 10**9

    def __post_init__(self) -> None:
        self.thetas = [self.start]  # at the start of every outer iteration, and now
        self.directions: list[Vector] = []  # of every outer iteration: those that are carried across batches
        self.stored: dict[int, Vector] = {}  # gradients, by the step that made their transition
        self.point, self.anchor = self.start, np.zeros_like(self.start)  # of a window
        self.target = self.start
        self.moments = np.zeros_like(self.start), np.zeros_like(self.start), 0

    def outer_iteration(self, given: Given) -> Made:
        """One of them."""
        iteration = _Iteration(self, given)
        made = iteration.per_batch() if self.name in ACROSS_BATCHES else iteration.within()
        result = made.theta[-1]
        if self.adam_process:
            result = result - self.o.alpha * self.adam(made.delta[-1])
        self.thetas.append(result)
        if self.o.target == "hard" and (len(self.thetas) - 1) % self.o.target_period == 0:
            self.target = result
        return made

    def adam(self, direction: Vector) -> Vector:
        """Adam's direction."""
        m, v, s = self.moments
        step, m, v = reference.adam(self.o, reference.clip(self.o, direction), m, v, s + 1)
        self.moments = m, v, s + 1
        return step

    def step(self, theta: Vector, direction: Vector) -> Vector:
        """One step along a direction."""
        if self.adam_steps:
            return theta - self.o.alpha * self.adam(direction)
        return theta - self.o.eta * reference.clip(self.o, direction)


class _Iteration:
    """One outer iteration, and the gradients in it."""

    def __init__(self, round_: Round, given: Given) -> None:
        self.round, self.given, self.o = round_, given, round_.o
        self.n = round_.numbers
        self.c = round_.o.coefficient
        self.s = len(round_.thetas) - 1  # from 0
        self.queries = 0

    def one(self, at: Vector, x: Transition) -> Vector:
        """g(θ; x) of one transition."""
        behind = {"current": at, "outer": self.round.thetas[-1], "hard": self.round.target}[self.o.target]
        self.queries += 1
        return reference.gradient(self.o, at, x, reference.bellman_target(self.o, behind, x))

    def g(self, at: Vector, rows: Sequence[int]) -> Vector:
        """The mean over rows of D."""
        return self.mean(at, [self.given.data[i] for i in rows])

    def mean(self, at: Vector, data: Sequence[Transition]) -> Vector:
        return np.mean([self.one(at, x) for x in data], axis=0)

    def full(self, at: Vector) -> Vector:
        """∇F_D(θ)."""
        return self.mean(at, self.given.data)

    # Within D

    def within(self) -> Made:
        """A step along Δ_0, then M along the estimator's."""
        theta = [self.round.thetas[-1]]
        table = [self.one(theta[0], x) for x in self.given.data]  # every row's gradient at θ_0
        delta = [np.mean(table, axis=0)]
        theta.append(self.round.step(theta[0], delta[0]))
        anchor = theta[0], delta[0]  # of the loopless: θ_ref, and the full gradient there
        for m, rows in enumerate(self.given.picks, start=1):
            if self.round.name == "sarah_plus" and delta[-1] @ delta[-1] <= self.n["shortest"] * (delta[0] @ delta[0]):
                break  # the while loop of the paper's Algorithm 2
            coin = self.given.coins[m - 1] if self.given.coins else 1.0
            if self.round.name in ("sag", "saga"):
                delta.append(self.tabled(theta[m], rows, table))
            elif self.round.name == "loopless_svrg":
                delta.append(self.g(theta[m], rows) - self.c * (self.g(anchor[0], rows) - anchor[1]))
                if coin < self.n["refresh"]:
                    anchor = theta[m], self.full(theta[m])
            elif self.round.name == "loopless_sarah" and coin < self.n["refresh"]:
                delta.append(self.full(theta[m]))
            else:
                g = self.g(theta[m], rows)
                delta.append(WITHIN[self.round.name](self, g, m, theta, delta))
            theta.append(self.round.step(theta[m], delta[m]))
        return Made(delta, theta, self.queries)

    def tabled(self, at: Vector, rows: Sequence[int], table: list[Vector]) -> Vector:
        """SAG's direction, or SAGA's; the table is changed."""
        new = [self.one(at, self.given.data[i]) for i in rows]
        old, average = [table[i] for i in rows], np.mean(table, axis=0)
        for i, gradient in zip(rows, new, strict=True):
            table[i] = gradient
        if self.round.name == "sag":
            return np.mean(table, axis=0)
        return np.mean(new, axis=0) - self.c * (np.mean(old, axis=0) - average)

    # From batch to batch

    def per_batch(self) -> Made:
        """One step."""
        theta = self.round.thetas[-1]
        direction = ACROSS_BATCHES[self.round.name](self, theta)
        return Made([direction], [theta, self.round.step(theta, direction)], self.queries)

    @property
    def copied(self) -> bool:
        """Whether a hard target network is new."""
        return self.s % self.o.target_period == 0 if self.o.target == "hard" else self.s == 0


def _recursive(x: _Iteration, g: Vector, m: int, theta: list[Vector], delta: list[Vector]) -> Vector:
    return g - x.c * (x.g(theta[m - 1], x.given.picks[m - 1]) - delta[m - 1])


def _alpha_svrg(x: _Iteration, g: Vector, m: int, theta: list[Vector], delta: list[Vector]) -> Vector:
    alpha = (1 - x.given.progress) * x.n["svrg_start"] + x.given.progress * x.n["svrg_end"]
    return g - alpha * (x.g(theta[0], x.given.picks[m - 1]) - delta[0])


def _storm_inner(x: _Iteration, g: Vector, m: int, theta: list[Vector], delta: list[Vector]) -> Vector:
    return g + (1 - x.n["a"]) * (delta[m - 1] - x.g(theta[m - 1], x.given.picks[m - 1]))


WITHIN: dict[str, Callable[..., Vector]] = {
    "sarah_plus": _recursive,
    "loopless_sarah": _recursive,
    "alpha_svrg": _alpha_svrg,
    "storm_inner": _storm_inner,
}


def _storm(x: _Iteration, theta: Vector) -> Vector:
    g, before = x.full(theta), x.round.thetas[-2:][0]
    old = x.full(before)
    if x.s == 0 or (x.copied and x.n["reset"] == 1):
        x.round.directions.append(g)
    else:
        x.round.directions.append(g + (1 - x.n["a"]) * (x.round.directions[-1] - old))
    return x.round.directions[-1]


def _shortened(direction: Vector, longest: float) -> Vector:
    length = math.sqrt(direction @ direction)
    return direction * (longest / length) if length > longest else direction


def _mars(x: _Iteration, theta: Vector) -> Vector:
    g, before = x.full(theta), x.round.thetas[-2:][0]
    return _shortened(g + x.n["weight"] * (g - x.full(before)), x.n["longest"])


def _renewed(x: _Iteration, theta: Vector, due: bool) -> Vector:
    if due:
        x.round.directions.append(x.mean(theta, x.given.beyond))
    else:
        before, change = x.round.directions[-1], x.c * x.full(x.round.thetas[-2])
        x.round.directions.append(x.full(theta) - change + x.c * before)
    return x.round.directions[-1]


def _page(x: _Iteration, theta: Vector) -> Vector:
    return _renewed(x, theta, x.s == 0 or x.given.coins[0] < x.n["refresh"])


def _spider(x: _Iteration, theta: Vector) -> Vector:
    return _shortened(_renewed(x, theta, x.s % int(x.n["every"]) == 0), x.n["radius"])


def _window_svrg(x: _Iteration, theta: Vector) -> Vector:
    if x.copied:
        x.round.point, x.round.anchor = theta, x.mean(theta, x.given.beyond)
    return x.full(theta) - x.c * (x.full(x.round.point) - x.round.anchor)


def _stored(x: _Iteration, theta: Vector) -> Vector:
    """SAG and SAGA over the replay: a gradient of every transition that can be drawn, by the step that made it."""
    for step in [step for step in x.round.stored if step <= x.given.written - x.round.capacity]:
        del x.round.stored[step]
    stored = dict(x.round.stored)
    new = [x.one(theta, row) for row in x.given.data]
    x.round.stored.update(zip(x.given.made_at, new, strict=True))
    if x.round.name == "sag_replay":
        return np.mean(list(x.round.stored.values()), axis=0)
    average = np.mean(list(stored.values()), axis=0) if stored else 0.0
    corrections = [stored[step] - average if step in stored else 0.0 for step in x.given.made_at]
    return np.mean([g - x.c * correction for g, correction in zip(new, corrections, strict=True)], axis=0)


ACROSS_BATCHES: dict[str, Callable[[_Iteration, Vector], Vector]] = {
    "storm": _storm,
    "mars": _mars,
    "page": _page,
    "spider": _spider,
    "window_svrg": _window_svrg,
    "saga_replay": _stored,
    "sag_replay": _stored,
}
