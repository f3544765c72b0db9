"""What is compiled anew and what is not: counted, for every option."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from srgdqn import tasks
from srgdqn.config import option_names
from srgdqn.training import program, train_rounds
from srgdqn.training.batches import from_replay
from srgdqn.training.lane import Instruments
from srgdqn.training.program import Once, programs_for
from tiny import LEVERS, STUBBORN, Levers, Stubborn, bits, levers, tiny

# Numbers, each with a value that changes what is learned from this start.
START = dict(epsilon_start=0.9, epsilon_end=0.1)
NUMBERS: dict[str, Any] = dict(
    eta=0.02,
    alpha=0.1,
    gamma=0.5,
    beta1=0.5,
    beta2=0.5,
    adam_epsilon=0.1,
    epsilon_start=0.2,
    epsilon_end=0.8,
    epsilon_fraction=0.25,
    coefficient=0.5,
    reward_scale=3.0,
    seed=5,
    steps=240,
    outer_iterations=20,
    episodes=20,
    learning_starts=80,
)
# What changes what is recorded, or how often, but not what is learned.
RECORDING: dict[str, Any] = dict(rounds=3, window=20, evaluation_interval=64)
# Numbers that nothing uses at this start, where what they belong to is off.
IDLE: dict[str, Any] = dict(
    target_period=7, target_tau=0.5, huber_delta=0.1, hl_gauss_sigma=2.0, schedule_end=0.5, episode_cap=11
)
IDLE |= dict(priority_exponent=0.9, importance_exponent=0.9, priority_floor=0.1)
IDLE |= dict(reward_alpha=0.5, munchausen_share=0.5, munchausen_temperature=1.0, munchausen_floor=-2.0)


@pytest.fixture
def at_start() -> list[Any]:
    """The policies of one round, after whose making everything that could be needed again is compiled."""
    return bits(train_rounds(*tiny(**START)).policies)


@pytest.mark.parametrize("name", [*NUMBERS, *RECORDING, *IDLE])
def test_a_number_is_used_without_compiling(name: str, at_start: list[Any], compilations: list[str]) -> None:
    configuration, task = tiny(**{**START, name: {**NUMBERS, **RECORDING, **IDLE}[name]})
    assert not programs_for(configuration, task)[1]
    policies = train_rounds(configuration, task).policies
    assert compilations == []
    first = bits({path: array[:1] for path, array in policies.items()})
    assert (first != at_start) == (name in NUMBERS)


def test_another_batch_size_is_compiled_anew_once(at_start: list[Any], compilations: list[str]) -> None:
    configuration, task = tiny(batch_size=5)
    _, fresh = programs_for(configuration, task)
    assert fresh
    assert compilations  # at least its segment's; starts and evaluations may be shared
    compilations.clear()
    assert not programs_for(configuration, task)[1]
    assert compilations == []


# Which programs are shared, without compiling any

SHAPES: dict[str, Any] = dict(
    reward="raw",
    reward_clip=1.0,
    time_limit=None,
    hidden=(5,),
    activation="tanh",
    initialisation="normal",
    dueling=True,
    layer_norm=True,
    dropout=0.1,
    noisy=True,
    noisy_sigma=0.1,
    atoms=7,
    replay_capacity=50,
    batch_size=5,
    n_step=3,
    sampling="newest",
    normalise_observations=True,
    normalise_rewards=True,
    target="hard",
    reward_estimation=True,
    mask_terminal=False,
    loss="huber",
    differentiation="autodiff",
    estimator="svrg",
    inner_iterations=3,
    inner_batch=2,
    inner_sampling="without-replacement",
    anchor_step=False,
    step="adam",
    adam_process=False,
    adam_input="gradient",
    adam_from="previous",
    adam_denominator="norm",
    schedule="cosine",
    clip_norm=1.0,
    weight_decay=0.1,
    uniform_start=True,
    learning_frequency=8,
    gradient_steps=2,
    scale_observations=True,
    lanes=5,
    kernel="native",
    evaluation_episodes=4,
    evaluation_limit=7,
)
# Not tried here: a name of a task, a module or a rule, what some environments alone have, what needs another algorithm,
# and what has a program of its own.
ELSEWHERE = {"task", "network", "bootstrap", "torques", "dynamics", "action_bins", "action_masks", "environments"}
ELSEWHERE |= {"single_step_matches", "direction_errors", "target_update_interval", "target_networks", "adam_at_copy"}
ELSEWHERE |= {"keep_best", "value_min", "value_max"}


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_cache", Once(64))
    monkeypatch.setattr(program, "_compile", lambda *_: object())


def test_every_option_is_tried() -> None:
    assert set(option_names()) == {*NUMBERS, *RECORDING, *IDLE, *SHAPES, *ELSEWHERE}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_a_program_of_its_own(name: str) -> None:
    first, _ = programs_for(*tiny())
    other, fresh = programs_for(*tiny(**{name: SHAPES[name]}))
    assert fresh
    assert other is not first
    assert programs_for(*tiny()) == (first, False)


@pytest.mark.usefixtures("nothing_compiled")
def test_an_option_that_is_on_is_a_number_and_that_it_is_on_is_shape() -> None:
    first, _ = programs_for(*tiny(clip_norm=1.0))
    assert programs_for(*tiny(clip_norm=2.0)) == (first, False)
    assert programs_for(*tiny(clip_norm=None))[1]


@pytest.mark.usefixtures("nothing_compiled")
def test_names_are_not_shape() -> None:
    first, _ = programs_for(*tiny("srg-dqn"))
    assert programs_for(*tiny("svr-dqn", estimator="srg")) == (first, False)
    assert programs_for(*tiny(readings="printed"))[1]
    same = dict(mask_terminal=True, adam_input="delta", adam_from="last", adam_denominator="elementwise")
    assert programs_for(*tiny(readings="printed", **same)) == (first, False)


@pytest.mark.usefixtures("nothing_compiled")
def test_a_users_network_and_environment_are_known_by_identity() -> None:
    configuration, task = levers(steps=200)
    first, _ = programs_for(configuration, task, STUBBORN)
    assert programs_for(configuration, tasks.adopt(LEVERS, evaluation_limit=10), STUBBORN) == (first, False)
    assert programs_for(configuration, task, Stubborn(STUBBORN.values))[1]
    assert programs_for(configuration, tasks.adopt(Levers(), evaluation_limit=10), STUBBORN)[1]


@pytest.mark.parametrize("other", [dict(probe=lambda *_: None), dict(source=lambda context: from_replay(context))])
def test_the_kernel_takes_no_instruments_but_the_one_it_has(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="kernel='xla'"):
        programs_for(*tiny(kernel="native"), instruments=Instruments(**other))


@pytest.mark.usefixtures("nothing_compiled")
def test_instruments_and_the_shapes_of_their_data_are_shape() -> None:
    first, _ = programs_for(*tiny())
    assert programs_for(*tiny(), None, Instruments(), None) == (first, False)
    assert programs_for(*tiny(), instruments=Instruments(source=from_replay)) == (first, False)
    for other in (
        dict(source=lambda context: from_replay(context)),
        dict(probe=lambda *_: None),
        dict(blocks_kept=7),
    ):
        mine = Instruments(**other)
        assert programs_for(*tiny(), instruments=mine)[1]
        assert not programs_for(*tiny(), instruments=mine._replace())[1]
        assert programs_for(*tiny()) == (first, False)
    # Of data, the axis of rounds is not: a lane sees its own round's alone.
    assert programs_for(*tiny(), data={"a": np.zeros((3, 5))})[1]
    assert not programs_for(*tiny(), data={"a": np.ones((8, 5))})[1]
    for other_data in ({"a": np.zeros((3, 6))}, {"b": np.zeros((3, 5))}, {"a": np.zeros((3, 5), np.float32)}):
        assert programs_for(*tiny(), data=other_data)[1]
    assert programs_for(*tiny()) == (first, False)


def test_double_precision_has_a_program_of_its_own() -> None:
    configuration, task = tiny()
    single = train_rounds(configuration, task)
    with jax.enable_x64(True):
        assert programs_for(configuration, task)[1]
        double = train_rounds(configuration, task)
    assert {array.dtype for array in single.policies.values()} == {np.dtype(np.float32)}
    assert {array.dtype for array in double.policies.values()} == {np.dtype(np.float64)}
    # Not single precision in a wider type: numbers were drawn and learned that it cannot hold.
    assert all((array != array.astype(np.float32)).mean() > 0.9 for array in double.policies.values())
    assert not programs_for(configuration, task)[1]


def test_another_limit_of_evaluation_has_a_program_of_its_own() -> None:
    configuration, _ = levers(steps=200)
    for limit in (3, 9):
        trained = train_rounds(configuration, tasks.adopt(LEVERS, evaluation_limit=limit), STUBBORN)
        assert set(trained.tables["evaluations"]["length"].tolist()) == {limit}
