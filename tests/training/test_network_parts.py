"""Rounds with networks that have parts, and with distributions: to their end, resumed, verified, traced, exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import srgdqn
from checkpointed_runs import checkpointed_run, hosted_run
from host_environments import SMALL
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.inspection.rerun import rerun
from srgdqn.inspection.saved_run import open_run
from srgdqn.integrations.policy import policy_of
from srgdqn.runs.checkpoint_manager import JobCheckpoints
from srgdqn.training.draws import acting_key
from tiny import BLOCK, outcome, tiny

HOW: dict[str, Any] = dict(
    kernel="xla",
    dueling=True,
    layer_norm=True,
    noisy=True,
    dropout=0.2,
    loss="c51",
    value_min=0.0,
    value_max=12.0,
    atoms=5,
    target="hard",
    target_period=3,
    bootstrap="double",
    epsilon_start=0.0,
    epsilon_end=0.0,
    direction_errors=True,
)


class Killed(BaseException):
    """What stands for the end of a process."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("parts")
    checkpointed_run(folder / "compiled", **HOW)
    hosted_run(folder / "hosted", **HOW)
    return {name: folder / name for name in ("compiled", "hosted")}


@pytest.fixture(params=["compiled", "hosted"])
def run(request: pytest.FixtureRequest, runs: dict[str, Path]) -> Path:
    return runs[request.param]


def test_it_is_verified_and_resumed_to_the_same_bits(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = srgdqn.load(run)
    assert result.rounds["diverged_at"].null_count() == result.rounds.height
    assert np.isfinite(result.curves["loss"].drop_nulls().drop_nans().to_numpy()).all()
    assert 0 <= result.curves["max_q"].drop_nulls().drop_nans().max() <= 12
    assert srgdqn.verify(run, 0, progress=False).verdict == "identical"
    train, saving, saved = checkpointed_run if run.name == "compiled" else hosted_run, JobCheckpoints.save, []

    def save(checkpoints: JobCheckpoints, snapshot: Any) -> float:
        saved.append(saving(checkpoints, snapshot))
        if len(saved) == 3:
            raise Killed
        return saved[-1]

    monkeypatch.setattr(JobCheckpoints, "save", save)
    with pytest.raises(Killed):
        train(tmp_path / "run", **HOW)
    resumed = train(tmp_path / "run", **HOW, resume=True)
    assert outcome(resumed) == outcome(result)


def test_it_is_traced_with_its_own_noise(run: Path) -> None:
    """The traced iterations lead to the run's own parameters: the same noise, masks and targets."""
    replay = srgdqn.replay_round(run, 0)
    assert replay.faithful
    assert replay.difference < 1e-5
    targets = replay.inner["target"].drop_nulls()
    assert targets.min() >= 0
    assert targets.max() <= 12


def test_directions_are_measured(run: Path) -> None:
    errors = srgdqn.load(run).directions
    assert errors.height > 1
    assert np.isfinite(errors["squared_error"].drop_nulls().drop_nans().to_numpy()).all()


def test_compiled_rounds_act_with_the_noise_of_the_block(runs: dict[str, Path]) -> None:
    """Actions before any learning are the best by parameters with one draw of noise per block, and not by the means."""
    saved = open_run(runs["compiled"])
    network = saved.q_network()
    with rerun(saved, 0) as round_:
        start = round_._state()
        key = jax.random.wrap_key_data(jax.random.key_data(start.key), impl="threefry2x32")
        round_.advance(2)
        assert int(round_._state().learner.iterations) == 0
        made = round_._state().gather(np.arange(2 * BLOCK))
    actions, by_means = [], []
    for block in range(2):
        rows = made.observation[block * BLOCK : (block + 1) * BLOCK]
        theta = network.perturbed(start.learner.parameters, acting_key(key, np.int32(block)))
        actions += np.asarray(network.q_values(theta, rows).argmax(-1)).tolist()
        by_means += np.asarray(network.q_values(start.learner.parameters, rows).argmax(-1)).tolist()
    assert np.asarray(made.action).tolist() == actions
    assert actions != by_means


def test_rounds_on_the_host_act_with_the_noise_of_the_block_and_predict_without() -> None:
    agent = srgdqn.Agent("srg-dqn", "CartPole-v1", **{**SMALL, **HOW, "direction_errors": False})
    try:
        agent.learn(100)
        round_ = agent._round
        rows = np.random.default_rng(0).normal(0, 1, (400, 4)).astype(np.float32)
        network, theta = round_.network, round_.learner.parameters
        noisy = network.perturbed(theta, acting_key(round_.key, np.int32(round_.blocks)))
        assert round_.acting_policy.rows(rows).tolist() == network.q_values(noisy, rows).argmax(-1).tolist()
        means = np.asarray(network.q_values(theta, rows).argmax(-1)).tolist()
        assert agent.predict(rows)[0].tolist() == means
        assert round_.acting_policy.rows(rows).tolist() != means
    finally:
        agent.close()


def test_exports_have_the_means(tmp_path: Path) -> None:
    parts = {name: HOW[name] for name in ("dueling", "layer_norm", "noisy", "dropout", "kernel")}
    result = checkpointed_run(tmp_path / "run", rounds=1, **parts)
    policy = policy_of(result, 0)
    observations = np.random.default_rng(0).normal(0, 1, (200, 4)).astype(np.float32)
    stored = {name: np.asarray(array, np.float64) for name, array in result.parameters_of(0).items()}

    def affine(x: np.ndarray, name: str) -> np.ndarray:
        return x @ stored[f"network.{name}.weight"] + stored[f"network.{name}.bias"]

    hidden = affine(observations, "layers.0")
    hidden = (hidden - hidden.mean(1, keepdims=True)) / np.sqrt(hidden.var(1, keepdims=True) + 1e-5)
    hidden = np.maximum(hidden * stored["network.norms.0.gain"] + stored["network.norms.0.shift"], 0)
    advantage = affine(hidden, "layers.1")
    expected = affine(hidden, "value") + advantage - advantage.mean(1, keepdims=True)
    np.testing.assert_allclose(policy.q_values(observations), expected, rtol=1e-4, atol=1e-4)
    assert policy(observations).tolist() == result.policy(0)(observations).tolist()

    import onnxruntime

    from srgdqn.integrations.export_formats import onnx_bytes

    session = onnxruntime.InferenceSession(onnx_bytes(policy), providers=["CPUExecutionProvider"])
    values = session.run(["q_values"], {"observation": observations})[0]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)


def test_distributions_are_not_exported(runs: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="loss = 'c51'"):
        policy_of(srgdqn.load(runs["compiled"]), 0)


def test_the_kernel_declines_them() -> None:
    for options in ({"dueling": True}, {"noisy": True}, {"loss": "hl-gauss", "value_min": 0, "value_max": 9}):
        with pytest.raises(InputError, match="kernel is 'native', but it has no"):
            srgdqn.train("CartPole", "srg-dqn", steps=2_000, kernel="native", progress=False, **options)


def test_dropout_is_a_number() -> None:
    one, other = (configure("CartPole", "srg-dqn", steps=2_000, dropout=share) for share in (0.1, 0.3))
    assert one.shape() == other.shape() != tiny()[0].shape()
