import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import srgdqn
from srgdqn.adapters.defaults import defaults_of
from srgdqn.cli import main
from srgdqn.config import Configuration
from srgdqn.config.algorithms import ALGORITHMS, READINGS
from srgdqn.config.coercion import annotation_of
from srgdqn.config.configure import configure
from srgdqn.config.estimator_numbers import numbers_of_estimator
from srgdqn.config.options import option_names
from srgdqn.config.other_names import ANSWERS, SYNONYMS
from srgdqn.config.presets import HOST_DEFAULTS, HOST_PRESETS, IMAGE_DEFAULTS, PRESETS
from srgdqn.errors import InputError
from srgdqn.learner.estimators import ESTIMATORS
from srgdqn.sweeps.grid import known


@pytest.mark.parametrize("task", PRESETS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("readings", READINGS)
def test_every_named_composition_can_be_run(task: str, algorithm: str, readings: str) -> None:
    configuration = configure(task, algorithm, readings=readings)
    options = configuration.options()
    expected = {**Configuration().options(), **PRESETS[task], **ALGORITHMS[algorithm].options, **READINGS[readings]}
    own = {name: number.default for name, number in numbers_of_estimator(options["estimator"]).items()}
    assert options == {**expected, **own, "task": task}
    assert (configuration.algorithm, configuration.readings) == (algorithm, readings)


def test_table_1_of_the_paper() -> None:
    mountain_car, pendulum, cart_pole = (configure(task) for task in ("MountainCar", "Pendulum", "CartPole"))
    assert [c.network.hidden for c in (mountain_car, pendulum, cart_pole)] == [(20,), (20,), (8,)]
    assert [c.optimiser.eta for c in (mountain_car, pendulum, cart_pole)] == [1e-2, 1e-3, 1e-2]
    assert [c.replay.batch_size for c in (mountain_car, pendulum, cart_pole)] == [64, 32, 64]
    assert [c.gradients.gamma for c in (mountain_car, pendulum, cart_pole)] == [0.9, 0.9, 0.99]
    assert (mountain_car.training.steps, pendulum.training.steps) == (100_000, 20_000)
    assert (cart_pole.training.steps, cart_pole.training.episodes) == (None, 800)


@pytest.mark.parametrize("unit", ["steps", "outer_iterations", "episodes"])
@pytest.mark.parametrize("task", PRESETS)
def test_a_budget_replaces_the_presets_of_whatever_unit(task: str, unit: str) -> None:
    training = configure(task, **{unit: 2_000}).training
    budgets = {name: getattr(training, name) for name in ("steps", "outer_iterations", "episodes")}
    assert budgets == {"steps": None, "outer_iterations": None, "episodes": None, unit: 2_000}


def test_a_budget_of_none_is_none_given() -> None:
    assert configure("MountainCar", episodes=None, steps="none").training.steps == 100_000
    assert configure("MountainCar", episodes=300, steps=None).training.episodes == 300


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("MountianCar",), {}, "unknown task 'MountianCar'. Did you mean 'MountainCar'?"),
        ((3,), {}, "task is 3, which is not a name"),
        ((["CartPole"],), {}, "task is ['CartPole'], which is not a name"),
        (("CartPole", "srgdqn"), {}, "unknown algorithm 'srgdqn'. Did you mean 'srg-dqn'?"),
        (("CartPole", None), {}, "algorithm is None, which is not a name"),
        (("CartPole", "DQN"), {}, "unknown algorithm 'DQN'. Did you mean 'dqn-adam'"),
        (("CartPole", "Double_DQN"), {}, "Give 'dqn-adam' with bootstrap = 'double' and target = 'hard' or 'polyak'."),
        (("CartPole", "MlpPolicy"), {}, "The algorithm comes first: 'dqn-adam', say."),
        (("CartPole", "rainbow"), {}, "Give 'dqn-adam' with its parts: bootstrap = 'double'"),
        (("CartPole",), dict(readings="printd"), "unknown set of readings 'printd'. Did you mean 'printed'?"),
        (("CartPole",), dict(readings=1), "readings is 1, which is not a name"),
        (("CartPole",), dict(reading="printed"), "unknown option 'reading'. Did you mean 'readings'?"),
        (("CartPole",), dict(batchsize=3), "unknown option 'batchsize'. Did you mean 'batch_size'?"),
        (("CartPole",), dict(learning_rate=3), "unknown option 'learning_rate'."),
        (("CartPole",), dict(steps=2_000, episodes=3), "steps = 2000 and episodes = 3 were given"),
        (("CartPole",), dict(estimator="srgg"), "unknown estimator 'srgg'. Did you mean 'srg'?"),
        (("CartPole",), dict(eta="small"), "eta is 'small', which is not a number"),
        (("Acrobot-v1",), dict(defaults={}), "Give one of steps, outer_iterations and episodes"),
    ],
)
def test_bad_input_is_answered_with_what_to_do(arguments: tuple[Any, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        configure(*arguments, **options)
    assert said in str(caught.value)


def test_an_adopted_task_starts_from_the_defaults() -> None:
    configuration = configure("Acrobot-v1", "dqn-adam", defaults={}, steps=5_000)
    expected = {**Configuration().options(), **ALGORITHMS["dqn-adam"].options, "task": "Acrobot-v1", "steps": 5_000}
    assert configuration.options() == expected


def test_defaults_are_those_of_the_paper_or_of_the_environment() -> None:
    assert defaults_of("CartPole") == PRESETS["CartPole"]
    assert defaults_of("CartPole-v1") == {**HOST_DEFAULTS, **HOST_PRESETS["CartPole-v1"]}
    assert defaults_of("Taxi-v4") == HOST_DEFAULTS
    assert defaults_of("ALE/Pong-v5,difficulty=1") == {**HOST_DEFAULTS, **IMAGE_DEFAULTS}


def test_registered_estimators_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "mine", ESTIMATORS["srg"])
    assert configure("CartPole", estimator="mine").estimator.estimator == "mine"


@pytest.mark.parametrize("name", SYNONYMS)
def test_what_other_libraries_call_an_option_is_answered_with_ours(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=f"{name}.*called {SYNONYMS[name][0]}"):
        configure("CartPole", **{name: 1})
    flag = f"--{name.replace('_', '-')}"
    assert main(["train", "CartPole", flag, "1"]) == 2
    error = capsys.readouterr().err
    assert all(f"--{ours.replace('_', '-')}" in error for ours in SYNONYMS[name])


@pytest.mark.parametrize("name", ANSWERS)
def test_what_has_no_one_name_here_is_answered_with_what_to_give(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "options.toml"
    file.write_text(f"{name} = 1\n")
    for refuse in (lambda: configure("CartPole", **{name: True}), lambda: known(name), lambda: annotation_of(name)):
        with pytest.raises(InputError) as caught:
            refuse()
        assert str(caught.value).endswith(f"{name!r}. {ANSWERS[name]}")
    flag = f"--{name.replace('_', '-')}"
    for words in (["train", "CartPole", flag, "1"], ["sweep", "CartPole", flag, "1", "2"], ["--config", str(file)]):
        assert main(words if words[0] != "--config" else ["train", *words]) == 2
        assert ANSWERS[name] in capsys.readouterr().err


def test_what_answers_tell_to_give_exists() -> None:
    """The options in `name = value` of every answer, and those that other parts bring."""
    others = {"n_step", "dueling", "noisy", "loggers", "out", "progress", "max_grad_norm", "tau"}
    told = {name for said in ANSWERS.values() for name in re.findall(r"\b([a-z_]+) = ", said)}
    assert told - option_names().keys() <= others
    assert {ours for names in SYNONYMS.values() for ours in names} <= option_names().keys()
    assert SYNONYMS.keys().isdisjoint(ANSWERS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(double=True), "unknown option 'double'. Give bootstrap = 'double' and a target network"),
        (dict(n_steps=3), "Give n_step"),
        (dict(prioritized_replay=True), "Give sampling = 'prioritised'"),
        (dict(tau=1.0), "give target = 'hard' and target_update_interval"),
        (dict(max_grad_norm=10), "clip_norm = 20 is a max_grad_norm of 10"),
        (dict(policy_kwargs=dict(net_arch=[64, 64])), "hidden = (64, 64) for net_arch"),
    ],
)
def test_the_commonest_are_answered_exactly(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        srgdqn.train("CartPole", "dqn-adam", **given)
    assert said in str(caught.value)


def test_configuring_starts_at_once() -> None:
    """Neither options nor what is known of an id need an environment, nor anything else that is slow to import."""
    program = """
import sys
import srgdqn.runs.configurations, srgdqn.runs.provenance
from srgdqn.adapters.defaults import defaults_of
from srgdqn.config.configure import configure
from srgdqn.config.estimator_numbers import numbers_of_estimator
configure("CartPole")
[defaults_of(task) for task in ("CartPole", "LunarLander-v3,enable_wind=true", "ALE/Pong-v5")]
srgdqn.runs.provenance.provenance()
print(*({"jax", "numpy", "polars", "scipy", "gymnasium"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_targets_period_has_one_unit() -> None:
    with pytest.raises(InputError, match="target_period and target_update_interval were both given"):
        configure("CartPole", target="hard", target_period=5, target_update_interval=80)
    found = configure("CartPole", target="hard", target_period=5, target_update_interval=None).gradients
    assert (found.target_period, found.target_update_interval) == (5, None)
    assert configure("CartPole", target="hard", target_update_interval=80).gradients.target_update_interval == 80
