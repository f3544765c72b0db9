"""One round as a lane of the compiled program: a block of steps under the ε-greedy policy, then an outer iteration.

Everything here is written for a single round and mapped over lanes. Random numbers are drawn from (seed, round, block)
alone, so a round's bits depend neither on how many rounds run beside it nor on how the run is cut into segments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from srgdqn.adapters.spaces import scale_of
from srgdqn.config import Configuration, TaskSettings
from srgdqn.learner.exploration import epsilon, epsilon_greedy
from srgdqn.learner.gradients import Transitions
from srgdqn.learner.networks import Network
from srgdqn.learner.normalisation import Normaliser, init_normaliser, normalise_observation, normalise_reward, observe
from srgdqn.learner.outer_iteration import (
    LearnerState,
    Trace,
    batch_rows,
    init_learner,
    logged_columns,
    logged_numbers,
    outer_iteration,
)
from srgdqn.learner.prioritised import remember
from srgdqn.learner.replay import pack, ring_length, row_width, write
from srgdqn.learner.reward_estimation import first_estimate
from srgdqn.tasks import Task
from srgdqn.training.batches import BatchContext, BatchSource, OuterBatch, from_replay
from srgdqn.training.budget import Limits
from srgdqn.training.draws import BatchDraws, Draws, acting_key, draw_block
from srgdqn.training.interaction import Situation, Step, action_count, begin_episode, observation_size, take_step
from srgdqn.training.jax_setup import check_random_numbers

# Bits of a step's flags in the log.
STEPPED, TERMINATED, TRUNCATED = 1, 2, 4


class Lane(NamedTuple):
    """The whole state of a round."""

    key: PRNGKeyArray
    situation: Situation
    ring: Float[Array, "slots width"]
    learner: LearnerState
    normaliser: Normaliser
    episodes: Int[Array, ""]  # ended so far
    active: Bool[Array, ""]  # neither finished, nor diverged, nor a spare lane
    diverged_at: Int[Array, ""]  # environment steps when the parameters went non-finite; -1 as long as they did not


class BlockLog(NamedTuple):
    """What a block leaves behind for the host."""

    reward: Float[Array, " block"]  # unscaled
    flags: UInt8[Array, " block"]
    loss: Float[Array, ""]  # these four are NaN where the block had no outer iteration
    max_q: Float[Array, ""]
    delta_norm: Float[Array, ""]
    theta_norm: Float[Array, ""]
    logged: dict[str, Array] = {}  # noqa: RUF012  # by the estimator; NaN likewise
    probed: Any = None  # what the run's probe measured; NaN likewise, and in lanes that are not active


Probe = Callable[[LearnerState, Trace], Any]
"""From the state before an outer iteration, and its trace, to a row of arrays that is logged."""


class Instruments(NamedTuple):
    """What a study adds to the loop, which is otherwise the same."""

    source: BatchSource = from_replay
    probe: Probe | None = None
    blocks_kept: int | None = None  # the ring's length in blocks, where it is to be a recording of the whole round


PLAIN = Instruments()


class Program(NamedTuple):
    """What is fixed when a lane's program is compiled."""

    configuration: Configuration
    task: Task
    network: Network
    instruments: Instruments = PLAIN

    @property
    def block(self) -> int:
        """Environment steps per outer iteration."""
        return self.configuration.training.learning_frequency

    @property
    def updates(self) -> int:
        """Outer iterations after a block."""
        return self.configuration.training.gradient_steps

    @property
    def slots(self) -> int:
        """Length of the ring."""
        kept = self.instruments.blocks_kept
        return ring_length(self.configuration.replay, self.block) if kept is None else kept * self.block


def round_keys(seed: Int[Array, ""], number: Int[Array, ""]) -> PRNGKeyArray:
    """The four keys of round `number`: of its network, its first episode, its blocks and its first observation."""
    check_random_numbers()
    return jax.random.split(jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), number), 4)


def init_lane(program: Program, seed: Int[Array, ""], number: Int[Array, ""], active: Bool[Array, ""]) -> Lane:
    """Round `number` of `seed`, before its first step."""
    configuration, network, environment = program.configuration, program.network, program.task.environment
    network_key, episode_key, key, observation_key = round_keys(seed, number)
    size, scaled = observation_size(environment), configuration.normalisation.scale_observations
    scale = scale_of(environment.observation_space, program.task.name) if scaled else None
    return Lane(
        key=key,
        situation=begin_episode(environment, episode_key, observation_key),
        ring=jnp.zeros((program.slots, row_width(size, configuration.replay.n_step))),
        learner=init_learner(
            configuration, network.init(network_key), first_estimate(configuration, network, network_key)
        ),
        normaliser=init_normaliser(configuration.normalisation, size, scale),
        episodes=jnp.zeros((), jnp.int32),
        active=active,
        diverged_at=jnp.full((), -1, jnp.int32),
    )


