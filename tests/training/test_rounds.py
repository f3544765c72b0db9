"""A run as a whole: the same bits however it is cut and shared out, budgets kept to the step, and a way to stop it."""

from __future__ import annotations

import signal
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.learner.outer_iteration import LearnerState, Trace
from srgdqn.runs.tables import SCHEMAS, frame
from srgdqn.training import Progress, Trained, train_rounds
from srgdqn.training.batches import BatchContext, OuterBatch, from_replay
from srgdqn.training.lane import Instruments
from srgdqn.training.program import SEGMENT_BLOCKS
from tiny import BLOCK, LANES, STUBBORN, bits, levers, reproducible, tiny

# The same bits


@pytest.fixture(scope="module")
def fifty() -> Trained:
    return train_rounds(*tiny(rounds=50, steps=600, evaluation_interval=250))


@pytest.mark.parametrize("rounds", [1, 7])
def test_a_round_does_not_know_how_many_there_are(fifty: Trained, rounds: int) -> None:
    fewer = train_rounds(*tiny(rounds=rounds, steps=600, evaluation_interval=250))
    assert fewer.tables["rounds"]["round"].tolist() == list(range(rounds))
    assert reproducible(fewer.tables) == reproducible(fifty.tables, rounds)
    assert bits(fewer.policies) == bits({name: array[:rounds] for name, array in fifty.policies.items()})


def test_spare_lanes_never_appear(fifty: Trained) -> None:
    assert 50 % LANES != 0
    for name, columns in fifty.tables.items():
        if name != "timings":
            assert np.unique(columns["round"]).tolist() == list(range(50))
    assert {array.shape[0] for array in fifty.policies.values()} == {50}
    assert fifty.tables["rounds"]["steps"].tolist() == [600] * 50


def test_every_round_is_another_one(fifty: Trained) -> None:
    weights = fifty.policies["network.layers.0.weight"].reshape(50, -1)
    assert len(np.unique(weights, axis=0)) == 50
    assert np.isfinite(weights).all()
    other = train_rounds(*tiny(rounds=1, steps=600, seed=1))
    assert not (weights == other.policies["network.layers.0.weight"].reshape(1, -1)).all(axis=1).any()


def test_segments_do_not_matter() -> None:
    # 375 blocks: more than one segment of the longest kind, with evaluations at 112, 208, … of them.
    configuration, task = tiny(rounds=2, steps=6_000, evaluation_interval=1_500)
    assert 6_000 / BLOCK > SEGMENT_BLOCKS
    runs = [train_rounds(configuration, task, segment_blocks=blocks) for blocks in (1, 17, SEGMENT_BLOCKS)]
    assert len({str(reproducible(run.tables)) for run in runs}) == 1
    assert len({str(bits(run.policies)) for run in runs}) == 1
    segments = [int((run.tables["timings"]["phase"] == "train").sum()) for run in runs]
    assert segments[0] == 375
    assert segments[0] > segments[1] > segments[2]


def test_threads_do_not_matter(fifty: Trained) -> None:
    configuration, task = tiny(rounds=50, steps=600, evaluation_interval=250)
    for workers in (1, 2):
        again = train_rounds(configuration, task, workers=workers)
        assert reproducible(again.tables) == reproducible(fifty.tables)
        assert bits(again.policies) == bits(fifty.policies)


def test_the_last_seed_there_is() -> None:
    run = train_rounds(*tiny(rounds=1, seed=2**32 - 1))
    assert reproducible(run.tables) != reproducible(train_rounds(*tiny(rounds=1, seed=0)).tables)
    assert run.tables["rounds"]["completed"].tolist() == [True]


# Instruments


def theta_0(learner: LearnerState, trace: Trace) -> Any:
    return learner.parameters


def test_being_watched_changes_no_bit(fifty: Trained) -> None:
    watching = Instruments(probe=theta_0, blocks_kept=38)  # of 600 steps
    watched = train_rounds(*tiny(rounds=7, steps=600, evaluation_interval=250), instruments=watching)
    assert reproducible(watched.tables) == reproducible(fifty.tables, 7)
    assert bits(watched.policies) == bits({name: array[:7] for name, array in fifty.policies.items()})
    assert watched.recording is not None
    assert watched.recording.shape == (7, 38 * BLOCK, 11)
    assert (fifty.recording, fifty.probed, fifty.probed_blocks) == (None, None, None)


def pushed(context: BatchContext) -> OuterBatch:
    """The usual batch, with an anchor that points along the round's own number in every direction."""
    assert context.learner is not None
    push = jax.tree.map(lambda leaf: jnp.full_like(leaf, context.data["push"][0]), context.learner.parameters)
    return from_replay(context)._replace(anchor=push)


