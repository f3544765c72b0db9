"""Algorithm 1 and its companions in plain NumPy, to be read beside the paper line by line. It is slow and meant to be.

Nothing of the package is used here: the mathematics is the paper's, and where the paper is silent or contradicts
itself, that of the numbered rows of the readings. Every vector in parameter space (θ, Δ, g, m, v) is one flat float64
array in which W_1, b_1, W_2, b_2, … follow each other, each W with its inputs first.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Options:
    """What can be chosen, under the names that users know, with the `corrected` readings as defaults."""

    sizes: tuple[int, ...]
    activation: str = "relu"
    gamma: float = 0.9
    target: str = "current"
    target_period: int = 100
    target_networks: int = 1
    target_tau: float = 0.005
    bootstrap: str = "max"
    munchausen_share: float = 0.9
    munchausen_temperature: float = 0.03
    munchausen_floor: float = -1.0
    reward_alpha: float = 1e-3
    mask_terminal: bool = True
    loss: str = "squared"
    huber_delta: float = 1.0
    inner_iterations: int = 16
    coefficient: float = 1.0
    anchor_step: bool = True
    eta: float = 1e-2
    alpha: float = 1e-3
    weight_decay: float | None = None
    beta1: float = 0.9
    beta2: float = 0.999
    adam_epsilon: float = 1e-8
    adam_at_copy: str = "keep"
    adam_input: str = "delta"
    adam_from: str = "last"
    adam_denominator: str = "elementwise"
    clip_norm: float | None = None
    schedule: str = "constant"
    schedule_end: float = 0.0


# The rows marked "p": 3, 6, 7 and 8.
PRINTED = dict(mask_terminal=False, adam_input="gradient", adam_from="previous", adam_denominator="norm")


class Algorithm(NamedTuple):
    """Where an algorithm departs from Algorithm 1."""

    direction: str | None = "srg"  # lines 10 to 13; None: there are no inner iterations
    adam_process: bool = False  # lines 16 to 21
    adam_steps: bool = False  # lines 6 and 14 are Adam's steps
    long_step: bool = False  # line 6 steps (M + 1) η


ALGORITHMS = {
    "srg-dqn": Algorithm("srg", adam_process=True),
    "srg-dqn-no-adam": Algorithm("srg"),
    "svr-dqn": Algorithm("svrg", adam_process=True),
    "svr-dqn-no-adam": Algorithm("svrg"),
    "sgd-inner": Algorithm("sgd"),
    "sgd-inner-adam": Algorithm("sgd", adam_process=True),
    "dqn-sgd": Algorithm(None),
    "dqn-sgd-17eta": Algorithm(None, long_step=True),
    "dqn-sgd-queries": Algorithm(None),  # the batch it is given is larger, nothing else
    "dqn-gd": Algorithm("full"),
    "dqn-gd-adam": Algorithm("full", adam_process=True),
    "dqn-adam": Algorithm(None, adam_steps=True),
    "dqn-adam-repeated": Algorithm("full", adam_steps=True),
    "srg-adam-steps": Algorithm("srg", adam_steps=True),
    "svr-adam-steps": Algorithm("svrg", adam_steps=True),
    "sgd-adam-steps": Algorithm("sgd", adam_steps=True),
    "sgd-adam-steps-b2": Algorithm("sgd", adam_steps=True),  # its picks are pairs, nothing else
}


class Transition(NamedTuple):
    """(S, A, R, S'), whether S' is terminal, and the steps from S to it, whose discounted rewards are R."""

    s: np.ndarray
    a: int
    r: float
    s_next: np.ndarray
    terminal: bool
    steps: int = 1


class State(NamedTuple):
    """What one outer iteration leaves to the next."""

    theta: np.ndarray
    first: np.ndarray
    second: np.ndarray
    adam_count: int
    target: np.ndarray | None  # with K > 1 one copy in each row, the newest first
    iterations: int


class Record(NamedTuple):
    """What happened within one outer iteration."""

    delta: list[np.ndarray]  # Δ_0 … Δ_M
    theta: list[np.ndarray]  # θ_0 … θ_{M+1}, before the Adam process
    raw: np.ndarray  # g_M
    loss: float  # on D at θ_0
    max_q: float  # on D at θ_0
    queries: int


# The network


def unpack(theta: np.ndarray, sizes: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    layers, start = [], 0
    for inputs, outputs in itertools.pairwise(sizes):
        weight = theta[start : start + inputs * outputs].reshape(inputs, outputs)
        start += inputs * outputs
        layers.append((weight, theta[start : start + outputs]))
        start += outputs
    return layers


def activate(o: Options, z: np.ndarray) -> np.ndarray:
    if o.activation == "relu":
        return np.where(z > 0, z, 0.0)
    if o.activation == "tanh":
        return np.tanh(z)
    return np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0.0)  # softplus without overflow


def activation_slope(o: Options, z: np.ndarray) -> np.ndarray:
    if o.activation == "relu":
        return np.where(z > 0, 1.0, 0.0)
    if o.activation == "tanh":
        return 1 / np.cosh(z) ** 2
    return 1 / (1 + np.exp(-z))


def forward(o: Options, theta: np.ndarray, s: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The input of every layer, and its output before the activation; the last layer's output is Q(s, ·)."""
    layers = unpack(theta, o.sizes)
    inputs, outputs = [s], []
    for number, (weight, bias) in enumerate(layers, start=1):
        outputs.append(inputs[-1] @ weight + bias)
        if number < len(layers):
            inputs.append(activate(o, outputs[-1]))
    return inputs, outputs


def q_values(o: Options, theta: np.ndarray, s: np.ndarray) -> np.ndarray:
    return forward(o, theta, s)[1][-1]


def mean_q_values(o: Options, thetas: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Of one θ, or the mean over several, one in each row."""
    rows = [q_values(o, theta, s) for theta in np.atleast_2d(thetas)]
    return sum(rows) / len(rows)


# One transition


def bellman_target(o: Options, theta: np.ndarray, x: Transition, online: np.ndarray | None = None) -> float:
    """y = R + γ max_a' Q(S', a'; θ); a terminal S' has no future unless masking is off (row 3). Double DQN's action is
    the best by `online`, which is θ_0. Of several θ, one in each row, Q is the mean.
    """
    if o.bootstrap == "munchausen":
        return munchausen_target(o, theta, x)
    if x.terminal and o.mask_terminal:
        return x.r
    values = mean_q_values(o, theta, x.s_next)
    chooser = q_values(o, online, x.s_next) if online is not None and o.bootstrap == "double" else values
    action = max(range(o.sizes[-1]), key=lambda a: chooser[a])
    return x.r + o.gamma**x.steps * values[action]


def munchausen_target(o: Options, theta: np.ndarray, x: Transition) -> float:
    """Equation 2 of Vieillard et al. (2020), term by term, with the clipped log-policy of their appendix."""
    tau = o.munchausen_temperature

    def policy(q: np.ndarray) -> np.ndarray:
        raised = np.exp((q - q.mean()) / tau)
        return raised / raised.sum()

    here, there = mean_q_values(o, theta, x.s), mean_q_values(o, theta, x.s_next)
    log_policy = max(tau * math.log(policy(here)[x.a]), o.munchausen_floor)
    future = sum(p * (q - tau * math.log(p)) for p, q in zip(policy(there), there, strict=True))
    gamma = 0.0 if x.terminal and o.mask_terminal else o.gamma**x.steps
    return x.r + o.munchausen_share * log_policy + gamma * future


def loss(o: Options, theta: np.ndarray, x: Transition, y: float) -> float:
    """(y - Q)², which Huber's loss follows up to δ and leaves along the tangent (row 2)."""
    error = abs(y - q_values(o, theta, x.s)[x.a])
    if o.loss == "huber" and error > o.huber_delta:
        return o.huber_delta**2 + 2 * o.huber_delta * (error - o.huber_delta)
    return error**2


def gradient(o: Options, theta: np.ndarray, x: Transition, y: float) -> np.ndarray:
    """∇_θ of the loss with y held constant, which is -2(y - Q)∇Q (row 1), by backpropagation through one transition."""
    inputs, outputs = forward(o, theta, x.s)
    twice_error = 2 * (y - outputs[-1][x.a])
    if o.loss == "huber":
        twice_error = min(max(twice_error, -2 * o.huber_delta), 2 * o.huber_delta)

    back = np.zeros(o.sizes[-1])  # the derivative of the loss with respect to the present layer's output
    back[x.a] = -twice_error
    pieces: list[np.ndarray] = []
    layers = unpack(theta, o.sizes)
    for number in reversed(range(len(layers))):
        by_weight = np.zeros_like(layers[number][0])
        for i, value in enumerate(inputs[number]):
            by_weight[i, :] = value * back
        pieces = [by_weight.ravel(), back, *pieces]
        if number > 0:
            back = (layers[number][0] @ back) * activation_slope(o, outputs[number - 1])
    return np.concatenate(pieces)


# What is done with a direction


def clip(o: Options, direction: np.ndarray) -> np.ndarray:
    length = math.sqrt(sum(value**2 for value in direction))
    return direction if o.clip_norm is None or length <= o.clip_norm else direction * (o.clip_norm / length)


def schedule(o: Options, progress: float) -> float:
    """The share of η and α in use: from 1 at the start to `schedule_end` when the budget is spent."""
    if o.schedule == "linear":
        return 1 - (1 - o.schedule_end) * progress
    if o.schedule == "cosine":
        return o.schedule_end + (1 - o.schedule_end) * (1 + math.cos(math.pi * progress)) / 2
    return 1.0


def adam(o: Options, g: np.ndarray, m: np.ndarray, v: np.ndarray, s: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lines 17 to 21 for the s-th time: what α multiplies, and the new moments."""
    m = o.beta1 * m + (1 - o.beta1) * g  # line 17
    v = o.beta2 * v + (1 - o.beta2) * g * g  # line 18
    m_hat = m / (1 - o.beta1**s)  # line 19
    v_hat = v / (1 - o.beta2**s)  # line 20
    size = v_hat if o.adam_denominator == "elementwise" else math.sqrt(sum(v_hat**2))  # row 8
    return m_hat / (np.sqrt(size) + o.adam_epsilon), m, v  # line 21


def after_copy(o: Options, m: np.ndarray, v: np.ndarray, s: int) -> tuple[np.ndarray, np.ndarray, int]:
    """What a hard target network's copy leaves of Adam."""
    if o.adam_at_copy == "reset":
        return np.zeros_like(m), np.zeros_like(v), 0
    return m, v, 0 if o.adam_at_copy == "restart-clock" else s


# Algorithm 1


def init(o: Options, theta: np.ndarray) -> State:
    zero = np.zeros_like(theta)
    target = theta if o.target_networks == 1 else np.array([theta] * o.target_networks)
    return State(theta, zero, zero, 0, target if o.target in ("hard", "polyak") else None, 0)


def copy(o: Options, target: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """A hard target network once θ is copied."""
    return theta if o.target_networks == 1 else np.array([theta, *target][: o.target_networks])


def outer_iteration(
    name: str,
    o: Options,
    state: State,
    data: list[Transition],
    picks: list[list[int]],
    anchor: np.ndarray | None = None,
    progress: float = 0.0,
) -> tuple[State, Record]:
    """Lines 3 to 21. `data` is D; `picks[m - 1]` are the rows of D that inner iteration m uses."""
    algorithm = ALGORITHMS[name]
    eta, alpha = schedule(o, progress) * o.eta, schedule(o, progress) * o.alpha
    first, second, adam_count = state.first, state.second, state.adam_count
    if o.target == "hard" and state.iterations % o.target_period == 0:  # copied since the last outer iteration
        first, second, adam_count = after_copy(o, first, second, adam_count)
    queries = 0

    # θ_m is theta[m] and Δ_m is delta[m].
    theta, delta = [state.theta], []  # line 3

    def y(at: np.ndarray, x: Transition) -> float:
        behind = {"current": at, "outer": theta[0], "hard": state.target, "polyak": state.target}[o.target]  # row 2
        return bellman_target(o, behind, x, theta[0])

    def g(at: np.ndarray, rows: list[int]) -> np.ndarray:
        nonlocal queries
        total = np.zeros_like(at)
        for i in rows:
            total = total + gradient(o, at, data[i], y(at, data[i]))
            queries += 1
        return total / len(rows)

    def step(at: np.ndarray, direction: np.ndarray, size: float) -> np.ndarray:
        nonlocal first, second, adam_count
        if algorithm.adam_steps:
            adam_count += 1
            direction, first, second = adam(o, clip(o, direction), first, second, adam_count)
            return at - alpha * (direction + (o.weight_decay or 0.0) * at)
        return at - size * clip(o, direction)

    everything = list(range(len(data)))
    delta.append(g(theta[0], everything) if anchor is None else anchor)  # line 5
    if algorithm.direction not in ("srg", "svrg", None) and o.inner_iterations and not o.anchor_step:
        queries = 0  # nobody uses Δ_0
    raw = delta[0]  # row 6: what g_M is if M = 0
    if o.anchor_step:
        theta.append(step(theta[0], delta[0], (o.inner_iterations + 1) * eta if algorithm.long_step else eta))  # line 6
    else:
        theta.append(theta[0])  # row 26: M steps from θ_0

    for m in range(1, 1 + (0 if algorithm.direction is None else o.inner_iterations)):  # line 7
        rows = picks[m - 1]  # line 8
        if algorithm.direction == "full":
            raw = g(theta[m], everything)
            delta.append(raw)
        else:
            raw = g(theta[m], rows)  # lines 9 and 10
            if algorithm.direction == "srg":
                earlier = g(theta[m - 1], rows)  # lines 11 and 12
                delta.append(raw - o.coefficient * (earlier - delta[m - 1]))  # line 13
            elif algorithm.direction == "svrg":
                earlier = g(theta[0], rows)
                delta.append(raw - o.coefficient * (earlier - delta[0]))
            else:
                delta.append(raw)
        theta.append(step(theta[m], delta[m], eta))  # line 14

    last = len(delta) - 1  # M
    result = theta[last + 1]
    if algorithm.adam_process:
        enters = clip(o, delta[last] if o.adam_input == "delta" else raw)  # line 16 and row 6
        adam_count += 1
        direction, first, second = adam(o, enters, first, second, adam_count)
        start = theta[last + 1] if o.adam_from == "last" else theta[last]  # row 7
        result = start - alpha * (direction + (o.weight_decay or 0.0) * start)  # line 21

    iterations = state.iterations + 1
    target = state.target
    if o.target == "hard" and iterations % o.target_period == 0:
        target = copy(o, target, result)
    elif o.target == "polyak":
        target = (1 - o.target_tau) * state.target + o.target_tau * result

    losses = [loss(o, theta[0], x, y(theta[0], x)) for x in data]
    best = [max(q_values(o, theta[0], x.s)) for x in data]
    record = Record(delta, theta, raw, sum(losses) / len(data), sum(best) / len(data), queries)
    return State(result, first, second, adam_count, target, iterations), record


# Reward estimation


class Rewards(NamedTuple):
    """R̂'s parameters, and its Adam."""

    psi: np.ndarray
    first: np.ndarray
    second: np.ndarray
    count: int


def fit_rewards(
    o: Options, before: Rewards, data: list[Transition], weights: list[float] | np.ndarray | None = None
) -> Rewards:
    """One step of least squares on D: R̂ is a Q-network without a future."""
    alone, each = replace(o, loss="squared"), [1.0] * len(data) if weights is None else weights
    total = np.zeros_like(before.psi)
    for weight, x in zip(each, data, strict=True):
        total = total + weight * gradient(alone, before.psi, x, x.r)
    direction, first, second = adam(o, total / len(data), before.first, before.second, before.count + 1)
    return Rewards(before.psi - o.reward_alpha * direction, first, second, before.count + 1)


def with_estimates(o: Options, rewards: Rewards, data: list[Transition]) -> list[Transition]:
    """Every R is R̂(S, A)."""
    return [x._replace(r=float(q_values(o, rewards.psi, x.s)[x.a])) for x in data]


def smallest_preactivation(o: Options, thetas: list[np.ndarray], data: list[Transition]) -> float:
    """How near any hidden unit comes to the kink of a relu, where its slope (and so the gradient) jumps."""
    return min(float(np.min(np.abs(z))) for theta in thetas for x in data for z in forward(o, theta, x.s)[1][:-1])


def random_problem(
    seed: int, sizes: tuple[int, ...], rows: int, inner_iterations: int, inner_batch: int = 1, spread: float = 1.0
) -> tuple[np.ndarray, list[Transition], list[list[int]]]:
    """θ, a batch D of that many rows, and picks with replacement."""
    rng = np.random.default_rng(seed)
    count = sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise(sizes))
    theta = rng.normal(0, 0.5, count)
    data = [
        Transition(
            rng.normal(0, spread, sizes[0]),
            int(rng.integers(sizes[-1])),
            float(rng.normal(0, spread)),
            rng.normal(0, spread, sizes[0]),
            bool(rng.random() < 0.3),
        )
        for _ in range(rows)
    ]
    picks = rng.integers(rows, size=(inner_iterations, inner_batch)).tolist()
    return theta, data, picks