def run_block(
    program: Program, lane: Lane, index: Int[Array, ""], limits: Limits, data: Any = None
) -> tuple[Lane, BlockLog]:
    """Block `index`: the steps, then (where it is time) the outer iteration. `data` is for the source of batches."""
    configuration = program.configuration
    actions, rows = action_count(program.task.environment), batch_rows(configuration)
    draws = draw_block(configuration, lane.key, index, actions=actions, rows=rows)
    acted, steps = _act(program, lane, index, limits, draws)
    reward = steps.transition.reward
    stored = steps.transition._replace(reward=as_stored(configuration.task, reward))
    ended = steps.terminated | steps.truncated
    back = None
    if configuration.replay.n_step > 1:  # the transition before is one back, where it is of the same episode
        back = jnp.append(lane.situation.episode_steps[None] > 0, ~ended[:-1])
    acted = acted._replace(
        ring=write(lane.ring, index * program.block, pack(stored, back), lane.active),
        normaliser=observe(lane.normaliser, stored.observation, stored.reward, ended, configuration.gradients.gamma),
        learner=remembering(configuration, lane.learner, (index + 1) * program.block),
    )

    due = (index >= limits.first_learning) & (index < limits.last_block)

    def learn() -> tuple[LearnerState, Array, Any]:
        return _learn(program, acted, index, limits, draws, data)

    def wait() -> tuple[LearnerState, Array, Any]:
        shapes = None if program.instruments.probe is None else jax.eval_shape(learn)[2]
        row = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)
        return acted.learner, jnp.full(4 + len(logged), jnp.nan, acted.ring.dtype), row

    logged = logged_columns(configuration)
    learner, diagnostics, probed = jax.lax.cond(due, learn, wait)
    healthy = ~due | jnp.isfinite(diagnostics[2:4]).all()
    finished = limits.counts_episodes & (acted.episodes >= limits.amount)
    after = lane._replace(
        situation=_where(lane.active, acted.situation, lane.situation),
        ring=acted.ring,  # masked where it was written
        # Where several were made, those before the one that failed count.
        learner=_where(lane.active & (healthy | (program.updates > 1)), learner, lane.learner),
        normaliser=_where(lane.active, acted.normaliser, lane.normaliser),
        episodes=jnp.where(lane.active, acted.episodes, lane.episodes),
        active=lane.active & healthy & ~finished,
        diverged_at=jnp.where(lane.active & ~healthy, (index + 1) * program.block, lane.diverged_at),
    )
    flags = STEPPED * lane.active + TERMINATED * steps.terminated + TRUNCATED * steps.truncated
    probed = jax.tree.map(lambda leaf: jnp.where(lane.active, leaf, jnp.nan), probed)
    columns = dict(zip(logged, diagnostics[4:], strict=True))
    return after, BlockLog(reward, flags.astype(jnp.uint8), *diagnostics[:4])._replace(logged=columns, probed=probed)


def as_stored(settings: TaskSettings, reward: Any) -> Any:
    """Rewards (an array of jax's or of NumPy's) as they enter the replay."""
    if settings.reward_clip is not None:
        reward = reward.clip(-settings.reward_clip, settings.reward_clip)
    return reward * settings.reward_scale


def _act(program: Program, lane: Lane, index: Int[Array, ""], limits: Limits, draws: Draws) -> tuple[Lane, Step]:
    """One block of steps under the ε-greedy policy."""
    environment, block = program.task.environment, program.block
    # Fresh episodes for every step at once: drawing them one by one inside the loop costs more than the steps do.
    fresh = jax.vmap(begin_episode, (None, 0, 0))(environment, draws.episode, draws.first_observation)
    parameters = lane.learner.parameters
    if program.configuration.network.noisy:
        parameters = program.network.perturbed(parameters, acting_key(lane.key, index))

    def step(carry: tuple[Situation, Array], inputs: tuple) -> tuple[tuple[Situation, Array], Step]:
        situation, episodes = carry
        offset, draw, random_action, fresh_episode, step_key = inputs
        spent = limits.spent(
            steps=index * block + offset,
            outer_iterations=program.updates * jnp.maximum(index - limits.first_learning, 0),
            episodes=episodes,
        )
        probability = epsilon(program.configuration.acting, spent / limits.amount, index > limits.first_learning)
        seen = normalise_observation(lane.normaliser, situation.observation)
        q_values = program.network.q_values(parameters, seen[None])[0]
        action = epsilon_greedy(q_values, probability, draw, random_action)
        after, outcome = take_step(environment, situation, action, fresh_episode, limits.time_limit, step_key)
        return (after, episodes + (outcome.terminated | outcome.truncated)), outcome

    inputs = (jnp.arange(block), draws.explore, draws.action, fresh, draws.environment)
    (situation, episodes), steps = jax.lax.scan(step, (lane.situation, lane.episodes), inputs)
    return lane._replace(situation=situation, episodes=episodes), steps


