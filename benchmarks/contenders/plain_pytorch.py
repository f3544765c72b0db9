"""DQN in PyTorch in the style of single-file implementations: a loop in Python, autograd and torch's Adam."""

from __future__ import annotations

import copy
import itertools

import gymnasium
import torch
import torch.nn.functional as F  # noqa: N812

from job.clocks import Tick, measure_rounds
from job.python_loop import Learner, sizes_of, train_in_python
from job.settings import GAMMA, STEP_SIZE, TARGET_EVERY, Job, Transitions, read_job


def make_network(sizes: tuple[int, ...]) -> torch.nn.Sequential:
    layers = [torch.nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(sizes)]
    *hidden, last = layers
    return torch.nn.Sequential(*(module for layer in hidden for module in (layer, torch.nn.ReLU())), last)


def make_learner(sizes: tuple[int, ...]) -> Learner:
    network = make_network(sizes)
    target = copy.deepcopy(network)
    optimiser = torch.optim.Adam(network.parameters(), lr=STEP_SIZE)

    def act(observation: torch.Tensor) -> int:
        with torch.no_grad():
            return int(network(torch.from_numpy(observation)).argmax())

    def update(batch: Transitions, made: int) -> None:
        batch = Transitions(*map(torch.from_numpy, batch))
        with torch.no_grad():
            y = batch.reward + GAMMA * (1 - batch.terminated) * target(batch.next_observation).max(1).values
        q = network(batch.observation).gather(1, batch.action[:, None])[:, 0]
        optimiser.zero_grad()
        F.mse_loss(q, y).backward()
        optimiser.step()
        if made % TARGET_EVERY == 0:
            target.load_state_dict(network.state_dict())

    return Learner(act, update)


def train_round(job: Job, seed: int, tick: Tick) -> int:
    torch.manual_seed(seed)
    environment = gymnasium.make(job.gymnasium_id)
    return train_in_python(environment, job, seed, make_learner(sizes_of(environment, job.hidden)), tick)


if __name__ == "__main__":
    asked = read_job(__doc__)
    torch.set_num_threads(1)  # more slow networks this small down
    measure_rounds(asked, lambda seed, tick: train_round(asked, seed, tick))
