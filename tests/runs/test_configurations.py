import subprocess
import sys
import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from srgdqn.config import Configuration, option_names, sections
from srgdqn.config.checks import check
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.runs.configurations import dumps, loads, options_from_toml

SINGLE = dict(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)
NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)


def counts(least: int = 1, most: int = 10_000) -> st.SearchStrategy[int]:
    return st.integers(least, most)


def numbers(low: float, high: float, **options: Any) -> st.SearchStrategy[float]:
    return st.floats(low, high, **SINGLE, **options)


POSITIVE = numbers(0, 1e6, exclude_min=True)
SHARE = numbers(0, 1)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "task": NAMES.map(lambda name: f"{name}-v0"),
    "reward": st.sampled_from(["height", "distance", "position-and-angle", "upright-cosine", "raw"]),
    "reward_scale": POSITIVE,
    "reward_clip": st.none() | POSITIVE,
    "time_limit": st.none() | counts(10_000, 2**31 - 1),
    "torques": st.sampled_from([None, "endpoints", "midpoints"]),
    "dynamics": st.sampled_from([None, "v0", "v1"]),
    "action_bins": st.none() | counts(2, 1_000),
    "kernel": st.sampled_from(["auto", "native", "xla"]),
    "hidden": st.lists(counts(), max_size=4).map(tuple),
    "activation": st.sampled_from(["relu", "tanh", "softplus"]),
    "initialisation": st.sampled_from(["lecun-uniform", "normal"]),
    "network": NAMES,
    "epsilon_start": SHARE,
    "epsilon_end": SHARE,
    "epsilon_fraction": numbers(0, 1, exclude_min=True),
    "replay_capacity": counts(100_000, 2**31 - 1),
    "batch_size": counts(100, 1_000),
    "sampling": st.sampled_from(["with-replacement", "without-replacement", "newest"]),
    "normalise_observations": st.booleans(),
    "normalise_rewards": st.booleans(),
    "gamma": SHARE,
    "target": st.sampled_from(["current", "outer", "hard", "polyak"]),
    "target_period": counts(),
    "target_tau": numbers(0, 1, exclude_min=True),
    "mask_terminal": st.booleans(),
    "loss": st.sampled_from(["squared", "huber"]),
    "huber_delta": POSITIVE,
    "differentiation": st.sampled_from(["auto", "autodiff"]),
    "estimator": st.sampled_from(["none", "sgd", "full", "svrg", "srg"]),
    "inner_iterations": counts(0, 100),
    "inner_batch": counts(1, 100),
    "inner_sampling": st.sampled_from(["with-replacement", "without-replacement"]),
    "coefficient": numbers(-10, 10),
    "anchor_step": st.booleans(),
    "eta": numbers(0, 10),
    "step": st.sampled_from(["gradient", "adam"]),
    "adam_process": st.booleans(),
    "alpha": numbers(0, 10),
    "beta1": numbers(0, 1, exclude_max=True),
    "beta2": numbers(0, 1, exclude_max=True),
    "adam_epsilon": POSITIVE,
    "adam_input": st.sampled_from(["delta", "gradient"]),
    "adam_from": st.sampled_from(["last", "previous"]),
    "adam_denominator": st.sampled_from(["elementwise", "norm"]),
    "single_step_matches": st.just("nothing"),
    "clip_norm": st.none() | POSITIVE,
    "schedule": st.sampled_from(["constant", "linear", "cosine"]),
    "schedule_end": SHARE,
    "episode_cap": st.none() | counts(10_000, 2**31 - 1),
    "rounds": counts(),
    "environments": st.just(1),
    "seed": st.integers(0, 2**32 - 1),
    "learning_frequency": counts(1, 100),
    "learning_starts": counts(1_000, 2_000),
    "lanes": counts(1, 100),
    "window": counts(),
    "evaluation_interval": st.none() | counts(),
    "evaluation_episodes": counts(),
    "evaluation_limit": st.none() | counts(),
}
BUDGET = st.sampled_from(["steps", "outer_iterations", "episodes"])


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    options = draw(st.fixed_dictionaries(OPTIONS))
    options[draw(BUDGET)] = draw(counts(3_000, 2**31 - 1))
    # What `check` would refuse, however well it is written and read.
    options |= {"reward": "raw", "torques": None, "dynamics": None}
    if options["estimator"] == "none" or options["inner_iterations"] == 0:
        options["anchor_step"] = True
    if options["time_limit"] is None:
        options["episode_cap"] = 2_000
    labels = draw(st.tuples(NAMES, NAMES))
    return Configuration(*labels).with_options(options)


def test_every_option_is_drawn() -> None:
    assert {*OPTIONS, "steps", "outer_iterations", "episodes"} == option_names().keys()


