"""The best policy of each round: what is kept against a plain search, beside whole runs, and on fresh starts."""

from __future__ import annotations

import itertools
import math
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srgdqn
from checkpointed_runs import checkpointed_run, hosted_run
from host_environments import SMALL, Slope, slope_start, slope_step
from srgdqn.agent import Agent
from srgdqn.errors import InputError
from srgdqn.inspection.rerun import rerun
from srgdqn.inspection.saved_run import open_run
from srgdqn.inspection.verify import verify
from srgdqn.learner.estimators import ESTIMATORS, register_estimator
from srgdqn.results.result import Result
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.runs.checkpoints import CheckpointFolder
from srgdqn.runs.tables import frame
from srgdqn.training import Trained, train_rounds
from srgdqn.training.best_policies import BestPolicies
from srgdqn.training.evaluation import FRESH_EVALUATIONS, FRESH_STREAM, evaluation_keys, fresh_keys
from srgdqn.training.host.evaluation import evaluation_seed
from srgdqn.training.job import Job, JobTrainer, restored_job
from srgdqn.training.job_split import Share
from srgdqn.training.loop import configuration_digest, played_by, record, segments
from srgdqn.training.program import programs_for
from tiny import Stubborn, bits, levers, outcome, q_values, reproducible, tiny

ON = {"keep_best": True}
RUN: dict[str, Any] = dict(rounds=6, steps=240, evaluation_interval=64, eta=0.3, time_limit=None)  # some diverge


# The choice


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_first_of_the_highest_means_is_kept(data: st.DataObject) -> None:
    rounds, evaluations = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 8))
    values = st.sampled_from([-1.5, 0.0, 2.0, 2.0, 7.25, math.nan])
    drawn = [[data.draw(values) for _ in range(rounds)] for _ in range(evaluations)]
    now = 0
    best = BestPolicies(rounds, lambda: {"a": now * np.ones((rounds, 2)), "b": now + np.arange(rounds)})
    for now, row in enumerate(drawn):
        best.offer(10 * now, np.array([[value, value, value] for value in row] + [[99.0] * 3]))
    for number in range(rounds):
        column = [row[number] for row in drawn]
        known = [value for value in column if not math.isnan(value)]
        place = column.index(max(known)) if known else None
        assert best.made_at[number] == (-1 if place is None else 10 * place)
        if place is not None:
            assert best.means[number] == max(known)
            assert (best.policies["a"][number] == place).all()
            assert best.policies["b"][number] == place + number
    last = {"a": -np.ones((rounds, 2)), "b": -np.ones(rounds)}
    for number, made_at in enumerate(best.made_at):
        assert (best.filled(last)["a"][number] == (-1 if made_at < 0 else made_at / 10)).all()


# Beside whole runs


def expected_best(evaluations: pl.DataFrame) -> dict[int, tuple[int, float]]:
    """The step and the mean return of the first best evaluation of each round, by its rows alone."""
    found: dict[int, tuple[int, float]] = {}
    for number, step, mean in evaluations.group_by("round", "step").agg(pl.col("return").mean()).sort("step").rows():
        if number not in found or mean > found[number][1] + 1e-9:
            found[number] = (step, mean)
    return found


def rows_of(policies: pl.DataFrame, policy: str) -> dict[int, dict[str, Any]]:
    return {row["round"]: row for row in policies.filter(pl.col("policy") == policy).iter_rows(named=True)}


def assert_chosen(best: dict[int, dict[str, Any]], expected: dict[int, tuple[int, float]]) -> None:
    assert {number: row["step"] for number, row in best.items()} == {n: step for n, (step, _) in expected.items()}
    means = {number: mean for number, (_, mean) in expected.items()}
    assert {number: row["chosen_by"] for number, row in best.items()} == pytest.approx(means)


@pytest.fixture(scope="module", params=["native", "xla"])
def kept(request: pytest.FixtureRequest) -> tuple[str, Trained]:
    if request.param == "native":
        request.getfixturevalue("kernel")
    return request.param, train_rounds(*tiny(kernel=request.param, **RUN, **ON))


def test_no_bit_of_a_run_changes(kept: tuple[str, Trained]) -> None:
    kernel, trained = kept
    plain = train_rounds(*tiny(kernel=kernel, **RUN))
    tables = {name: columns for name, columns in trained.tables.items() if name != "policies"}
    assert (reproducible(tables), bits(trained.policies)) == (reproducible(plain.tables), bits(plain.policies))
    assert plain.best == {}
    assert "policies" not in plain.tables


