"""How far directions are from the gradient: against NumPy, against what statistics demand, and beside whole runs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import reference
import srgdqn
from host_environments import SMALL, Slope
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.learner.networks import make_network
from srgdqn.learner.normalisation import Normaliser
from srgdqn.learner.optimiser import init_adam
from srgdqn.learner.outer_iteration import LearnerState, init_learner
from srgdqn.learner.reward_estimation import RewardEstimate
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import CheckpointFolder
from srgdqn.training import train_rounds
from srgdqn.training.direction_errors import DRAWS, REFERENCE_ROWS, DirectionErrors, direction_program, measure
from srgdqn.training.job import Job, JobTrainer, restored_job
from srgdqn.training.job_split import Share
from srgdqn.training.loop import configuration_digest, record, segments
from srgdqn.training.program import programs_for
from srgdqn.training.rounds import Trained
from tiny import TINY, bits, outcome, reproducible, tiny
from translation import flat, from_packed, mean_gradient, options_of, to_packed, to_parameters

SIZES = (3, 5, 2)
BLOCK, STORED = 16, 96


class Problem:
    """A learner and a full replay, that nothing was ever trained on."""

    def __init__(self, algorithm: str, **options: Any) -> None:
        usual: dict[str, Any] = dict(replay_capacity=STORED, learning_frequency=BLOCK, hidden=SIZES[1:-1], steps=10_000)
        self.configuration = configure("CartPole", algorithm, **{**usual, "clip_norm": None, **options})
        self.theta, data, _ = reference.random_problem(5, SIZES, STORED, 1)
        self.rows = to_packed(data)
        parameters = to_parameters(self.theta, SIZES)
        network = make_network(self.configuration.network, SIZES[0], SIZES[-1])
        rewards = None
        if self.configuration.gradients.reward_estimation:
            rewards = RewardEstimate(to_parameters(self.theta[::-1].copy(), SIZES), init_adam(parameters))
        self.learner: LearnerState = init_learner(self.configuration, parameters, rewards)
        self.program = direction_program(self.configuration.shape(), network, STORED)

    def measure(self, seed: int = 0, *, block: int = 99, progress: float = 0.25, together: int = DRAWS) -> Any:
        key = jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))
        gather = lambda slots: self.rows[slots]  # noqa: E731
        given = self.configuration.numbers(), self.learner, Normaliser(None, None, None), gather, progress
        return measure(self.program, key, block, *given, together=together)

    def many(self, count: int) -> DirectionErrors:
        """Measured with so many keys: columns."""
        return DirectionErrors(*map(np.array, zip(*(self.measure(seed) for seed in range(count)), strict=True)))


def estimates(draws: list[tuple[np.ndarray, ...]]) -> list[float]:
    """The columns from each draw's Δ, its plain batch's gradient and the two halves of its reference, spelt out."""
    norm = np.mean([first @ second for *_, first, second in draws])
    expected = [float(norm)]
    for which in (0, 1):
        error = np.mean([(draw[which] - draw[2]) @ (draw[which] - draw[3]) for draw in draws])
        apart = [draw[which] - (draw[2] + draw[3]) / 2 for draw in draws]
        bias = np.mean([one @ another for one, another in itertools.permutations(apart, 2)])
        inner = np.mean([draw[which] @ (draw[2] + draw[3]) / 2 for draw in draws])
        length = np.mean([draw[which] @ draw[which] for draw in draws])
        expected += [float(error), float(bias), float(inner / np.sqrt(norm * length))]
    return expected


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("srg-dqn", {"target": "current"}),
        ("srg-dqn", {"target": "hard", "schedule": "linear"}),
        ("svr-dqn-no-adam", {"target": "outer"}),
        ("dqn-sgd", {"target": "current"}),
        ("srg-adam-steps", {"target": "hard"}),
        ("srg-dqn", {"target": "outer", "reward_estimation": True, "reward_alpha": 0.1}),
    ],
)
def test_values_are_a_plain_programs(algorithm: str, options: dict[str, Any]) -> None:
    """Algorithm 1 in NumPy on the same D and picks, and the estimates spelt out."""
    with jax.enable_x64(True):
        problem = Problem(algorithm, batch_size=8, inner_iterations=3, eta=0.02, **options)
        other = reference.random_problem(6, SIZES, 1, 1)[0]
        if problem.learner.target is not None:
            problem.learner = problem.learner._replace(target=to_parameters(other, SIZES))
        measured = problem.measure()
        key = jax.random.key_data(jax.random.key(0, impl="threefry2x32"))
        fresh = jax.tree.map(np.asarray, problem.program.draw(key, np.int32(99), np.int32(0)))
    o = options_of(problem.configuration, SIZES)
    state = reference.init(o, problem.theta)
    state = state._replace(target=None if state.target is None else other)
    frozen = {"current": None, "outer": problem.theta}.get(o.target, state.target)
    draws = []
    for k in range(DRAWS):
        data, replay = from_packed(problem.rows[fresh.chosen.origin.slots[k]]), from_packed(problem.rows)
        if problem.learner.rewards is not None:  # each outer iteration's own
            psi, zero = problem.theta[::-1], np.zeros_like(problem.theta)
            rewards = reference.fit_rewards(o, reference.Rewards(psi, zero, zero, 0), data)
            data, replay = (reference.with_estimates(o, rewards, rows) for rows in (data, replay))
        picks = fresh.chosen.picks[k].tolist()
        _, record = reference.outer_iteration(algorithm, o, state, data, picks, progress=0.25)
        theta = record.theta[len(record.delta) - 1]
        halves = np.split(fresh.reference[k], 2)
        first, second = (mean_gradient(o, theta, [replay[i] for i in half], frozen) for half in halves)
        draws.append((record.delta[-1], mean_gradient(o, theta, data, frozen), first, second))
    np.testing.assert_allclose(measured, estimates(draws), rtol=1e-7, atol=1e-10 * measured.squared_norm)


def test_what_is_carried_is_a_plain_programs() -> None:
    """STORM in NumPy, from a memory of another θ and Δ: one direction per batch, at θ_0."""
    a = 0.3
    with jax.enable_x64(True):
        problem = Problem("dqn-storm", batch_size=8, target="outer", a=a)
        before, remembered = (reference.random_problem(seed, SIZES, 1, 1)[0] for seed in (6, 7))
        memory = problem.learner.memory._replace(
            theta=to_parameters(before, SIZES), delta=to_parameters(remembered, SIZES)
        )
        problem.learner = problem.learner._replace(memory=memory, iterations=np.int32(5))
        measured = problem.measure()
        key = jax.random.key_data(jax.random.key(0, impl="threefry2x32"))
        fresh = jax.tree.map(np.asarray, problem.program.draw(key, np.int32(99), np.int32(0)))
    o, theta = options_of(problem.configuration, SIZES), problem.theta
    draws = []
    for k in range(DRAWS):
        data = from_packed(problem.rows[fresh.chosen.origin.slots[k]])
        plain = mean_gradient(o, theta, data, theta)
        delta = plain - (1 - a) * (mean_gradient(o, before, data, theta) - remembered)
        halves = [from_packed(problem.rows[half]) for half in np.split(fresh.reference[k], 2)]
        draws.append((delta, plain, *(mean_gradient(o, theta, half, theta) for half in halves)))
    np.testing.assert_allclose(measured, estimates(draws), rtol=1e-7, atol=1e-10 * measured.squared_norm)


def test_draws_one_by_one_are_the_same_measurement() -> None:
    problem = Problem("srg-dqn", batch_size=8)
    np.testing.assert_allclose(problem.measure(together=1), problem.measure(), rtol=2e-3)


def exact(problem: Problem) -> tuple[float, float]:
    """‖G‖² and the variance of a single transition's gradient, over the whole replay at θ_0."""
    o = options_of(problem.configuration, SIZES)
    each = np.array([mean_gradient(o, problem.theta, [x], problem.theta) for x in from_packed(problem.rows)])
    mean = each.mean(0)
    return float(mean @ mean), float((each**2).sum() / len(each) - mean @ mean)