def test_each_round_is_given_its_own_data() -> None:
    """Two chunks of lanes, the second with spare ones: θ is moved by ten times η along what each round was given."""
    pushes = np.array([3.0, -1.0, 0.5, 0.0, 7.0, -20.0], np.float32)
    assert LANES < len(pushes) < 2 * LANES
    trained = train_rounds(
        *tiny("dqn-sgd", rounds=len(pushes), eta=0.01),
        instruments=Instruments(source=pushed, probe=theta_0),
        data={"push": pushes[:, None]},
        probe_at=lambda blocks: blocks == 2,  # where learning starts
    )
    assert trained.tables["rounds"]["outer_iterations"].tolist() == [10] * len(pushes)
    for path, before in jax.tree_util.tree_leaves_with_path(trained.probed):
        name = "network." + jax.tree_util.keystr(path, simple=True, separator=".")
        for number, push in enumerate(pushes):
            expected = before[number, 0] - 10 * 0.01 * push
            np.testing.assert_allclose(trained.policies[name][number], expected, atol=1e-5)


# Budgets


@pytest.mark.parametrize(("steps", "learning_starts"), [(64, 1), (80, 17), (203, 40), (79, 49)])
def test_a_budget_of_steps_is_spent_to_the_step(steps: int, learning_starts: int) -> None:
    trained = train_rounds(*tiny(rounds=2, steps=steps, learning_starts=learning_starts))
    learning = [step for step in range(1, steps + 1) if step % 16 == 0 and step >= learning_starts]
    rounds, curves = trained.tables["rounds"], trained.tables["curves"]
    assert rounds["steps"].tolist() == [steps] * 2
    assert rounds["outer_iterations"].tolist() == [len(learning)] * 2
    assert rounds["queries"].tolist() == [len(learning) * (4 + 2 * 2)] * 2  # N + 2bM
    assert rounds["completed"].tolist() == [True] * 2
    assert rounds["diverged_at"].mask.all()
    ends = [*range(50, steps, 50), steps]
    assert curves["step"].tolist() == ends * 2
    assert curves["queries"].tolist() == [sum(step <= end for step in learning) * 8 for end in ends] * 2
    # The last outer iteration there is, is the one that the policy comes from: later steps change nothing.
    longer = train_rounds(
        *tiny(rounds=2, steps=steps // 16 * 16 + 15, learning_starts=learning_starts, epsilon_end=0.1)
    )
    shorter = train_rounds(*tiny(rounds=2, steps=steps // 16 * 16, learning_starts=learning_starts, epsilon_end=0.1))
    assert bits(longer.policies) == bits(shorter.policies)


@pytest.mark.parametrize(("amount", "learning_starts"), [(1, 1), (1, 40), (7, 17), (30, 48)])
def test_a_budget_of_outer_iterations(amount: int, learning_starts: int) -> None:
    configuration, task = levers(outer_iterations=amount, learning_starts=learning_starts, rounds=3)
    rounds = train_rounds(configuration, task, STUBBORN).tables["rounds"]
    first = next(step for step in range(16, 99, 16) if step >= learning_starts)
    assert rounds["outer_iterations"].tolist() == [amount] * 3
    assert rounds["steps"].tolist() == [first + 16 * (amount - 1)] * 3
    assert rounds["completed"].tolist() == [True] * 3


@pytest.mark.parametrize("time_limit", [None, 6])
@pytest.mark.parametrize("amount", [7, 40])
def test_a_budget_of_episodes(amount: int, time_limit: int | None) -> None:
    limits = dict(time_limit=time_limit, episode_cap=6 if time_limit is None else 2_000)
    trained = train_rounds(*levers(episodes=amount, learning_starts=16, rounds=6, **limits), STUBBORN)
    episodes, rounds = trained.tables["episodes"], trained.tables["rounds"]
    cut = "truncated" if time_limit else "censored"
    assert rounds["episodes"].tolist() == [amount] * 6
    assert rounds["completed"].tolist() == [True] * 6
    assert len(set(rounds["steps"].tolist())) > 1  # each lane stops at its own time
    assert set(episodes["ending"]) == {"terminated", cut}
    for number in range(6):
        mine = {name: column[episodes["round"] == number] for name, column in episodes.items()}
        assert mine["episode"].tolist() == list(range(amount))
        assert mine["step"].tolist() == np.cumsum(mine["length"]).tolist()
        assert mine["step"][-1] == rounds["steps"][number]
        # An episode lasts for at most 6 steps, and what ends a shorter one is lever 7.
        assert set(mine["ending"]) <= {"terminated", cut}
        assert (mine["length"][mine["ending"] == cut] == 6).all()
        assert (mine["length"] <= 6).all()
        assert (mine["return"][mine["ending"] == "terminated"] >= 7).all()
        assert rounds["censored"][number] == (mine["ending"] == "censored").sum()
        # The outer iteration of the block in which the last episode ended is the last one.
        assert rounds["outer_iterations"][number] == -(-rounds["steps"][number] // 16)


# Listening, stopping and failing


@pytest.mark.parametrize("budget", [dict(steps=320), dict(outer_iterations=30), dict(episodes=60)])
def test_a_listener_hears_every_step_and_how_far_the_run_is(budget: dict[str, int]) -> None:
    heard: list[Progress] = []
    if "steps" in budget:
        trained = train_rounds(*tiny(rounds=6, **budget), listener=heard.append, segment_blocks=3)
    else:
        cap = dict(episode_cap=6) if "episodes" in budget else {}
        chosen = levers(rounds=6, learning_starts=16, **budget, **cap)
        trained = train_rounds(*chosen, STUBBORN, listener=heard.append, segment_blocks=3)
    shares = [report.share for report in heard]
    assert len(shares) > 4
    assert shares == sorted(shares)
    assert 0 < shares[0] < 1
    assert shares[-1] == 1
    rounds, curves = trained.tables["rounds"], trained.tables["curves"]
    if "episodes" not in budget:  # where a lane's last block goes on for a few steps that are not the round's
        assert sum(report.steps for report in heard) == rounds["steps"].sum()
        total = sum(report.reward * report.steps for report in heard)
        ends = [np.flatnonzero(curves["round"] == number)[-1] for number in range(6)]
        expected = sum(curves["reward_cumulative"][end] * curves["step"][end] for end in ends)
        assert total == pytest.approx(expected, rel=1e-4)
    assert {report.diverged for report in heard} == {0}


def test_a_listener_hears_of_divergence() -> None:
    heard: list[Progress] = []
    trained = train_rounds(*tiny(rounds=2, eta=1e6), listener=heard.append, segment_blocks=1)
    assert heard[0].diverged == 0
    assert heard[-1].diverged == 2
    assert heard[-1].share == 1
    assert trained.tables["rounds"]["completed"].tolist() == [False, False]
    assert not trained.interrupted


class CtrlC:
    """A listener that interrupts the main thread after so many segments."""

    def __init__(self, after: int) -> None:
        self.after, self.heard = after, 0

    def __call__(self, progress: Progress) -> None:
        self.heard += 1
        if self.heard == self.after:
            signal.raise_signal(signal.SIGINT)


LONG = 1_000_000


def test_an_interrupt_returns_what_was_reached() -> None:
    options = dict(window=1_000, eta=1e-3, epsilon_end=0.1)  # a constant ε: the budget must not matter here
    listener = CtrlC(after=2)
    trained = train_rounds(*tiny(rounds=10, steps=LONG, **options), listener=listener, workers=1)  # on three boards
    assert trained.interrupted
    rounds = trained.tables["rounds"]
    assert rounds["round"].tolist() == list(range(10))
    assert rounds["completed"].tolist() == [False] * 10
    reached = int(rounds["steps"][0])
    assert reached == listener.heard * SEGMENT_BLOCKS * BLOCK
    assert reached < LONG
    assert rounds["steps"].tolist() == [reached] * 10
    # What was reached is what a run up to there does.
    whole = train_rounds(*tiny(rounds=10, steps=reached, **options))
    assert reproducible({name: trained.tables[name] for name in ("curves", "episodes")}) == reproducible(
        {name: whole.tables[name] for name in ("curves", "episodes")}
    )
    assert bits(trained.policies) == bits(whole.policies)
    assert rounds["outer_iterations"].tolist() == whole.tables["rounds"]["outer_iterations"].tolist()
    # No evaluation was due yet: that table is empty, and every table has the columns of its schema.
    assert trained.tables["evaluations"] == {}
    for name, columns in trained.tables.items():
        assert frame(name, columns or dict.fromkeys(SCHEMAS[name], ())).columns == list(SCHEMAS[name])


def test_an_event_stops_a_run_like_an_interrupt() -> None:
    stop = threading.Event()
    configuration, task = tiny(rounds=18, steps=LONG, eta=1e-3)
    trained = train_rounds(configuration, task, listener=lambda progress: stop.set(), workers=1, stop=stop)
    assert trained.interrupted
    # One worker: the second chunk had not begun.
    assert trained.tables["rounds"]["round"].tolist() == list(range(16))
    assert trained.tables["rounds"]["steps"].tolist() == [SEGMENT_BLOCKS * BLOCK] * 16
    assert {array.shape[0] for array in trained.policies.values()} == {16}


def test_a_run_that_is_stopped_before_it_starts_is_empty() -> None:
    stop = threading.Event()
    stop.set()
    assert train_rounds(*tiny(), stop=stop) == Trained({}, {}, interrupted=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_in_a_chunk_propagates_and_stops_the_others(workers: int) -> None:
    heard = 0

    def broken(progress: Progress) -> None:
        nonlocal heard
        heard += 1
        if heard == 3:
            raise ArithmeticError("the third report")

    with pytest.raises(ArithmeticError, match="the third report"):
        train_rounds(*tiny(rounds=12, steps=LONG), listener=broken, workers=workers)
    assert heard < LONG / BLOCK / SEGMENT_BLOCKS


def test_timings_have_every_phase_and_are_plausible() -> None:
    trained = train_rounds(*tiny(rounds=6, steps=320, evaluation_interval=100), workers=2)
    timings = trained.tables["timings"]
    for first, count in ((0, 4), (4, 2)):
        for phase in ("train", "evaluate"):
            mine = (timings["first_round"] == first) & (timings["rounds"] == count) & (timings["phase"] == phase)
            steps = timings["step"][mine]
            assert steps.tolist() == [112, 208, 304, 320]
    assert (timings["seconds"] >= 0).all()
    assert timings["seconds"].sum() < 600
