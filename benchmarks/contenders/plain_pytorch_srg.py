"""SRG-DQN written the obvious way in PyTorch: what most people would write first.

The paper's shaped task stepped on the host, the full gradient by one backward pass and two autograd calls per inner
iteration. Nothing is done to slow it down: one thread per process (more slow networks this small down), tensors made
once per batch, no logging.
"""

from __future__ import annotations

import itertools
import random

import gymnasium
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

import srgdqn.environments  # noqa: F401  (registers the paper's shaped tasks)
from job.clocks import Tick, measure_rounds
from job.python_loop import Learner, sizes_of, train_in_python
from job.settings import BATCH, GRADIENT_STEP_SIZE, STEP_SIZE, Job, Transitions, read_job
from srgdqn.config.presets import preset

INNER, BETA_1, BETA_2, ADAM_EPSILON = 16, 0.9, 0.999, 1e-8

Parameters = list[torch.Tensor]  # weight, bias, weight, bias, …


def make_parameters(sizes: tuple[int, ...]) -> Parameters:
    layers = [torch.nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(sizes)]
    return [parameter for layer in layers for parameter in layer.parameters()]


def q_values(parameters: Parameters, x: torch.Tensor) -> torch.Tensor:
    for index in range(0, len(parameters), 2):
        x = F.linear(x, parameters[index], parameters[index + 1])
        if index < len(parameters) - 2:
            x = F.relu(x)
    return x


def gradient(parameters: Parameters, batch: Transitions, gamma: float) -> Parameters:
    with torch.no_grad():
        y = batch.reward + gamma * (1 - batch.terminated) * q_values(parameters, batch.next_observation).max(1).values
    q = q_values(parameters, batch.observation).gather(1, batch.action[:, None])[:, 0]
    return list(torch.autograd.grad(((y - q) ** 2).mean(), parameters))


def step(parameters: Parameters, delta: Parameters) -> Parameters:
    return [(p.detach() - GRADIENT_STEP_SIZE * d).requires_grad_() for p, d in zip(parameters, delta, strict=True)]


def make_learner(task: str, sizes: tuple[int, ...]) -> Learner:
    gamma = preset(task)["gamma"]
    theta = make_parameters(sizes)
    iterations = 0
    first_moments: Parameters = [torch.zeros_like(p) for p in theta]
    second_moments: Parameters = [torch.zeros_like(p) for p in theta]

    def act(observation: np.ndarray) -> int:
        with torch.no_grad():
            return int(q_values(theta, torch.from_numpy(observation)).argmax())

    def outer_iteration(batch: Transitions, made: int) -> None:
        """Algorithm 1, lines 3 to 21."""
        nonlocal theta, iterations
        batch = Transitions(*map(torch.from_numpy, batch))
        delta = gradient(theta, batch, gamma)
        previous, theta = theta, step(theta, delta)
        for _ in range(INNER):
            pick = random.randrange(BATCH)
            sample = Transitions(*(column[pick : pick + 1] for column in batch))
            present = gradient(theta, sample, gamma)
            reference = gradient(previous, sample, gamma)
            delta = [g - r + d for g, r, d in zip(present, reference, delta, strict=True)]
            previous, theta = theta, step(theta, delta)
        iterations += 1
        result = []
        for index, parameter in enumerate(theta):
            first = BETA_1 * first_moments[index] + (1 - BETA_1) * delta[index]
            second = BETA_2 * second_moments[index] + (1 - BETA_2) * delta[index] ** 2
            first_moments[index], second_moments[index] = first, second
            first_hat = first / (1 - BETA_1**iterations)
            second_hat = second / (1 - BETA_2**iterations)
            moved = parameter.detach() - STEP_SIZE * first_hat / (second_hat.sqrt() + ADAM_EPSILON)
            result.append(moved.requires_grad_())
        theta = result

    return Learner(act, outer_iteration)


def train_round(job: Job, seed: int, tick: Tick) -> int:
    torch.manual_seed(seed)
    environment = gymnasium.make(f"srgdqn/{job.task}-v0")
    return train_in_python(environment, job, seed, make_learner(job.task, sizes_of(environment, job.hidden)), tick)


if __name__ == "__main__":
    asked = read_job(__doc__)
    torch.set_num_threads(1)
    measure_rounds(asked, lambda seed, tick: train_round(asked, seed, tick))
