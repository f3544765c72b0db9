"""What runs a configuration is decided by what the kernel can do, and told."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import srgdqn
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.kernel import support as choice
from srgdqn.kernel.build import NoKernelError
from srgdqn.kernel.support import Surroundings, settled
from srgdqn.learner.estimators import ESTIMATORS
from tiny import TINY, Levers

USUAL = Surroundings(own_environment=False, double=False, on_cpu=True)


def kernel_of(configuration: Configuration, surroundings: Surroundings = USUAL) -> str:
    return settled(configuration, surroundings).training.kernel


@pytest.fixture(autouse=True)
def a_compiler_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "library", lambda: None)


@pytest.mark.parametrize("task", ["MountainCar", "Pendulum", "CartPole"])
@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn", "dqn-sgd-queries", "dqn-adam-repeated"])
def test_the_papers_own_runs_are_the_kernels(task: str, algorithm: str) -> None:
    assert kernel_of(configure(task, algorithm)) == "native"
    assert kernel_of(configure(task, algorithm, readings="printed")) == "native"
    assert kernel_of(configure(task, algorithm, kernel="xla")) == "xla"


OBSTACLES: list[tuple[dict[str, Any], str]] = [
    (dict(activation="tanh"), "no activation 'tanh'"),
    (dict(hidden=(3,) * 8), "8 layers"),
    (dict(hidden=(50_000, 50_000)), "more weights"),
    (dict(hidden=(500_000_000,)), "more weights"),
    (dict(differentiation="autodiff"), "'autodiff'"),
    (dict(sampling="without-replacement"), "with replacement"),
    (dict(inner_sampling="without-replacement"), "with replacement"),
    (dict(normalise_observations=True), "normalises nothing"),
    (dict(normalise_rewards=True), "normalises nothing"),
    (dict(network="mine.Net"), "'mine.Net'"),
]


@pytest.mark.parametrize(("options", "reason"), OBSTACLES)
def test_what_the_kernel_cannot_do_is_left_to_xla_or_refused(options: dict[str, Any], reason: str) -> None:
    assert kernel_of(configure("CartPole", "srg-dqn", **options)) == "xla"
    with pytest.raises(InputError, match=f"kernel is 'native', but .*{reason}.*Give kernel = 'xla' or 'auto'"):
        kernel_of(configure("CartPole", "srg-dqn", kernel="native", **options))


@pytest.mark.parametrize(
    ("surroundings", "reason"),
    [
        (USUAL._replace(own_environment=True), "not 'CartPole'"),
        (USUAL._replace(double=True), "double"),
    ],
)
def test_so_is_what_surrounds_it(surroundings: Surroundings, reason: str) -> None:
    assert kernel_of(configure("CartPole"), surroundings) == "xla"
    with pytest.raises(InputError, match=reason):
        kernel_of(configure("CartPole", kernel="native"), surroundings)


def test_an_estimator_of_the_users_own_is_left_to_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "mine", ESTIMATORS["srg"])
    assert kernel_of(configure("CartPole", estimator="mine")) == "xla"


@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        (dict(hidden=(256, 256)), "native"),
        (dict(hidden=(257,)), "xla"),
        (dict(hidden=(32,), lanes=1), "native"),
        (dict(hidden=(33,), lanes=1), "xla"),
        (dict(hidden=()), "native"),
    ],
)
def test_wide_layers_are_left_to_xla_where_that_is_faster(options: dict[str, Any], kernel: str) -> None:
    assert kernel_of(configure("CartPole", **options)) == kernel
    assert kernel_of(configure("CartPole", kernel="native", **options)) == "native"


def test_an_accelerator_is_used() -> None:
    assert kernel_of(configure("CartPole"), USUAL._replace(on_cpu=False)) == "xla"


def test_without_a_compiler_xla_runs_or_it_is_said_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NoKernelError("there is no C compiler called 'cc'")

    monkeypatch.setattr(choice, "library", missing)
    assert kernel_of(configure("CartPole")) == "xla"
    with pytest.raises(InputError, match="no C compiler called 'cc'"):
        kernel_of(configure("CartPole", kernel="native"))


@pytest.mark.usefixtures("kernel")
def test_a_run_tells_what_ran_it() -> None:
    options = {**TINY, "steps": 64}
    by_kernel = srgdqn.train("CartPole", "dqn-sgd", kernel="native", **options)
    assert by_kernel.configuration.training.kernel == "native"
    assert by_kernel.run.provenance["compiler"]
    by_xla = srgdqn.train("CartPole", "dqn-sgd", kernel="xla", **options)
    assert by_xla.configuration.training.kernel == "xla"
    assert by_xla.run.provenance["compiler"] is None


def test_a_users_environment_is_trained_by_xla() -> None:
    result = srgdqn.train(Levers(), "dqn-sgd", **{**TINY, "steps": 64})
    assert result.configuration.training.kernel == "xla"


def test_a_machine_without_a_compiler_trains() -> None:
    script = (
        "import srgdqn; r = srgdqn.train('CartPole', 'dqn-sgd', steps=64, learning_starts=16, lanes=1, hidden=(2,), "
        "batch_size=2, evaluation_episodes=1, progress=False); print(r.configuration.training.kernel)"
    )
    surroundings = {**os.environ, "CC": "no-such-compiler"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=surroundings)
    assert done.stdout.split() == ["xla"], done.stderr
