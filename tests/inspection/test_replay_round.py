"""`srgdqn.replay_round`: which gradient did it, in rounds that were made to diverge."""

import functools
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import reference
import srgdqn
from checkpointed_runs import checkpointed_run, hosted_run, with_another_bit
from srgdqn.errors import InputError
from srgdqn.inspection.rerun import rerun
from srgdqn.inspection.saved_run import open_run
from srgdqn.inspection.trace import INNER, ITERATIONS
from tiny import BLOCK, HIDDEN
from translation import options_of

# So large a step that the very first outer iterations blow up, but not at once.
PLANTED = dict(eta=3.0, rounds=2, steps=400)
LARGEST = float(np.finfo(np.float32).max)


@pytest.fixture(scope="module")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diverged") / "run"
    result = checkpointed_run(folder, kernel="xla", inner_iterations=6, **PLANTED)
    assert result.rounds["diverged_at"].null_count() == 0
    return folder


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy") / "run"
    assert checkpointed_run(folder, kernel="xla").rounds["diverged_at"].null_count() == 3
    return folder


@functools.cache
def replayed(folder: Path, number: int) -> srgdqn.Replay:
    """A replay that several tests look at: each compiles a program."""
    return srgdqn.replay_round(folder, number)


def test_the_iteration_that_was_discarded_is_the_last_traced(diverged: Path) -> None:
    row = srgdqn.load(diverged).rounds.row(1, named=True)
    replay = replayed(diverged, 1)
    last = replay.iterations.row(-1, named=True)
    assert (last["discarded"], last["step"], replay.diverged_at) == (True, row["diverged_at"], row["diverged_at"])
    assert last["outer_iteration"] == row["outer_iterations"] == replay.diagnosis.discarded
    assert not replay.iterations["discarded"][:-1].any()
    assert (replay.faithful, replay.difference) == (True, 0.0)  # the traced parameters are the run's own, to the bit
    assert str(replay).endswith(f"faithful; diverged at step {row['diverged_at']:,}>")
    growth, nonfinite = replay.diagnosis.growth, replay.diagnosis.nonfinite
    assert growth is not None
    assert nonfinite is not None
    assert growth.outer_iteration <= nonfinite.outer_iteration
    assert f"Outer iteration {growth.outer_iteration}" in replay.diagnosis.words[0]