def assert_mean(values: np.ndarray, expected: float) -> None:
    """To within five standard errors."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - expected) < 5 * error


@pytest.mark.parametrize("batch_size", [4, 32])
def test_the_plain_batch_errs_by_the_variance_over_n(batch_size: int) -> None:
    """And has no bias; both are estimated without any of the reference's error, as is ‖G‖²."""
    problem = Problem("dqn-sgd", batch_size=batch_size, target="outer", sampling="with-replacement")
    squared_norm, variance = exact(problem)
    errors = problem.many(60)
    assert_mean(errors.squared_norm, squared_norm)
    assert_mean(errors.squared_error, variance / batch_size)
    assert_mean(errors.squared_bias, 0.0)
    assert errors.squared_error.mean() == pytest.approx(variance / batch_size, rel=0.1)
    cosine = np.sqrt(squared_norm / (squared_norm + variance / batch_size))
    assert errors.cosine.mean() == pytest.approx(cosine, rel=0.1)
    for name in ("squared_error", "squared_bias", "cosine"):  # without inner iterations the direction is that gradient
        np.testing.assert_allclose(getattr(errors, name), getattr(errors, f"plain_{name}"), rtol=1e-5, atol=1e-8)


def test_the_gradient_on_the_whole_replay_has_no_error() -> None:
    """Of the reference's own error, which is many times as large, nothing is left in the mean."""
    problem = Problem("dqn-gd", batch_size=STORED, sampling="without-replacement", target="outer", eta=1e-3)
    _, variance = exact(problem)
    errors = problem.many(60)
    for name in ("squared_error", "squared_bias"):
        assert_mean(getattr(errors, name), 0.0)
        assert abs(getattr(errors, name).mean()) < 0.2 * variance / REFERENCE_ROWS
    assert errors.cosine.mean() == pytest.approx(1.0, abs=0.01)