def test_the_best_evaluation_is_chosen(kept: tuple[str, Trained]) -> None:
    tables = kept[1].tables
    best = rows_of(frame("policies", tables["policies"]), "best")
    expected = expected_best(frame("evaluations", tables["evaluations"]))
    assert_chosen(best, expected)
    last = rows_of(frame("policies", tables["policies"]), "last")
    assert [row["step"] for row in last.values()] == list(tables["rounds"]["steps"])
    assert all(row["fresh_episodes"] == 4 * 3 for row in (*best.values(), *last.values()))
    diverged = ~np.ma.getmaskarray(tables["rounds"]["diverged_at"])
    assert diverged.any()
    changed = [
        number
        for number in np.flatnonzero(diverged)
        if any((kept[1].best[path][number] != array[number]).any() for path, array in kept[1].policies.items())
    ]
    assert changed  # a diverged round keeps its best


def test_rounds_do_not_depend_on_how_many_there_are(kept: tuple[str, Trained]) -> None:
    kernel, whole = kept
    few = train_rounds(*tiny(kernel=kernel, **{**RUN, "rounds": 2}, **ON))
    assert reproducible(whole.tables, 2)["policies"] == reproducible(few.tables)["policies"]
    assert bits({path: array[:2] for path, array in whole.best.items()}) == bits(few.best)


def test_a_resumed_job_has_the_same_best(tmp_path: Path, kept: tuple[str, Trained]) -> None:
    """From every checkpoint of it, also the one after its end, where nothing is played again."""
    configuration, task = tiny(kernel=kept[0], **RUN, **ON)
    stop = threading.Event()
    manager = CheckpointManager(tmp_path, every=0.0, keep=None)
    half = train_rounds(
        configuration,
        task,
        manager=manager,
        workers=1,
        segment_blocks=2,
        stop=stop,
        listener=lambda progress: stop.set() if progress.share > 0.6 else None,
    )
    assert half.interrupted
    table = frame("policies", half.tables["policies"])
    assert table["fresh_episodes"].to_list() == [0] * 12
    assert table["fresh_return"].null_count() == 12
    assert half.best.keys() == half.policies.keys()
    [folder] = tmp_path.iterdir()
    journal, job = CheckpointFolder(folder), Job((Share(configuration_digest(configuration), range(6), 0),))
    programs, _ = programs_for(configuration, task)
    assert len(journal.numbers()) > 3
    for number in journal.numbers():
        rounds, recorder = restored_job(journal.open(number), JobTrainer((configuration,), task), job, programs)
        for segment in segments(rounds):
            record(recorder, segment)
        played = played_by(rounds, slice(None))
        tables = recorder.tables(slice(None), range(6), configuration, rounds.divergence, played=played)
        assert reproducible(tables) == reproducible(kept[1].tables)
        assert rounds.best is not None
        assert bits(rounds.best.filled(rounds.policies())) == bits(kept[1].best)


def test_a_checkpoint_without_its_best_or_with_another_is_refused(tmp_path: Path) -> None:
    configuration, task = tiny(kernel="xla", **RUN, **ON)
    train_rounds(configuration, task, manager=CheckpointManager(tmp_path, every=0.0, keep=None), workers=1)
    [folder] = tmp_path.iterdir()
    programs, _ = programs_for(configuration, task)
    trainer, job = JobTrainer((configuration,), task), Job((Share(configuration_digest(configuration), range(6), 0),))
    journal = CheckpointFolder(folder)
    checkpoint = journal.open(journal.numbers()[0])
    restored_job(checkpoint, trainer, job, programs)
    best = {name: array for name, array in checkpoint.tensors.items() if name.startswith("best.")}
    others: dict[str, Any] = {
        "best.made_at": np.full(6, -1),
        "best.means": np.full(6, np.inf),
        "best.policy.network.layers.0.weight": np.zeros((6, 4, 5), np.float32),
    }
    for name in best:
        for changed in (None, others.get(name, best[name][:-1]), best[name].astype(np.float16)):
            tensors = {key: array for key, array in checkpoint.tensors.items() if key != name}
            tensors |= {} if changed is None else {name: changed}
            other: Any = SimpleNamespace(about=checkpoint.about, tensors=tensors, rows=checkpoint.rows)
            with pytest.raises(InputError, match="none of this configuration's"):
                restored_job(other, trainer, job, programs)