@settings(max_examples=100, deadline=None)
@given(configurations())
def test_what_was_written_is_read(configuration: Configuration) -> None:
    assert check(configuration) == configuration
    text = dumps(configuration)
    assert loads(text) == configuration
    assert repr(loads(text)) == repr(configuration)  # types as well
    file = options_from_toml(text)
    assert (file.algorithm, file.readings, file.task) == (
        configuration.algorithm,
        configuration.readings,
        configuration.task.task,
    )
    assert {**file.options, "task": file.task} == configuration.options()


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_partial_file_may_name_sections_or_not(data: st.DataObject) -> None:
    options = data.draw(st.fixed_dictionaries({}, optional=OPTIONS))
    lone = {name: value for name, value in options.items() if name not in sections()}
    whole = tomllib.loads(dumps(Configuration().with_options(options)))
    in_sections = {section: {n: v for n, v in whole[section].items() if n in lone} for section in sections()}
    at_top = {name: value for table in in_sections.values() for name, value in table.items()}
    for document in (in_sections, at_top):
        assert options_from_toml(tomli_w.dumps(document)) == (None, None, None, lone)


def test_names_of_sections_and_options_alike() -> None:
    top = options_from_toml('task = "CartPole"\nnetwork = "mine"\nestimator = "none"')
    assert top == (None, None, "CartPole", dict(network="mine", estimator="none"))
    inner = options_from_toml('[task]\ntask = "CartPole"\n[network]\nnetwork = "mine"\n[estimator]\nestimator = "none"')
    assert inner == top


def test_files_from_before_there_was_a_kernel_mean_that_xla_ran() -> None:
    lines = [line for line in dumps(Configuration()).splitlines() if not line.startswith("kernel")]
    assert loads("\n".join(lines)) == Configuration().with_options({"kernel": "xla"})


WHOLE = dumps(configure("MountainCar"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("eta = 0.01", "etta = 0.01", "unknown option in [optimiser] 'etta'. Did you mean 'eta'?"),
        ("eta = 0.01", "gamma = 0.5", "gamma = 0.5 stands in [optimiser], but its table is [gradients]. Move it"),
        ("eta = 0.01", 'eta = "0.01"', "eta is '0.01', which is not a number. Write it without quotes"),
        ("eta = 0.01", "eta = nan", "eta is nan, which is not a finite number"),
        ("seed = 0", "seed = 1.0", "seed is 1.0, which is not a whole number. Write it as 1."),
        ("seed = 0", f"seed = {'9' * 5000}", "this is not TOML"),
        ('loss = "squared"', 'loss = "sqared"', "unknown loss 'sqared'. Did you mean 'squared'?"),
        ("mask_terminal = true", "mask_terminal = 1", "mask_terminal is 1, which is not true or false"),
        ("[optimiser]", "[optimizer]", "unknown key in the configuration 'optimizer'. Did you mean 'optimiser'?"),
        ('algorithm = "srg-dqn"', "algorithm = 3", "algorithm is 3, which is not a name. Write it in quotes"),
        ('algorithm = "srg-dqn"', "", "the configuration has no 'algorithm'"),
        ('readings = "corrected"', 'reading = "corrected"', "'reading'. Did you mean 'readings'?"),
        ('algorithm = "srg-dqn"', 'algorithm = "srg-dqn"\neta = 1', "unknown key in the configuration 'eta'"),
        ('algorithm = "srg-dqn"', "x = " + "[" * 50_000, "this is not TOML"),
        ('algorithm = "srg-dqn"', "#" * 70_000, "this has 71"),
    ],
)
def test_a_wrong_configuration_is_refused_by_its_key(old: str, new: str, said: str) -> None:
    assert old in WHOLE
    with pytest.raises(InputError) as caught:
        loads(WHOLE.replace(old, new, 1))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("etta = 1", "unknown key 'etta'. Did you mean 'eta'?"),
        ("[optimizer]\neta = 1", "unknown table 'optimizer'. Did you mean 'optimiser'?"),
        ("[replay]\neta = 0.5", "eta = 0.5 stands in [replay], but its table is [optimiser]. Move it there."),
        ("eta = 0.5\n[optimiser]\neta = 0.25", "eta is given twice, as 0.5 and as 0.25. Keep one of them."),
        ("readings = true", "readings is True, which is not a name"),
        ("eta 3", "this is not TOML"),
    ],
)
def test_a_wrong_users_file_is_refused_by_its_key(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        options_from_toml(text)
    assert said in str(caught.value)


def test_reading_options_starts_at_once() -> None:
    heavy = "import sys, srgdqn.runs.configurations; print(*({'jax', 'numpy', 'polars'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
