"""STORM (Cutkosky and Orabona 2019), carried from batch to batch, in plain NumPy: a companion of `reference`.

Nothing of the package is used here. There is one step per batch, and no pick.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import reference


class Storm(NamedTuple):
    """What can be chosen beside `reference.Options`."""

    a: float
    reset: bool
    adam_steps: bool
    adam_process: bool


class Before(NamedTuple):
    """θ and Δ of the batch before."""

    theta: np.ndarray
    delta: np.ndarray


def outer_iteration(
    storm: Storm,
    o: reference.Options,
    state: reference.State,
    before: Before,
    data: list[reference.Transition],
    progress: float = 0.0,
) -> tuple[reference.State, Before, reference.Record]:
    """One batch: Δ = g(θ) - (1 - a) (g(θ_before) - Δ_before), a step along it, and perhaps an Adam process."""
    eta, alpha = (reference.schedule(o, progress) * size for size in (o.eta, o.alpha))
    first, second, adam_count = state.first, state.second, state.adam_count
    theta = state.theta

    def y(at: np.ndarray, x: reference.Transition) -> float:
        behind = {"current": at, "outer": theta, "hard": state.target, "polyak": state.target}[o.target]
        return reference.bellman_target(o, behind, x)

    def g(at: np.ndarray) -> np.ndarray:
        return sum(reference.gradient(o, at, x, y(at, x)) for x in data) / len(data)

    def adam(at: np.ndarray, direction: np.ndarray) -> np.ndarray:
        nonlocal first, second, adam_count
        adam_count += 1
        along, first, second = reference.adam(o, reference.clip(o, direction), first, second, adam_count)
        return at - alpha * along

    synchronised = o.target == "hard" and state.iterations % o.target_period == 0
    raw = g(theta)
    if state.iterations == 0 or (storm.reset and synchronised):
        delta = raw
    else:
        delta = raw - (1 - storm.a) * (g(before.theta) - before.delta)
    stepped = adam(theta, delta) if storm.adam_steps else theta - eta * reference.clip(o, delta)
    result = stepped
    if storm.adam_process:
        result = adam(stepped if o.adam_from == "last" else theta, delta if o.adam_input == "delta" else raw)

    iterations = state.iterations + 1
    target = state.target
    if o.target == "hard" and iterations % o.target_period == 0:
        target = result
    elif o.target == "polyak":
        target = (1 - o.target_tau) * state.target + o.target_tau * result
    loss = sum(reference.loss(o, theta, x, y(theta, x)) for x in data) / len(data)
    max_q = sum(max(reference.q_values(o, theta, x.s)) for x in data) / len(data)
    after = reference.State(result, first, second, adam_count, target, iterations)
    # The gradient at θ_before passes its kinks, too.
    visited = [theta, stepped, before.theta]
    return after, Before(theta, delta), reference.Record([delta], visited, raw, loss, max_q, 2 * len(data))