def test_without_evaluations_on_the_way_the_best_is_the_last() -> None:
    trained = train_rounds(*tiny(**{**RUN, "eta": 0.01, "evaluation_interval": None}, **ON))
    assert bits(trained.best) == bits(trained.policies)
    table = frame("policies", trained.tables["policies"])
    last, best = rows_of(table, "last"), rows_of(table, "best")
    for number, row in best.items():
        assert row["step"] == 240
        assert row["fresh_return"] == last[number]["fresh_return"]


def test_an_agent_that_gets_worse_keeps_what_it_was() -> None:
    """It begins with the sixth lever, for a return of 6 in each of ten steps. As gamma is 0 it learns to prefer the
    seventh, which ends the episode with a return of 7.
    """
    start = jnp.zeros(8).at[6].set(1.0)
    configuration, task = levers(
        **dict(eta=0.4, gamma=0.0, rounds=3, steps=1600, evaluation_interval=16, evaluation_episodes=2), **ON
    )
    trained = train_rounds(configuration, task, Stubborn(start))
    table = frame("policies", trained.tables["policies"])
    for row in rows_of(table, "best").values():
        assert (row["step"], row["chosen_by"], row["fresh_return"], row["fresh_length"]) == (16, 60.0, 60.0, 10.0)
    for row in rows_of(table, "last").values():
        assert (row["step"], row["fresh_return"], row["fresh_length"]) == (1600, 7.0, 1.0)
    [path] = trained.best
    assert (trained.best[path] == np.asarray(start)).all()
    assert (trained.policies[path].argmax(1) == 7).all()


