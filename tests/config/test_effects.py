"""Whether an option has an effect is asked of the program itself: of what it does not read there is none."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import partial_eval

import outer_iterations
import srgdqn
from srgdqn.cli import main
from srgdqn.config import Configuration
from srgdqn.config.algorithms import ALGORITHMS
from srgdqn.config.configure import configure
from srgdqn.config.discovery import BUILT_IN_ESTIMATORS
from srgdqn.config.effects import EFFECTS, check_effects
from srgdqn.errors import InputError
from srgdqn.learner.estimator import Origin
from srgdqn.learner.networks import make_network
from srgdqn.learner.outer_iteration import init_learner, outer_iteration, replay_rows
from srgdqn.runs.configurations import dumps, loads
from srgdqn.sweeps.grid import Base, GridPlan
from srgdqn.sweeps.run import search, sweep
from srgdqn.sweeps.space import SearchPlan, space_of
from translation import to_transitions

EVERY = {name for effect in EFFECTS for name in effect.options.split()}
# Drawn, counted or made outside of an outer iteration.
ELSEWHERE = {"inner_sampling", "episode_cap", "atoms", "noisy_sigma"}
OTHERS: dict[str, Any] = dict(
    inner_batch=4,
    anchor_step=False,
    adam_input="gradient",
    adam_from="previous",
    adam_denominator="norm",
)


def program(configuration: Configuration) -> tuple[str, set[str]]:
    """What one outer iteration computes of the learner's state, without what nobody reads, and the numbers it reads."""
    network = make_network(configuration.network, *outer_iterations.SIZES[::2])
    theta = network.init(jax.random.key(0))
    state = jax.tree.map(jnp.asarray, init_learner(configuration, theta))
    _, (given, *_), (slots, *_) = outer_iterations.story(0, replay_rows(configuration), 1)
    beyond = to_transitions(given.beyond) if given.beyond else None
    data, numbers = to_transitions(given.data), dict(sorted(configuration.numbers().items()))
    inner = configuration.estimator
    picks = np.zeros((inner.inner_iterations, inner.inner_batch), np.int32)
    origin = Origin(*map(jnp.asarray, (slots, given.made_at, given.written, given.written)))

    def run(numbers: Any, state: Any, data: Any, picks: Any, coins: Any, progress: Any) -> Any:
        return outer_iteration(
            configuration.with_numbers(numbers),
            network,
            state,
            data,
            picks,
            origin=origin,
            replay=None if beyond is None else lambda: beyond,
            coins=coins,
            progress=progress,
        )[0]

    coins = np.zeros(max(1, inner.inner_iterations))
    traced = jax.make_jaxpr(run)(numbers, state, data, picks, coins, 0.3).jaxpr
    alive, used = partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))
    return str(alive), {name for name, is_used in zip(numbers, used, strict=False) if is_used}


def refused(configuration: Configuration, name: str, value: Any) -> bool:
    try:
        check_effects({name: value}, [configuration])
    except InputError as error:
        said = str(error)
    else:
        return False
    return said.startswith(f"{name} = {value!r} has no effect with ") and said.endswith(f"or leave {name} out.")


COMPOSITIONS: dict[str, dict[str, Any]] = {
    "Adam alone": dict(ALGORITHMS["dqn-adam"].options, target="polyak"),
    "SGD alone": dict(ALGORITHMS["dqn-sgd"].options, loss="huber", schedule="linear"),
    "as many queries": dict(ALGORITHMS["dqn-sgd-queries"].options),
    "as long": dict(ALGORITHMS["dqn-sgd-17eta"].options, target="outer"),
    "Algorithm 1": dict(target="hard", schedule="cosine"),
    "without Adam": dict(ALGORITHMS["svr-dqn-no-adam"].options, target="hard", target_update_interval=30),
    "Adam's steps": dict(ALGORITHMS["srg-adam-steps"].options, loss="huber"),
    "per batch": dict(ALGORITHMS["dqn-storm"].options, target="polyak"),
    "per batch by SGD": dict(ALGORITHMS["dqn-sgd"].options, estimator="saga_replay"),
    "whole batches": dict(ALGORITHMS["dqn-gd"].options),
    "no inner iterations": dict(inner_iterations=0),
}


def composed(options: dict[str, Any]) -> Configuration:
    chosen = options.get("estimator", "srg")
    return outer_iterations.configure("srg" if chosen == "none" else chosen, **options)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_what_is_refused_is_what_the_program_does_not_depend_on(name: str) -> None:
    options = COMPOSITIONS[name]
    configuration = composed(options)
    text, numbers = program(configuration)
    for option in EVERY - ELSEWHERE - OTHERS.keys():
        assert refused(configuration, option, 0.25) == (option not in numbers), option
    for option, value in OTHERS.items():
        if name in ("as many queries", "no inner iterations") and option.startswith("inner"):
            continue  # there they decide how large D is, or are what is given already
        try:
            other, _ = program(composed({**options, option: value}))
        except IndexError:  # nothing would be learned, which is refused as such
            continue
        assert refused(configuration, option, value) == (other == text), option