def test_the_first_that_is_no_number_is_where_plain_numpy_exceeds_its_range(diverged: Path) -> None:
    """Algorithm 1 in double precision, from the state, the batch and the picks of the outer iteration that diverged: in
    which inner iteration does something first grow beyond what single precision holds?
    """
    for number in (0, 1):
        replay, saved = replayed(diverged, number), open_run(diverged)
        with rerun(saved, number) as round_:
            iterations_made = [round_.next_iterations() for _ in range(saved.row_of(number)["steps"] // BLOCK)]
        [inputs] = iterations_made[-1]
        size = inputs.transitions.observation.shape[1]
        options = options_of(saved.configuration, (size, HIDDEN, 2))
        theta = np.concatenate(
            [
                np.ravel(np.asarray(part, np.float64))
                for layer in inputs.before.parameters.layers
                for part in (layer.weight, layer.bias)
            ]
        )
        data = [
            reference.Transition(np.asarray(s, float), int(a), float(r), np.asarray(n, float), bool(t))
            for s, a, r, n, t in zip(*inputs.transitions[:5], strict=True)
        ]
        picks = inputs.picks.tolist()
        with np.errstate(all="ignore"):
            _, record = reference.outer_iteration("srg-dqn", options, reference.init(options, theta), data, picks)
        beyond = [
            m
            for m in range(len(record.delta))
            if not (np.abs(record.delta[m]).max() < LARGEST and np.abs(record.theta[m + 1]).max() < LARGEST)
        ]
        event = replay.diagnosis.nonfinite
        assert event is not None
        assert event.outer_iteration == replay.iterations["outer_iteration"][-1]
        if not beyond:  # only in the squares that enter Adam's v
            assert (event.m, event.quantity) == (None, "Adam's v")
            assert np.abs(record.delta[-1]).max() ** 2 * (1 - options.beta2) > LARGEST
        else:
            assert event.m == beyond[0]
        until = beyond[0] if beyond else len(record.delta)
        inner = replay.inner.filter(pl.col("outer_iteration") == event.outer_iteration)
        finite = [float(np.linalg.norm(record.delta[m])) for m in range(until)]
        assert inner["delta_norm"][:until].to_list() == pytest.approx(finite, rel=0.02)
        assert inner["row"][1:].to_list() == [row for [row] in picks]


def test_a_healthy_stretch_agrees_with_the_runs_own_curves(healthy: Path) -> None:
    """The means of loss, max_a Q and norms over a window are those that the run recorded."""
    replay = srgdqn.replay_round(healthy, 1, from_step=101, until_step=150)
    curves = srgdqn.load(healthy).curves.filter((pl.col("round") == 1) & (pl.col("step") == 150))
    assert replay.iterations["step"].to_list() == [112, 128, 144]
    assert replay.faithful
    assert replay.difference == 0.0
    last = replay.inner.filter(pl.col("m") == 2)
    for found, column in (
        (replay.iterations["loss"], "loss"),
        (replay.iterations["max_q"], "max_q"),
        (replay.iterations["after_norm"], "theta_norm"),
        (last["delta_norm"], "delta_norm"),
    ):
        assert found.mean() == pytest.approx(curves[column][0], rel=1e-5)
    assert replay.diagnosis.discarded is None
    assert str(replay) == f"<Replay of {healthy}, round 1: outer iterations 5 to 7, faithful; did not diverge>"


def test_it_begins_at_the_newest_checkpoint_before_the_stretch(healthy: Path) -> None:
    assert srgdqn.replay_round(healthy, 1, from_step=150, until_step=180).started_at == 128
    from_checkpoint = srgdqn.replay_round(healthy, 2, from_step=330)
    assert from_checkpoint.started_at == 320
    assert from_checkpoint.checked[-1].endswith("final parameters, to the bit")
    whole = srgdqn.replay_round(healthy, 2, from_step=1)
    assert whole.started_at == 0
    assert whole.iterations.tail(from_checkpoint.iterations.height).equals(from_checkpoint.iterations)
    assert whole.inner.tail(from_checkpoint.inner.height).equals(from_checkpoint.inner)


def test_on_the_host(tmp_path: Path) -> None:
    row = hosted_run(tmp_path / "run", kernel="xla", eta=1e4, inner_iterations=6).rounds.row(0, named=True)
    replay = srgdqn.replay_round(tmp_path / "run", 0)
    assert (replay.faithful, replay.difference) == (True, 0.0)
    assert replay.iterations["step"][-1] == row["diverged_at"]
    assert replay.iterations["outer_iteration"][-1] == row["outer_iterations"] == replay.diagnosis.discarded


def test_by_the_kernel(tmp_path: Path, kernel: None) -> None:
    """States are the kernel's own; what is traced beside it, by XLA, is the same to within rounding."""
    del kernel
    result = checkpointed_run(tmp_path / "run", kernel="native", lanes=8, inner_iterations=6, **PLANTED)
    replay = srgdqn.replay_round(tmp_path / "run", 0)
    assert replay.faithful
    assert replay.iterations["step"][-1] == result.rounds["diverged_at"][0]
    assert 0 <= replay.difference < 1e-3


def test_a_rerun_that_is_not_the_run_is_reported(healthy: Path, tmp_path: Path) -> None:
    other = with_another_bit(healthy, tmp_path / "other", "network.layers.0.bias", (1, 2))
    replay = srgdqn.replay_round(other, 1)
    assert not replay.faithful
    assert replay.problems[0].startswith("network.layers.0.bias[2] is ")


def test_the_trace_as_a_file(diverged: Path, tmp_path: Path) -> None:
    replay = replayed(diverged, 1)
    assert dict(replay.iterations.schema) == ITERATIONS
    assert dict(replay.inner.schema) == INNER
    table = pl.read_parquet(replay.save(tmp_path / "trace.parquet"))
    assert table.equals(replay.table)
    assert replay.save(tmp_path / "norms.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InputError, match="exists already"):
        replay.save(tmp_path / "trace.parquet")


@pytest.mark.parametrize(
    ("number", "stretch", "why"),
    [
        (
            0,
            {"from_step": 9_000},
            "--from-step is 9,000, but round 0 made its outer iterations from step 48",
        ),
        (0, {"until_step": 401}, "--until-step is 401, but round 0"),
        (0, {"from_step": 100, "until_step": 110}, "one every 16 steps, from step 48 on"),
        (0, {"until_step": 40}, "one every 16 steps, from step 48 on"),
        (5, {}, "no round 5 in this run"),
    ],
)
def test_what_cannot_be_replayed(healthy: Path, number: int, stretch: dict[str, int], why: str) -> None:
    with pytest.raises(InputError, match=why):
        srgdqn.replay_round(healthy, number, **stretch)
