"""One whole round of SRG-DQN on MountainCar in plain NumPy and double precision, to be read from top to bottom.

Nothing of the package is used here. The car is that of Gymnasium's documentation, the algorithm that of the paper, and
where the paper is silent or contradicts itself a numbered row of the `corrected` readings decides. Nothing is random
here either: whoever calls `run_round` passes the random numbers, and what each of them decides is said in `Chance`.

The functions are small so that a test can put a wrong one in the place of a right one, and see whether it notices.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Settings:
    """The paper's Table 1 for MountainCar, and what the readings add to it; only the budget must be given."""

    steps: int
    epsilon_start: float = 0.1
    epsilon_end: float = 0.001
    gamma: float = 0.9
    capacity: int = 3_000  # row 13
    learning_starts: int = 1_000  # row 13
    learning_frequency: int = 16  # row 10
    inner_iterations: int = 16
    eta: float = 1e-2
    alpha: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    adam_epsilon: float = 1e-8  # row 9


class Chance(NamedTuple):
    """All random numbers of a round: T steps with an outer iteration (or not yet) after every 16th."""

    theta: np.ndarray  # the initial parameters, flat: W_1, b_1, W_2, b_2, each W with its inputs first
    start: float  # where the car stands at first
    explore: np.ndarray  # (T,) in [0, 1): a random action is taken where this is below ε …
    random_action: np.ndarray  # (T,) … namely this one
    next_start: np.ndarray  # (T,) where the car is put if step t ended its episode
    batch: np.ndarray  # (T / 16, N) words w: the transition that is w mod (how many are remembered) before the newest
    picks: np.ndarray  # (T / 16, M) words w: row w mod N of D


State = tuple[float, float]
"""The car's position and speed, which are also what is observed."""


class Transition(NamedTuple):
    """(S, A, R, S'), and whether S' is terminal."""

    s: State
    a: int
    r: float
    s_next: State
    terminal: bool


class Rows(NamedTuple):
    """Several transitions, each field with one row per transition."""

    s: np.ndarray
    a: np.ndarray
    r: np.ndarray
    s_next: np.ndarray
    terminal: np.ndarray


class Learner(NamedTuple):
    """What one outer iteration leaves to the next."""

    theta: np.ndarray
    m: np.ndarray  # Adam's moments
    v: np.ndarray
    s: int  # outer iterations made


class Iteration(NamedTuple):
    """What is logged of an outer iteration."""

    step: int  # environment steps made before it
    theta: np.ndarray  # after it
    loss: float  # on D at θ_0
    max_q: float  # on D at θ_0, the mean of max_a Q(S, a)
    delta_norm: float  # ‖Δ_M‖
    theta_norm: float  # after it


class Round(NamedTuple):
    """What happened, step by step and outer iteration by outer iteration."""

    transitions: list[Transition]
    iterations: list[Iteration]


# MountainCar


def move(position: float, speed: float, action: int) -> State:
    """One step of Gymnasium's MountainCar-v0: push left (0), not at all (1) or right (2)."""
    speed += (action - 1) * 0.001 - 0.0025 * math.cos(3 * position)
    speed = min(max(speed, -0.07), 0.07)
    position += speed
    position = min(max(position, -1.2), 0.6)
    if position == -1.2 and speed < 0:  # an inelastic wall
        speed = 0.0
    return position, speed


def at_the_flag(position: float, speed: float) -> bool:
    return position >= 0.5 and speed >= 0


def height(position: float) -> float:
    """The reward (row 17)."""
    return 0.45 * math.sin(3 * position) + 0.55


# The network: 2 inputs, 20 hidden units, 3 Q-values

INPUTS, HIDDEN, ACTIONS = 2, 20, 3