def test_parameters_that_are_evaluated_in_place_of_others_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of these, too; the others are played once more, as they act."""
    monkeypatch.setitem(
        ESTIMATORS,
        "negated",
        ESTIMATORS["storm"]._replace(evaluated=lambda memory, theta: jax.tree.map(jnp.negative, theta)),
    )
    register_estimator("negated", ESTIMATORS["negated"])
    options = dict(estimator="negated", rounds=2, steps=240, evaluation_interval=64, kernel="xla", time_limit=None)
    trained = train_rounds(*tiny("dqn-storm", **options, **ON))
    table = frame("policies", trained.tables["policies"])
    assert table["policy"].to_list() == ["last", "best", "acting"] * 2
    best, evaluations = rows_of(table, "best"), frame("evaluations", trained.tables["evaluations"])
    assert_chosen(best, expected_best(evaluations))
    plain = train_rounds(*tiny("dqn-storm", **{**options, "estimator": "storm"}, **ON))
    acting = rows_of(table, "acting")
    others = rows_of(frame("policies", plain.tables["policies"]), "last")
    assert {n: row["fresh_return"] for n, row in acting.items()} == {n: r["fresh_return"] for n, r in others.items()}


# Fresh starts


def test_fresh_starts_are_those_of_no_evaluation() -> None:
    keys = [evaluation_keys(7, 5), *fresh_keys(7, 5)]
    assert len(keys) == 1 + FRESH_EVALUATIONS
    drawn = np.concatenate([jax.random.key_data(each.start) for each in keys])
    assert len(np.unique(drawn, axis=0)) == len(drawn) == 25
    seeds = [evaluation_seed(7, episode, stream) for episode in range(20) for stream in (0xE7A1, FRESH_STREAM)]
    assert len(set(seeds)) == 40


def played_by_hand(arrays: dict[str, np.ndarray], seed: int, episodes: int) -> tuple[float, float]:
    """The mean return and length on the slope from fresh starts, in plain Python and double precision."""
    returns, lengths = [], []
    for episode in range(episodes):
        place, speed = slope_start(np.random.default_rng(evaluation_seed(seed, episode, FRESH_STREAM))), 0.0
        total = 0.0
        for step in itertools.count(1):
            seen = np.array([[place, speed]], np.float32)
            place, speed, reward, end = slope_step(place, speed, int(q_values(arrays, 0, seen).argmax()))
            total += reward
            if end or step == 12:
                break
        returns.append(total)
        lengths.append(step)
    return float(np.mean(returns)), float(np.mean(lengths))


HOST: dict[str, Any] = {**SMALL, "steps": 240, "evaluation_interval": 40, "progress": False}


@pytest.fixture(scope="module")
def hosted() -> Result:
    return srgdqn.train(Slope, rounds=2, seed=3, eta=0.1, **HOST, **ON)


def test_rounds_on_the_host_are_chosen_and_played_likewise(hosted: Result) -> None:
    plain = srgdqn.train(Slope, rounds=2, seed=3, eta=0.1, **HOST)
    tables, *others = outcome(hosted)
    policies = tables.pop("policies")
    assert (tables, others[:-1]) == (outcome(plain)[0], list(outcome(plain)[1:-1]))
    assert len(policies) == 4
    best, last = rows_of(hosted.policies, "best"), rows_of(hosted.policies, "last")
    assert_chosen(best, expected_best(hosted.evaluations))
    assert any(row["step"] < 240 for row in best.values())
    for which, rows in (("best", best), ("last", last)):
        for number, row in rows.items():
            arrays = {path: array[None] for path, array in hosted.parameters_of(number, which).items()}
            expected = played_by_hand(arrays, 3, 8)
            assert (row["fresh_return"], row["fresh_length"]) == pytest.approx(expected, rel=1e-5)
            assert row["fresh_episodes"] == 8


def test_where_nothing_can_be_played_the_best_is_the_last() -> None:
    with pytest.warns(RuntimeWarning, match="there are no evaluations"):
        result = srgdqn.train(gym.vector.SyncVectorEnv([Slope, Slope]), **HOST, **ON)
    assert bits(result.run.best) == bits(result.run.parameters)
    assert result.policies["fresh_return"].null_count() == result.policies["chosen_by"].null_count() == 2


# What is stored, and rerun


@pytest.mark.parametrize("make", [checkpointed_run, hosted_run], ids=["compiled", "hosted"])
def test_a_stored_best_is_what_its_round_was_then(make: Any, tmp_path: Path) -> None:
    result = make(tmp_path / "run", **ON, eta=0.1)
    saved = open_run(tmp_path / "run")
    assert outcome(saved.result)[0] == outcome(result)[0]
    assert bits(saved.result.run.best) == bits(result.run.best)
    for number, (step, _) in expected_best(result.evaluations).items():
        with rerun(saved, number) as round_:
            round_.advance(-(-step // saved.block))
            [then] = round_.policies()
        assert bits(then) == bits(saved.result.parameters_of(number, "best"))
        observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        values = q_values(saved.result.run.best, number, observations)
        sure = np.abs(values[:, 0] - values[:, 1]) > 1e-5
        assert saved.result.policy(number, which="best")(observations)[sure].tolist() == values.argmax(1)[sure].tolist()
    played = saved.result.evaluate(episodes=2, which="best")
    steps = dict(played.select("round", "step").unique().iter_rows())
    assert steps == {number: step for number, (step, _) in expected_best(result.evaluations).items()}
    check = verify(tmp_path / "run", 0, progress=False)
    assert check.verdict == "identical"
    assert check.rounds[0].rows["policies"] == 2
    assert check.rounds[0].arrays == 2 * len(result.run.parameters)


# Agents


def test_an_agent_keeps_its_best(tmp_path: Path) -> None:
    """What a run's round of the same seed keeps; learning on, it goes on from there, also from a file."""
    run = srgdqn.train(Slope, seed=3, **{**HOST, "kernel": "xla"}, **ON)
    agent = Agent("srg-dqn", Slope, seed=3, **{**SMALL, "evaluation_interval": 40, "kernel": "xla"}, **ON)
    agent.learn(240)
    assert agent.policies.equals(run.policies)
    assert bits(agent.parameters("best")) == bits(run.parameters_of(0, "best"))
    plain = Agent("srg-dqn", Slope, seed=3, **{**SMALL, "evaluation_interval": 40, "kernel": "xla"}).learn(240)
    assert bits(agent.parameters()) == bits(plain.parameters())
    assert plain.policies.is_empty()
    seen = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    assert agent.predict(seen, deterministic=True, which="best")[0].tolist() == run.policy(0, "best")(seen).tolist()
    assert agent.to_numpy("best")(seen).tolist() == run.policy(0, "best")(seen).tolist()
    loaded = Agent.load(agent.save(tmp_path / "agent"), Slope)
    assert loaded.policies.equals(agent.policies)
    assert bits(loaded.parameters("best")) == bits(agent.parameters("best"))
    returns, _ = agent.play(3, seed=5, which="best")
    assert returns.tolist() == loaded.play(3, seed=5, which="best")[0].tolist()
    with pytest.raises(InputError, match=r"the best policy of this agent is not kept. Make it with keep_best=True"):
        plain.play(1, which="best")
    with pytest.raises(InputError, match="Did you mean 'best'"):
        agent.predict(seen, which="bset")  # type: ignore[arg-type]
