"""DQN in JAX in the style of single-file implementations: a loop in Python, a jitted action and a jitted update."""

from __future__ import annotations

import gymnasium
import jax
import numpy as np

from job.clocks import Tick, measure_rounds
from job.jax_dqn import OPTIMISER, Parameters, make_parameters, q_values, update
from job.python_loop import Learner, sizes_of, train_in_python
from job.settings import TARGET_EVERY, Job, Transitions, read_job

jitted_update = jax.jit(update)


@jax.jit
def greedy(parameters: Parameters, observation: jax.Array) -> jax.Array:
    return q_values(parameters, observation).argmax()


def make_learner(seed: int, sizes: tuple[int, ...]) -> Learner:
    parameters = target = make_parameters(jax.random.key(seed), sizes)
    moments = OPTIMISER.init(parameters)

    def act(observation: np.ndarray) -> int:
        return int(greedy(parameters, observation))

    def learn(batch: Transitions, made: int) -> None:
        nonlocal parameters, target, moments
        parameters, moments = jitted_update(parameters, target, moments, batch)
        if made % TARGET_EVERY == 0:
            target = parameters

    return Learner(act, learn)


def train_round(job: Job, seed: int, tick: Tick) -> int:
    environment = gymnasium.make(job.gymnasium_id)
    return train_in_python(environment, job, seed, make_learner(seed, sizes_of(environment, job.hidden)), tick)


if __name__ == "__main__":
    asked = read_job(__doc__)
    measure_rounds(asked, lambda seed, tick: train_round(asked, seed, tick))