def test_what_is_always_the_same_errs_by_its_bias_alone() -> None:
    """The newest transitions are the same in every draw."""
    problem = Problem("dqn-sgd", batch_size=8, sampling="newest", target="outer")
    o = options_of(problem.configuration, SIZES)
    # 100 blocks of 16 were written to 96 slots: the newest transition is in slot 1599 % 96 = 63.
    data = from_packed(problem.rows)
    apart = mean_gradient(o, problem.theta, data[56:64], problem.theta) - mean_gradient(
        o, problem.theta, data, problem.theta
    )
    errors = problem.many(20)
    for name in ("squared_error", "squared_bias"):
        assert_mean(getattr(errors, name), float(apart @ apart))


def test_rows_beyond_d_are_drawn_anew() -> None:
    """PAGE with probability 1 of a large sample: the gradient on K·N rows of the replay."""
    own = dict(estimator="page", refresh=1.0, anchor_batches=4)
    problem = Problem("dqn-storm", batch_size=8, sampling="with-replacement", target="outer", **own)
    _, variance = exact(problem)
    errors = problem.many(60)
    assert_mean(errors.squared_error, variance / 32)
    assert_mean(errors.plain_squared_error, variance / 8)


def test_memory_enters_the_direction() -> None:
    """STORM with weight 0 of the new gradient and the same θ as before: what it remembers, whatever is drawn."""
    problem = Problem("dqn-storm", batch_size=8, target="outer", a=0.0)
    remembered = jax.tree.map(lambda leaf: 0.1 + 0 * leaf, problem.learner.parameters)
    memory = problem.learner.memory._replace(delta=remembered)
    problem.learner = problem.learner._replace(memory=memory, iterations=np.int32(5))
    o = options_of(problem.configuration, SIZES)
    apart = flat(remembered) - mean_gradient(o, problem.theta, from_packed(problem.rows), problem.theta)
    errors = problem.many(20)
    for name in ("squared_error", "squared_bias"):
        assert_mean(getattr(errors, name), float(apart @ apart))


def test_another_key_or_block_draws_anew() -> None:
    problem = Problem("srg-dqn", batch_size=8)
    found = {problem.measure(seed, block=block).squared_error for seed in (0, 1) for block in (99, 100)}
    assert len(found) == 4


# Beside whole runs


ON = {"direction_errors": True}


def without_directions(trained: Trained) -> Any:
    tables = {name: columns for name, columns in trained.tables.items() if name != "directions"}
    return reproducible(tables), bits(trained.policies)


RUN: dict[str, Any] = dict(rounds=6, steps=240, evaluation_interval=64)


@pytest.mark.parametrize(
    "options", [RUN, {**RUN, "eta": 0.3}, {**RUN, "episodes": 12}], ids=["", "diverging", "episodes"]
)
def test_no_bit_of_a_run_changes(each_kernel: str, options: dict[str, Any]) -> None:
    """Rounds have a row for every evaluation after they began to learn, unless they have diverged by then."""
    options = {name: value for name, value in options.items() if name != "steps" or "episodes" not in options}
    plain = train_rounds(*tiny(kernel=each_kernel, **options))
    measured = train_rounds(*tiny(kernel=each_kernel, **options, **ON))
    assert without_directions(measured) == without_directions(plain)
    assert "directions" not in plain.tables
    tables = measured.tables
    ends = dict(zip(tables["rounds"]["round"], np.ma.filled(tables["rounds"]["diverged_at"], 10**9), strict=True))
    evaluated = zip(tables["evaluations"]["round"], tables["evaluations"]["step"], strict=True)
    expected = [place for place in dict.fromkeys(evaluated) if place[1] >= 48 and place[1] < ends[place[0]]]
    found = tables["directions"]
    assert list(zip(found["round"], found["step"], strict=True)) == expected
    assert len(expected) > 6
    if options.get("eta") is not None:
        assert min(ends.values()) < 10**9