def layers(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    w_1, b_1, w_2, b_2 = theta[:40], theta[40:60], theta[60:120], theta[120:]
    return w_1.reshape(INPUTS, HIDDEN), b_1, w_2.reshape(HIDDEN, ACTIONS), b_2


def q_values(theta: np.ndarray, s: np.ndarray) -> np.ndarray:
    w_1, b_1, w_2, b_2 = layers(theta)
    return np.maximum(s @ w_1 + b_1, 0) @ w_2 + b_2


def future(theta: np.ndarray, rows: Rows) -> np.ndarray:
    """max_a' Q(S', a'; θ), of which a terminal state has none (rows 2 and 3)."""
    return np.where(rows.terminal, 0.0, q_values(theta, rows.s_next).max(axis=1))


def errors(settings: Settings, theta: np.ndarray, rows: Rows) -> np.ndarray:
    """y - Q, with y = R + γ max_a' Q(S', a'; θ)."""
    y = rows.r + settings.gamma * future(theta, rows)
    return y - q_values(theta, rows.s)[np.arange(len(rows.a)), rows.a]


def gradient(settings: Settings, theta: np.ndarray, rows: Rows) -> np.ndarray:
    """The mean of -2(y - Q)∇Q over the rows (row 1), by backpropagation."""
    w_1, b_1, w_2, _ = layers(theta)
    count = len(rows.a)
    z = rows.s @ w_1 + b_1
    by_q = np.zeros((count, ACTIONS))
    by_q[np.arange(count), rows.a] = -2 * errors(settings, theta, rows) / count
    by_z = (by_q @ w_2.T) * (z > 0)
    parts = (rows.s.T @ by_z, by_z.sum(axis=0), np.maximum(z, 0).T @ by_q, by_q.sum(axis=0))
    return np.concatenate([part.ravel() for part in parts])


# Algorithm 1


def direction(settings: Settings, theta: list[np.ndarray], delta: list[np.ndarray], row: Rows) -> np.ndarray:
    """Lines 9 to 13: Δ_m, given θ_0 … θ_m and Δ_0 … Δ_{m-1}."""
    return gradient(settings, theta[-1], row) - (gradient(settings, theta[-2], row) - delta[-1])


def adam(settings: Settings, learner: Learner, theta: np.ndarray, g: np.ndarray) -> Learner:
    """Lines 17 to 21 from θ, the denominator being taken element by element (row 8)."""
    s = learner.s + 1
    m = settings.beta1 * learner.m + (1 - settings.beta1) * g
    v = settings.beta2 * learner.v + (1 - settings.beta2) * g**2
    m_hat = m / (1 - settings.beta1**s)
    v_hat = v / (1 - settings.beta2**s)
    return Learner(theta - settings.alpha * m_hat / (np.sqrt(v_hat) + settings.adam_epsilon), m, v, s)


def outer_iteration(
    settings: Settings, learner: Learner, data: Rows, picks: list[int]
) -> tuple[Learner, list[np.ndarray], list[np.ndarray]]:
    """Lines 3 to 21 on D, with θ_0 … θ_{M+1} and Δ_0 … Δ_M."""
    theta = [learner.theta]
    delta = [gradient(settings, theta[0], data)]  # line 5
    theta.append(theta[0] - settings.eta * delta[0])  # line 6
    for i in picks:
        delta.append(direction(settings, theta, delta, Rows(*(column[i : i + 1] for column in data))))
        theta.append(theta[-1] - settings.eta * delta[-1])  # line 14
    return adam(settings, learner, theta[-1], delta[-1]), theta, delta  # Δ_M, from θ_{M+1} (rows 6 and 7)


# A round


def epsilon(settings: Settings, step: int) -> float:
    """Linear over the whole budget (row 12)."""
    return settings.epsilon_start + (settings.epsilon_end - settings.epsilon_start) * step / settings.steps


def choose(settings: Settings, chance: Chance, step: int, q: np.ndarray) -> int:
    """ε-greedy; the first of the best actions if there are several."""
    explores = chance.explore[step] < epsilon(settings, step)
    return int(chance.random_action[step]) if explores else int(q.argmax())


def interact(chance: Chance, step: int, state: State, action: int) -> tuple[Transition, State]:
    """What is remembered of a step, and where the next one starts; there is no time limit (row 20)."""
    after = move(*state, action)
    terminal = at_the_flag(*after)
    next_state = (float(chance.next_start[step]), 0.0) if terminal else after
    return Transition(state, action, height(after[0]), after, terminal), next_state


def draw(memory: Sequence[Transition], words: np.ndarray) -> Rows:
    """D: uniform from what is remembered, with replacement (row 4)."""
    return Rows(*map(np.array, zip(*(memory[-1 - int(word) % len(memory)] for word in words), strict=True)))


def is_due(settings: Settings, steps_made: int) -> bool:
    """Whether an outer iteration follows: after every 16th step, once there is enough to learn from (rows 10, 13)."""
    return steps_made >= settings.learning_starts and steps_made % settings.learning_frequency == 0


def learn(
    settings: Settings, chance: Chance, steps_made: int, learner: Learner, memory: Sequence[Transition]
) -> tuple[Learner, Iteration]:
    block = steps_made // settings.learning_frequency - 1
    data = draw(memory, chance.batch[block])
    picks = [int(word) % len(data.a) for word in chance.picks[block, : settings.inner_iterations]]
    after, theta, delta = outer_iteration(settings, learner, data, picks)
    loss = float((errors(settings, theta[0], data) ** 2).mean())
    max_q = float(q_values(theta[0], data.s).max(axis=1).mean())
    norms = float(np.linalg.norm(delta[-1])), float(np.linalg.norm(after.theta))
    return after, Iteration(steps_made, after.theta, loss, max_q, *norms)


def newcomer(theta: np.ndarray) -> Learner:
    """Adam's moments start from 0 (row 9)."""
    return Learner(theta, np.zeros_like(theta), np.zeros_like(theta), 0)


def run_round(settings: Settings, chance: Chance) -> Round:
    """One round: act, remember, and learn whenever that is due."""
    learner = newcomer(chance.theta)
    memory: deque[Transition] = deque(maxlen=settings.capacity)  # the oldest is forgotten first
    state = (chance.start, 0.0)
    history = Round([], [])
    for step in range(settings.steps):
        action = choose(settings, chance, step, q_values(learner.theta, np.array(state)))
        transition, state = interact(chance, step, state, action)
        memory.append(transition)
        history.transitions.append(transition)
        if is_due(settings, step + 1):
            learner, iteration = learn(settings, chance, step + 1, learner, memory)
            history.iterations.append(iteration)
    return history
