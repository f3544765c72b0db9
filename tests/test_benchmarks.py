"""The benchmarks run, and what they conclude follows from what they measure. Speed itself is not tested."""

import doctest
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
DOCS = BENCHMARKS.parent / "docs"


@pytest.fixture(autouse=True)
def benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run(script: str, out: Path, *words: str, path: Path | None = None) -> dict[str, Any]:
    paths = [str(place) for place in (path, os.environ.get("PYTHONPATH")) if place]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), "--quick", "--out", str(out), *words],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def test_every_benchmark_can_be_made_and_has_its_place_in_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    places = importlib.import_module("refresh_benchmarks").PLACES
    scripts = {path.stem for path in BENCHMARKS.glob("*.py") if "place_for(__file__)" in path.read_text()}
    assert places.keys() == scripts
    for page, mark in places.values():
        assert [page.read_text().count(f"<!-- {each} -->") for each in (mark, f"end of {mark}")] == [1, 1]
    for listing in (DOCS / "benchmarks.md", DOCS.parent / "Makefile"):
        text = listing.read_text()
        assert [script for script in scripts if f"benchmarks/{script}.py" not in text] == []


@pytest.mark.parametrize("module", ["arithmetic", "exponents", "measuring", "reporting"])
def test_examples_are_true(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0


def test_ratios_are_of_medians_of_the_best_arrangements() -> None:
    from arrangements import ALONE, ONE_PROCESS, PROCESS_PER_CORE, Measurement
    from lineup import COMPARISONS, CONTENDERS
    from standings import Entry, standings

    named = {contender.name: contender for contender in CONTENDERS}

    def turns(*rates: float) -> list[Measurement]:
        return [Measurement(rate, 1.0, 100.0) for rate in rates]

    rows = standings(
        {
            Entry("CartPole", named["stable-baselines3"], PROCESS_PER_CORE): turns(10.0, 20.0, 40.0),
            Entry("CartPole", named["plain-pytorch"], ALONE): turns(1.0, 1.0, 1.0),
            Entry("CartPole", named["rejax"], ONE_PROCESS): turns(300.0, 100.0, 200.0),
            Entry("CartPole", named["rejax"], PROCESS_PER_CORE): turns(100.0, 900.0, 400.0),
            Entry("CartPole", named["srgdqn-srg"], ONE_PROCESS): turns(5.0),
            Entry("MountainCar", named["rejax"], ONE_PROCESS): turns(7.0),
            Entry("MountainCar", named["sbx"], ALONE): [],
        },
        COMPARISONS,
    )
    found = {(row["task"], row["contender"], row["arrangement"]): row for row in rows}
    split = found["CartPole", "rejax", "a process per core"]
    assert split["best_arrangement"]
    assert split["to_stable_baselines3"]["median"] == 400.0 / 20.0
    assert split["to_stable_baselines3"]["turns"] == [10.0, 45.0, 10.0]
    # Another number of rounds is another comparison, as is another job or another task.
    assert split["to_plain_pytorch"] is None
    assert found["CartPole", "srgdqn-srg", "one process"]["to_stable_baselines3"] is None
    assert found["MountainCar", "rejax", "one process"]["to_stable_baselines3"] is None
    together = found["CartPole", "rejax", "one process"]
    assert not together["best_arrangement"]
    assert together["to_stable_baselines3"] is None
    assert ("MountainCar", "sbx", "one core") not in found


def test_shares_follow_from_rates_and_operations() -> None:
    from arithmetic import ACTING, ADAM, FULL_BATCH, INNER, Operations
    from machine_rates import FEW_ROWS, LARGE, ONE_STEP, WEIGHT_GRADIENT, WHOLE_BATCH
    from shares import Run, part_rows, share_row

    rates = {ONE_STEP.name: 10.0, FEW_ROWS.name: 20.0, WHOLE_BATCH.name: 40.0, WEIGHT_GRADIENT.name: 50.0}
    rates[LARGE.name] = 100.0
    parts = {
        ACTING: Operations(passes=100),  # 10 s at its rate
        FULL_BATCH: Operations(passes=300, weight_gradients=500, elementwise=100),  # 20 s
        INNER: Operations(passes=100, weight_gradients=200, elementwise=100),  # 20 s
        ADAM: Operations(elementwise=200),  # 5 s
    }
    run = Run("CartPole", (20,), "xla", "srg-dqn")
    # Of 16 steps: 50, 100, 180 and 200 s, with a turn above and one below each.
    seconds = {("srg-dqn", False): 50, ("dqn-sgd", True): 100, ("srg-dqn-no-adam", True): 180, ("srg-dqn", True): 200}
    speeds = {
        run._replace(algorithm=algorithm, learning=learning): [0.01, 16 / block, 10.0]
        for (algorithm, learning), block in seconds.items()
    }
    row = share_row(run, speeds[run], parts, 16, rates)
    assert row["operations_per_block"] == 1_600
    assert row["operations_per_second"]["median"] == pytest.approx(8.0)
    assert row["share_of_peak"] == pytest.approx(0.08)
    assert row["share_of_small_products"] == pytest.approx(55 / 200)
    rows = {each["part"]: each for each in part_rows(run, speeds, parts, 16, rates)}
    assert {part: each["seconds"] for part, each in rows.items()} == pytest.approx(
        {ACTING: 50, FULL_BATCH: 50, INNER: 80, ADAM: 20}
    )
    assert sum(each["share"] for each in rows.values()) == pytest.approx(1.0)
    assert rows[INNER]["operations_per_second"] == pytest.approx(5.0)
    assert rows[INNER]["share_of_small_products"] == pytest.approx(0.25)


def test_the_parts_of_a_step_are_those_that_two_runs_are_made_of() -> None:
    from host_parts import Spent, microseconds_per_step
    from job.settings import FIRST_UPDATE

    steps, idle_steps, learned_steps = 20_000, 20_010, 20_500  # with evaluations, which are no part of training
    environment, acting, bookkeeping, learning = 20e-6, 8e-6, 5e-6, 3e-6
    idle = (
        idle_steps * (1.5 * environment + acting) + steps * bookkeeping
    )  # more resets than where something is learned
    learned = learned_steps * (environment + acting) + steps * bookkeeping + (steps - FIRST_UPDATE) * learning
    spent = {
        "idle": Spent(idle, idle_steps * 1.5 * environment, idle_steps * acting, idle_steps),
        # Acting has waited for what was learned, which is none of its time.
        "learned": Spent(learned, learned_steps * environment, learned_steps * acting + 0.01, learned_steps),
    }
    assert microseconds_per_step(spent, steps) == pytest.approx(
        {"environment": 20, "acting": 8, "bookkeeping": 5, "learning": 3}
    )
    together = {run: each._replace(acting_seconds=None) for run, each in spent.items()}
    expected = {
        "environment": 20,
        "acting and bookkeeping": 5 + 8 * idle_steps / steps,
        "learning": 3 + 8 * (learned_steps - idle_steps) / (steps - FIRST_UPDATE),
    }
    assert microseconds_per_step(together, steps) == pytest.approx(expected)


def test_medians_of_parts_have_shares_and_aims_are_met_by_medians() -> None:
    from host import aim_rows, part_rows

    rows = part_rows({"srg-dqn": [], "dqn-adam": [{"acting": 1.0, "learning": 6.0}, {"acting": 3.0, "learning": 2.0}]})
    assert [(row["part"], row["microseconds"]["median"], row["share"]) for row in rows] == [
        ("acting", 2.0, pytest.approx(1 / 3)),
        ("learning", 4.0, pytest.approx(2 / 3)),
    ]
    ratios = {"to_stable_baselines3": {"median": 4.9, "turns": [6.0, 3.8]}, "to_plain_pytorch": None}
    [aim] = aim_rows([{"contender": "srgdqn-adam", **ratios}, {"contender": "srgdqn-srg"}])
    assert (aim["at_least"], aim["reached"]["turns"], aim["met"]) == (5.0, [6.0, 3.8], False)
    ratios["to_plain_pytorch"] = {"median": 3.0, "turns": [3.0]}
    assert [aim["met"] for aim in aim_rows([{"contender": "srgdqn-adam", **ratios}])] == [False, True]


@pytest.mark.parametrize(("steps", "updates"), [(1_184, 12), (1_200, 13), (50_000, 3_063)])
def test_another_job_than_that_asked_for_is_noticed(
    steps: int, updates: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from job.clocks import Tick, measure_rounds
    from job.settings import Job

    job = Job("CartPole", steps, seed=0, rounds=2, seconds=None, hidden=(20,), together=False)
    # By hand: an update after every 16th step, none before the 1,000th.
    assert sum(made >= 1_000 and made % 16 == 0 for made in range(1, steps + 1)) == updates

    def train_round(seed: int, tick: Tick, *, missing: int = 0) -> int:
        return sum(tick(made) for made in range(1_008, steps + 1 - missing, 16))

    measure_rounds(job, train_round)
    assert json.loads(capsys.readouterr().out)["steps"] == 2 * (steps - 1_168)
    with pytest.raises(
        RuntimeError, match=rf"a round had {steps:,} steps and {updates - 1:,} updates, but the job has"
    ):
        measure_rounds(job, lambda seed, tick: train_round(seed, tick) - 1)
    with pytest.raises(RuntimeError, match=f"a round had {steps - 16:,} steps"):
        measure_rounds(job, lambda seed, tick: train_round(seed, tick, missing=16))


@pytest.mark.parametrize("cores", [1, 2, 3, 64])
def test_every_round_is_some_processes_share(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import arrangements

    monkeypatch.setattr(arrangements, "usable", lambda: tuple(range(cores)))
    shares = arrangements.PROCESS_PER_CORE.shares()
    rounds = [number for share in shares for number in range(share.first_round, share.first_round + share.rounds)]
    assert rounds == list(range(arrangements.ROUNDS))
    assert [share.cores for share in shares] == [(core,) for core in range(min(cores, arrangements.ROUNDS))]


def test_a_broken_library_is_absent_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "gymnax.py").write_text("raise ImportError('broken on purpose')")
    report = run("peers.py", tmp_path / "peers.json", "--only", "purejaxrl-style", path=tmp_path)
    assert report["rows"] == []
    assert [each["contender"] for each in report["absent"]] == ["purejaxrl-style"] * 3
    assert {each["reason"] for each in report["absent"]} == {"ImportError: broken on purpose"}


# What a quick run of each script must show, beside its circumstances.
RUNS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "peers": lambda r: {row["contender"] for row in r["rows"]} == {"srgdqn-adam", "plain-jax"} and r["absent"] == [],
    "host": lambda r: all(row["to_environment"]["median"] > 0 for row in r["rows"]) and r["absent"] == [],
    "frames": lambda r: all(0 < each["lowest"] <= each["median"] for each in r["microseconds"].values()),
    "checkpoints": lambda r: all(0 < each["spent"] < each["seconds"] for each in r["runs"].values()),
    # N = 64 and M = 16: N, N + M, N + 2M, and (M + 1)N.
    "queries": lambda r: (
        {row["estimator"]: row["queries_per_iteration"] for row in r["rows"]}
        == {"none": 64, "sgd": 80, "svrg": 96, "srg": 96, "full": 1_088}
        | dict.fromkeys(("alpha_svrg", "sarah_plus", "storm_inner"), 96)
        | dict.fromkeys(("sag", "saga"), 80)  # a table of D, whose first entries are those of Δ_0
        | {"loopless_sarah": 158, "loopless_svrg": 160}  # one in 16 of M is a whole batch
        # One direction per batch: without Δ_0; large samples have 16 N rows, one in 16 or (windows) in 100 batches.
        | {
            "storm": 128,
            "mars": 128,
            "page": 184,
            "spider": 184,
            "window_svrg": 138,
            "sag_replay": 64,
            "saga_replay": 64,
        }
    ),
    "cold_start": lambda r: len(r["seconds"]["compiling"]) == 2,
    # The compiler also counts products with zeros, so that it never has less.
    "limit": lambda r: all(0.5 < row["formula"] / row["compiler"] < 1 for row in r["counts"]),
    "growth": lambda r: all(row["seconds_per_step"] > 0 for row in r["rows"]) and r["absent"] == [],
}
ONLY = {"peers": ("srgdqn-adam", "plain-jax"), "host": ("environment", "srgdqn-adam", "srgdqn-srg")}


@pytest.mark.slow
@pytest.mark.parametrize("script", RUNS)
def test_a_quick_run_measures_what_it_should(script: str, tmp_path: Path) -> None:
    words = ("--only", *ONLY[script]) if script in ONLY else ()
    report = run(f"{script}.py", tmp_path / f"{script}.json", *words)
    assert report["circumstances"]["versions"]["jax"]
    assert RUNS[script](report)