def test_rounds_do_not_depend_on_how_many_there_are(each_kernel: str) -> None:
    whole, few = (train_rounds(*tiny(kernel=each_kernel, **{**RUN, "rounds": count}, **ON)) for count in (6, 2))
    assert reproducible(whole.tables, 2)["directions"] == reproducible(few.tables)["directions"]


def test_kernel_and_xla_draw_the_same(kernel: None) -> None:
    """At the first evaluation, before their different rounding has grown."""
    one, other = (train_rounds(*tiny(kernel=name, **RUN, **ON)).tables["directions"] for name in ("native", "xla"))
    first = np.asarray(one["step"]) == 64
    for name in DirectionErrors._fields:
        np.testing.assert_allclose(one[name][first], other[name][first], rtol=2e-3, atol=1e-6)


def test_a_resumed_run_has_the_same_rows(tmp_path: Path, each_kernel: str) -> None:
    """From every checkpoint of it."""
    configuration, task = tiny(kernel=each_kernel, **RUN, **ON)
    manager = CheckpointManager(tmp_path, every=0.0, keep=None)
    whole = train_rounds(configuration, task, manager=manager, workers=1, segment_blocks=2)
    [folder] = tmp_path.iterdir()
    journal, job = CheckpointFolder(folder), Job((Share(configuration_digest(configuration), range(6), 0),))
    programs, _ = programs_for(configuration, task)
    assert len(journal.numbers()) > 3
    for number in journal.numbers()[:-1]:
        rounds, recorder = restored_job(journal.open(number), JobTrainer((configuration,), task), job, programs)
        for segment in segments(rounds):
            record(recorder, segment)
        tables = recorder.tables(slice(None), range(6), configuration, rounds.divergence)
        assert reproducible(tables) == reproducible(whole.tables)


def host(kernel: str = "auto", **options: Any) -> srgdqn.Result:
    usual = {**SMALL, "steps": 160, "rounds": 1, "evaluation_interval": 40, "kernel": kernel, **options}
    return srgdqn.train(Slope, **usual, progress=False)


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "xla", "normalise_observations": True}], ids=["kernel", "normalised"]
)
def test_no_bit_of_a_run_on_the_host_changes(options: dict[str, Any]) -> None:
    plain, measured = host(**options), host(**options, **ON)
    tables, *others = outcome(plain)
    found, *found_others = outcome(measured)
    assert found.pop("directions") == measured.directions.rows()
    assert (found, others[:-1]) == (tables, found_others[:-1])
    assert plain.directions.is_empty()
    assert measured.directions.select("round", "step").rows() == [(0, step) for step in (40, 80, 120, 160)]
    assert (measured.directions["plain_squared_error"] > 0).any()


def test_values_on_the_host_are_a_plain_programs() -> None:
    """Of a round that has learned in a Gymnasium environment: from its own replay and parameters, in NumPy."""
    agent = srgdqn.Agent("dqn-sgd", Slope, **{**SMALL, "batch_size": 8}, target="outer", kernel="xla", seed=3)
    agent.learn(160)
    round_ = agent._round
    [*measured] = (float(value[0]) for value in round_.direction_errors())
    key, place = np.asarray(jax.random.key_data(round_.key)), np.int32(round_.blocks - 1)
    fresh = jax.tree.map(np.asarray, round_._program.directions.draw(key, place, np.int32(0)))
    o, theta = options_of(agent.configuration, (2, 4, 3)), flat(round_.learner.parameters).astype(np.float64)
    assert fresh.chosen.origin.slots.max() < 40 == agent.configuration.replay.replay_capacity

    def gradient(slots: np.ndarray) -> np.ndarray:
        return mean_gradient(o, theta, from_packed(round_.memory.gather(slots)), theta)

    draws = []
    for slots, rows in zip(fresh.chosen.origin.slots, fresh.reference, strict=True):
        plain = gradient(slots)
        draws.append((plain, plain, *map(gradient, np.split(rows, 2))))
    np.testing.assert_allclose(measured, estimates(draws), rtol=1e-3, atol=1e-4 * measured[0])


def test_it_is_saved_with_the_run_and_logged(tmp_path: Path) -> None:
    logged: list[Any] = []

    class Logger:
        def start(self, configuration: Configuration, about: Any) -> None: ...
        def log(self, reports: Any) -> None:
            logged.extend(direction for report in reports for direction in report.directions)

        def close(self) -> None: ...

    measured = srgdqn.train("CartPole", **{**TINY, **RUN, **ON, "rounds": 1}, loggers=[Logger()], progress=False)
    measured.save(tmp_path / "run")
    table = srgdqn.load(tmp_path / "run").directions
    assert table.equals(measured.directions)
    assert [(each.step, each.errors.squared_error) for each in logged] == table.select("step", "squared_error").rows()
    assert "measure" in set(measured.timings["phase"])