@pytest.mark.parametrize("name", sorted(BUILT_IN_ESTIMATORS))
def test_estimators_say_whether_they_use_the_coefficient(name: str) -> None:
    configuration = outer_iterations.configure(name, target="hard")
    assert refused(configuration, "coefficient", 0.5) == ("coefficient" not in program(configuration)[1])


@pytest.mark.parametrize(
    ("algorithm", "options", "said"),
    [
        ("dqn-adam", dict(eta=0.1), "eta = 0.1 has no effect with step = 'adam'. Give step = 'gradient', or alpha"),
        ("dqn-sgd", dict(alpha=0.1), "alpha = 0.1 has no effect with step = 'gradient' and adam_process = False"),
        ("srg-dqn", dict(target="hard", target_tau=0.1), "no effect with target = 'hard'. Give target = 'polyak'"),
        ("srg-dqn", dict(target_period=9), "has no effect with target = 'current' and target_update_interval = None"),
        ("srg-dqn", dict(huber_delta=2.0), "with loss = 'squared'. Give loss = 'huber', or leave huber_delta out."),
        ("srg-dqn", dict(schedule_end=0.1), "with schedule = 'constant'"),
        ("sgd-inner", dict(coefficient=0.5), "with estimator = 'sgd'"),
        ("dqn-adam", dict(inner_batch=3), "with estimator = 'none'"),
        ("dqn-storm", dict(inner_batch=3), "with estimator = 'storm'"),
        ("dqn-adam", dict(adam_denominator="norm", adam_from="previous"), "adam_from = 'previous' has no effect"),
        ("srg-dqn", dict(steps=5_000, episode_cap=100), "with episodes = None. Give a budget in episodes"),
    ],
)
def test_what_a_user_gives_without_effect_is_refused(algorithm: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        srgdqn.train("CartPole", algorithm, **options)
    assert said in str(caught.value)
    with pytest.raises(InputError, match="has no effect"):
        srgdqn.Agent(algorithm, "CartPole-v1", **{"steps": 5_000, "schedule": "constant", **options})
    configure("CartPole", algorithm, **options)  # which presets and studies may


def test_names_bring_what_has_no_effect_and_none_is_off() -> None:
    assert srgdqn.Agent("dqn-adam", "CartPole-v1").configuration.optimiser.eta > 0
    given = dict(target="hard", target_period=5, target_update_interval=None, episode_cap=None)
    assert configure("CartPole", typed=given, **given).gradients.target_period == 5


def test_a_stored_configuration_can_be_given_whole() -> None:
    stored = loads(dumps(configure("CartPole", "dqn-adam", steps=3_000, target="hard", target_period=7)))
    options = stored.options()
    task = options.pop("task")
    assert configure(task, "dqn-adam", typed=options, **options) == stored


def test_the_command_line_refuses_what_it_is_given_and_not_what_a_file_says(
    tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "CartPole", "dqn-adam", "--eta", "0.5"]) == 2
    assert "eta = 0.5 has no effect with step = 'adam'" in capsys.readouterr().err
    file = tmp_path / "options.toml"
    file.write_text('task = "CartPole"\nalgorithm = "dqn-adam"\nsteps = 1_100\neta = 0.5\ntarget_tau = 0.5\n')
    assert main(["train", "--config", str(file), "--evaluation-episodes", "1", "--out", str(tmp_path / "run")]) == 0
    assert srgdqn.load(tmp_path / "run").run.configuration.optimiser.eta == 0.5
    again = ["train", "--config", str(tmp_path / "run" / "configuration.toml"), "--out", str(tmp_path / "again")]
    assert main(again) == 0
    assert main([*again, "--overwrite", "--target-tau", "0.5"]) == 2


def test_a_sweep_may_have_options_that_some_of_its_cells_use() -> None:
    both = {"target": ["hard", "polyak"], "target_tau": [0.01, 0.1], "target_period": [5]}
    assert GridPlan(Base("CartPole"), both).planned == 4
    with pytest.raises(InputError, match=r"target_tau = \(0.01, 0.1\) has no effect with target = 'hard' or 'outer'"):
        sweep("CartPole", values={"target": ["hard", "outer"], "target_tau": [0.01, 0.1]})
    with pytest.raises(InputError, match=r"eta = 0\.1 has no effect with step = 'adam'"):
        sweep("CartPole", "dqn-adam", {"alpha": [1e-3, 1e-2]}, eta=0.1)
    assert SearchPlan(Base("CartPole"), space_of({"target": ["hard", "polyak"], "target_tau": "0.01..0.1"})).planned
    with pytest.raises(InputError, match=r"target_tau = 'lin:0.01..0.02' has no effect with target = 'current'"):
        search("CartPole", space={"target_tau": (0.01, 0.02)})
