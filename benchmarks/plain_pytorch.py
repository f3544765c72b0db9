"""SRG-DQN written the obvious way in PyTorch: what most people would write first, and what we compare with.

Gymnasium's MountainCar stepped on the host, a list as replay memory, the full gradient by one backward
pass and two autograd calls per inner iteration. Nothing is done to slow it down: one thread per process (more
threads slow networks this small), tensors made once per batch, no logging.
"""

from __future__ import annotations

import itertools
import random
import time

import gymnasium
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

import srgdqn.environments  # noqa: F401  (registers the paper's shaped task)

GAMMA, ETA, ALPHA, BETA_1, BETA_2, ADAM_EPSILON = 0.9, 1e-2, 1e-3, 0.9, 0.999, 1e-8
BATCH, INNER, FREQUENCY, CAPACITY, LEARNING_STARTS = 64, 16, 16, 3_000, 1_000


Parameters = list[torch.Tensor]  # weight, bias, weight, bias, …
Columns = tuple[torch.Tensor, ...]  # observation, action, reward, next observation, terminated


def make_parameters(hidden: tuple[int, ...]) -> Parameters:
    sizes = (2, *hidden, 3)
    layers = [torch.nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(sizes)]
    return [parameter for layer in layers for parameter in layer.parameters()]


def q_values(parameters: Parameters, x: torch.Tensor) -> torch.Tensor:
    for index in range(0, len(parameters), 2):
        x = F.linear(x, parameters[index], parameters[index + 1])
        if index < len(parameters) - 2:
            x = F.relu(x)
    return x


def gradient(parameters: Parameters, batch: Columns) -> Parameters:
    observation, action, reward, following, terminated = batch
    with torch.no_grad():
        y = reward + GAMMA * (1 - terminated) * q_values(parameters, following).max(1).values
    q = q_values(parameters, observation).gather(1, action[:, None])[:, 0]
    return list(torch.autograd.grad(((y - q) ** 2).mean(), parameters))


def step(parameters: Parameters, delta: Parameters) -> Parameters:
    return [(p.detach() - ETA * d).requires_grad_() for p, d in zip(parameters, delta, strict=True)]


def outer_iteration(theta: Parameters, moments: dict, batch: Columns) -> Parameters:
    """Algorithm 1, lines 3 to 21."""
    delta = gradient(theta, batch)
    previous, theta = theta, step(theta, delta)
    for _ in range(INNER):
        pick = random.randrange(BATCH)
        sample = tuple(column[pick : pick + 1] for column in batch)
        present = gradient(theta, sample)
        reference = gradient(previous, sample)
        delta = [g - r + d for g, r, d in zip(present, reference, delta, strict=True)]
        previous, theta = theta, step(theta, delta)
    moments["s"] += 1
    result = []
    for index, parameter in enumerate(theta):
        moments["m"][index] = BETA_1 * moments["m"][index] + (1 - BETA_1) * delta[index]
        moments["v"][index] = BETA_2 * moments["v"][index] + (1 - BETA_2) * delta[index] ** 2
        m_hat = moments["m"][index] / (1 - BETA_1 ** moments["s"])
        v_hat = moments["v"][index] / (1 - BETA_2 ** moments["s"])
        result.append((parameter.detach() - ALPHA * m_hat / (v_hat.sqrt() + ADAM_EPSILON)).requires_grad_())
    return result


def train_round(seed: int, hidden: tuple[int, ...], steps: int) -> float:
    """Trains one round; returns the seconds of its last `steps` steps, all of them with learning under way."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random.seed(seed)
    environment = gymnasium.make("srgdqn/MountainCar-v0")
    theta = make_parameters(hidden)
    moments = {"s": 0, "m": [0.0] * len(theta), "v": [0.0] * len(theta)}
    replay: list[tuple] = []
    observation, _ = environment.reset(seed=seed)
    total = LEARNING_STARTS + steps
    start = 0.0
    for now in range(total):
        if now == LEARNING_STARTS:
            start = time.perf_counter()
        epsilon = 0.1 + (0.001 - 0.1) * now / total
        if random.random() < epsilon:
            action = random.randrange(3)
        else:
            with torch.no_grad():
                action = int(q_values(theta, torch.from_numpy(observation)).argmax())
        following, reward, terminated, truncated, _ = environment.step(action)
        row = (observation, action, reward, following, terminated)
        if len(replay) < CAPACITY:
            replay.append(row)
        else:
            replay[now % CAPACITY] = row
        observation = environment.reset()[0] if terminated or truncated else following
        if (now + 1) % FREQUENCY == 0 and now + 1 >= LEARNING_STARTS:
            rows = random.choices(replay, k=BATCH)
            columns = [np.array(column) for column in zip(*rows, strict=True)]
            kinds = (np.float32, np.int64, np.float32, np.float32, np.float32)
            batch = tuple(torch.from_numpy(c.astype(k)) for c, k in zip(columns, kinds, strict=True))
            theta = outer_iteration(theta, moments, batch)
    return time.perf_counter() - start
