"""What runs a configuration follows from what the kernel supports, and is recorded."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import srgdqn
from srgdqn.config import Configuration, option_names, sections
from srgdqn.config.algorithms import ADAM_STEPS
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.kernel import support
from srgdqn.kernel.build import NoKernelError
from srgdqn.kernel.structures import LEARNER, LOOP
from srgdqn.kernel.support import AROUND, AROUND_LEARNER, KernelConditions, resolved, resolved_on_host
from tiny import TINY

USUAL = KernelConditions(own_environment=False, double=False, on_cpu=True)


def kernel_of(configuration: Configuration, surroundings: KernelConditions = USUAL) -> str:
    return resolved(configuration, surroundings).training.kernel


@pytest.fixture(autouse=True)
def a_compiler_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "library", lambda: None)


@pytest.mark.parametrize("task", ["MountainCar", "Pendulum", "CartPole", "Acrobot"])
@pytest.mark.parametrize("algorithm", ["srg-dqn", "svr-dqn", "dqn-sgd-queries", "dqn-adam-repeated", *ADAM_STEPS])
def test_the_papers_own_runs_are_the_kernels(task: str, algorithm: str) -> None:
    assert kernel_of(configure(task, algorithm)) == "native"
    assert kernel_of(configure(task, algorithm, readings="printed")) == "native"
    assert kernel_of(configure(task, algorithm, kernel="xla")) == "xla"


OBSTACLES: list[tuple[dict[str, Any], str]] = [
    (dict(activation="tanh"), "no activation = 'tanh', only 'relu'"),
    (dict(hidden=(3,) * 8), "8 layers"),
    (dict(hidden=(50_000, 50_000)), "more weights"),
    (dict(hidden=(500_000_000,)), "more weights"),
    (dict(differentiation="autodiff"), "'autodiff'"),
    (dict(sampling="without-replacement"), "no sampling = .*, only 'with-replacement', 'newest'"),
    (dict(inner_sampling="without-replacement"), "no inner_sampling = .*, only 'with-replacement'"),
    (dict(normalise_observations=True), "no normalise_observations = True"),
    (dict(normalise_rewards=True), "no normalise_rewards = True"),
    (dict(reward_clip=1.0), "no reward_clip = 1.0"),
    (dict(network="mine.Net"), "'mine.Net'"),
    (dict(target="hard", target_networks=2), "no target_networks = 2"),
    (dict(target="outer", bootstrap="munchausen"), "no bootstrap = 'munchausen'"),
    (dict(target="hard", adam_at_copy="reset"), "no adam_at_copy = 'reset'"),
    (dict(reward_estimation=True), "no reward_estimation = True"),
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
def test_so_is_what_surrounds_it(surroundings: KernelConditions, reason: str) -> None:
    assert kernel_of(configure("CartPole"), surroundings) == "xla"
    with pytest.raises(InputError, match=reason):
        kernel_of(configure("CartPole", kernel="native"), surroundings)


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize(
    ("estimator", "numbers", "kernel"),
    [
        ("storm", dict(a=0.2, reset=0.0), "native"),
        ("storm_inner", dict(a=0.2), "native"),
        ("storm", dict(a=0.2), "xla"),
        ("storm", dict(a=0.2, reset=0.0, invented=1.0), "xla"),
        ("storm_inner", dict(a=0.2, reset=0.0), "xla"),
        ("srg", dict(a=0.2), "xla"),
        ("mars", dict(mars_gamma=0.025), "xla"),
    ],
)
def test_only_the_numbers_that_the_kernel_has_of_an_estimator_are_supported(
    estimator: str, numbers: dict[str, float], kernel: str, on_host: bool
) -> None:
    default = Configuration()
    inner = dataclasses.replace(default.estimator, estimator=estimator, own=tuple(numbers.items()))
    configuration = dataclasses.replace(default, estimator=inner)
    assert decided(configuration, "auto", on_host=on_host) == kernel
    if kernel == "xla":
        with pytest.raises(InputError, match=r"has other numbers|has no estimator"):
            decided(configuration, "native", on_host=on_host)


# An option, or a value of one, that is added tomorrow


def decided(configuration: Configuration, kernel: str, *, on_host: bool) -> str:
    training = dataclasses.replace(configuration.training, kernel=kernel)
    asked = dataclasses.replace(configuration, training=training)
    return resolved_on_host(asked, double=False).training.kernel if on_host else kernel_of(asked)


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("section", sections())
def test_an_option_that_the_kernel_does_not_know_is_not_ignored(section: str, on_host: bool) -> None:
    configuration = Configuration()
    settings = getattr(configuration, section)
    invented = [("invented", float, dataclasses.field(default=0.5))]
    extended = dataclasses.make_dataclass("Extended", invented, bases=(type(settings),), frozen=True)

    def with_invented(value: float) -> Configuration:
        return dataclasses.replace(configuration, **{section: extended(**dataclasses.asdict(settings), invented=value)})

    assert decided(with_invented(0.5), "auto", on_host=on_host) == "native"
    assert decided(with_invented(0.7), "auto", on_host=on_host) == "xla"
    with pytest.raises(InputError, match=r"kernel is 'native', but it has no invented = 0\.7, only 0\.5\."):
        decided(with_invented(0.7), "native", on_host=on_host)


@pytest.mark.parametrize("name", [*LOOP, *AROUND, *AROUND_LEARNER])
def test_what_is_called_supported_is_an_option(name: str) -> None:
    assert name in option_names()  # one that was renamed would be 0 in the kernel, not at its default


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("name", sorted(option_names().keys() - {"hidden", "kernel", "lanes"}))  # read by the choice
def test_an_option_off_its_default_is_supported_or_declined(name: str, on_host: bool) -> None:
    supported = LEARNER | AROUND_LEARNER if on_host else LOOP | AROUND
    configuration = Configuration().with_options({name: "invented"})
    if supported.get(name, ()) is None:
        assert decided(configuration, "auto", on_host=on_host) == "native"
        return
    assert decided(configuration, "auto", on_host=on_host) == "xla"
    with pytest.raises(InputError, match=f"it has no {name} = 'invented', only "):
        decided(configuration, "native", on_host=on_host)


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

    monkeypatch.setattr(support, "library", missing)
    with pytest.warns(RuntimeWarning, match="kernel cannot be used: there is no C compiler called 'cc'"):
        assert kernel_of(configure("CartPole")) == "xla"
    assert kernel_of(configure("CartPole", kernel="xla")) == "xla"  # by choice: without a warning
    with pytest.raises(InputError, match="no C compiler called 'cc'"):
        kernel_of(configure("CartPole", kernel="native"))


@pytest.mark.usefixtures("kernel")
def test_a_run_records_what_ran_it() -> None:
    options = {**TINY, "steps": 64}
    by_kernel = srgdqn.train("CartPole", "dqn-sgd", kernel="native", **options)
    assert by_kernel.configuration.training.kernel == "native"
    assert by_kernel.run.provenance["compiler"]
    by_xla = srgdqn.train("CartPole", "dqn-sgd", kernel="xla", **options)
    assert by_xla.configuration.training.kernel == "xla"
    assert by_xla.run.provenance["compiler"] is None