def _learn(
    program: Program, lane: Lane, index: Int[Array, ""], limits: Limits, draws: Draws, data: Any
) -> tuple[LearnerState, Float[Array, " columns"], Any]:
    """The outer iterations after a block, each on what the source serves. After one that leads to numbers that are not
    finite no other counts: the learner stays as it was before, and the diagnostics are that one's.
    """
    if program.updates == 1:
        return _learn_once(program, lane, lane.learner, index, limits, draws.batch(), data)

    def update(carry: Any, batch: BatchDraws) -> tuple[Any, None]:
        learner, healthy, before = carry
        after, diagnostics, probed = _learn_once(program, lane, learner, index, limits, batch, data)
        diagnostics, probed = _where(healthy, (diagnostics, probed), before)
        healthy &= jnp.isfinite(diagnostics[2:4]).all()
        return (_where(healthy, after, learner), healthy, (diagnostics, probed)), None

    first = _learn_once(program, lane, lane.learner, index, limits, draws.batch(), data)
    healthy = jnp.isfinite(first[1][2:4]).all()
    others = jax.tree.map(lambda leaf: leaf[1:], draws.batches)
    start = (_where(healthy, first[0], lane.learner), healthy, first[1:])
    (learner, _, (diagnostics, probed)), _ = jax.lax.scan(update, start, others)
    return learner, diagnostics, probed


def _learn_once(
    program: Program,
    lane: Lane,
    learner: LearnerState,
    index: Int[Array, ""],
    limits: Limits,
    draws: BatchDraws,
    data: Any,
) -> tuple[LearnerState, Float[Array, " columns"], Any]:
    source, probe, _ = program.instruments
    served = source(BatchContext(program.configuration, program.network, learner, lane.ring, index, draws, data))
    spent = limits.spent(steps=(index + 1) * program.block, outer_iterations=learner.iterations, episodes=lane.episodes)
    return learn_on(
        program.configuration, program.network, learner, lane.normaliser, served, spent / limits.amount, probe
    )


def normalised(normaliser: Normaliser, transitions: Transitions) -> Transitions:
    """Transitions as the learner sees them."""
    return transitions._replace(
        observation=normalise_observation(normaliser, transitions.observation),
        next_observation=normalise_observation(normaliser, transitions.next_observation),
        reward=normalise_reward(normaliser, transitions.reward),
    )


def learn_on(
    configuration: Configuration,
    network: Network,
    learner: LearnerState,
    normaliser: Normaliser,
    served: OuterBatch,
    progress: Float[Array, ""],
    probe: Probe | None = None,
) -> tuple[LearnerState, Float[Array, " columns"], Any]:
    """One outer iteration on what was served, as normalised: the learner's new state, the mean loss and mean max_a Q on
    D, the norms of Δ_M and of the new parameters, what the estimator logs, and what the probe measured.
    """
    beyond = served.beyond
    after, trace = outer_iteration(
        configuration,
        network,
        learner,
        normalised(normaliser, served.transitions),
        served.picks,
        weights=served.weights,
        origin=served.origin,
        replay=None if beyond is None else lambda: normalised(normaliser, beyond()),
        coins=served.coins,
        renewed=served.renewed,
        noise=served.noise,
        anchor=served.anchor,
        progress=progress,
        keep_last=probe is not None,
    )
    norms = optax.tree.norm(trace.last_delta), optax.tree.norm(after.parameters)
    logged = (jnp.asarray(value, trace.loss.dtype) for value in logged_numbers(configuration, after))
    row = None if probe is None else probe(learner, trace)
    return after, jnp.stack([trace.loss, trace.max_q, *norms, *logged]), row


def remembering(configuration: Configuration, learner: LearnerState, written: Array | int) -> LearnerState:
    """The learner once a block of transitions has been written, of so many ever."""
    if learner.priorities is None:
        return learner
    return learner._replace(priorities=remember(configuration, learner.priorities, written))


def _where(condition: Bool[Array, ""], yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
