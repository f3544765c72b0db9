import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from srgdqn.config.checks import BUDGETS, check
from srgdqn.config.coercion import coerce, option_annotations
from srgdqn.config.discovery import COMPILED_TASKS
from srgdqn.config.options import Configuration, option_names, rules, sections
from srgdqn.config.other_names import SYNONYMS
from srgdqn.errors import InputError, shown

VALID = Configuration().with_options(dict(steps=100_000, reward="height"))


def refusal(**options: Any) -> str:
    with pytest.raises(InputError) as caught:
        check(VALID.with_options(options))
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


class TestTypes:
    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [
            ("eta", "0.01", "a number"),
            ("eta", True, "a number"),
            ("gamma", float("nan"), "a finite number"),
            ("coefficient", 10**400, "a finite number"),
            ("batch_size", 64.5, "a whole number"),
            ("steps", float("inf"), "a whole number"),
            ("hidden", 20, "a list of whole numbers"),
            ("hidden", [1.5], "a whole number"),
            ("mask_terminal", 1, "true or false"),
            ("network", "", "a name"),
            ("network", "a\nb", "a name"),
            ("task", None, "a name"),
        ],
    )
    def test_wrong_types_are_refused(self, option: str, value: Any, expected: str) -> None:
        message = refusal(**{option: value})
        assert message.startswith(f"{option} is ")
        assert f"which is not {expected}" in message
        assert re.search(r"(Write|Give) ", message)
        assert shown(value) in message or option == "hidden"

    def test_long_values_are_shown_in_short(self) -> None:
        assert len(refusal(eta="x" * 1_000)) < 200
        assert "a number of very many digits" in refusal(eta=10**5_000)

    def test_the_fix_is_the_value_meant(self) -> None:
        assert "Write it as 100000." in refusal(steps=1e5)
        assert "Write hidden = [20]." in refusal(hidden=20)
        assert "without quotes" in refusal(eta="0.1")

    def test_a_misspelt_choice_is_answered_with_the_nearest(self) -> None:
        for option, value, suggestion in (("loss", "hubber", "huber"), ("activation", "RELU", "relu")):
            assert f"unknown {option} '{value}'. Did you mean '{suggestion}'?" in refusal(**{option: value})

    @pytest.mark.parametrize("label", ["algorithm", "readings"])
    def test_labels_are_strings(self, label: str) -> None:
        with pytest.raises(InputError, match=f"{label} is 3, which is not a name"):
            check(dataclasses.replace(VALID, **{label: 3}))

    @pytest.mark.parametrize(
        ("option", "given", "expected"),
        [
            ("eta", 1, 1.0),
            ("eta", np.float32(0.5), 0.5),
            ("eta", np.int64(2), 2.0),
            ("batch_size", np.int32(8), 8),
            ("hidden", [8, np.int64(4)], (8, 4)),
            ("hidden", [], ()),
            ("time_limit", "none", None),
            ("time_limit", 200, 200),
            ("clip_norm", None, None),
            ("clip_norm", 10, 10.0),
            ("torques", "none", None),
            ("estimator", "none", "none"),
            ("mask_terminal", False, False),
        ],
    )
    def test_values_are_turned_into_their_options_own_types(self, option: str, given: Any, expected: Any) -> None:
        value = coerce(option, given)
        assert value == expected
        assert type(value) is type(expected)
        if isinstance(expected, tuple):
            assert [type(width) for width in value] == [int] * len(expected)

    def test_every_annotation_is_understood(self) -> None:
        for name, value in Configuration().options().items():
            assert coerce(name, value) == value
        assert option_annotations().keys() - {"own"} == option_names().keys()


class TestRules:
    @pytest.mark.parametrize(
        ("option", "values"),
        [
            ("eta", [-1e-9]),
            ("beta1", [-0.1, 1, 1 - 1e-9]),
            ("gamma", [-0.1, 1.001]),
            ("epsilon_fraction", [0, 1.1, 1e-60]),
            ("adam_epsilon", [0, 1e-60, 1e-42]),
            ("batch_size", [0, -3]),
            ("inner_iterations", [-1]),
            ("target_networks", [0, 101]),
            ("reward_alpha", [-1e-9]),
            ("munchausen_share", [-0.1, 1.1]),
            ("munchausen_temperature", [0, -1, 1e-42]),
            ("munchausen_floor", [1e-3]),
            ("hidden", [[0], [20, -1], [2**31]]),
            ("seed", [-1, 2**32]),
            ("steps", [0, 2**31]),
            ("clip_norm", [0, -1]),
            ("reward_scale", [0, 1e-60]),
        ],
    )
    def test_values_out_of_range_are_refused(self, option: str, values: list[Any]) -> None:
        for value in values:
            message = refusal(**{option: value})
            expected = coerce(option, value)
            assert message.startswith(f"{option} is {expected!r}, but must be ")
            assert f"Give such a value, or leave {option} out." in message

    def test_the_edges_of_ranges_are_allowed(self) -> None:
        edges = dict(eta=0.0, gamma=1.0, beta1=0.0, epsilon_start=1.0, epsilon_end=0.0, epsilon_fraction=1.0)
        others = dict(
            inner_iterations=0, seed=2**32 - 1, target_tau=1.0, reward_scale=-0.1, hidden=(), coefficient=-2.0
        )
        off = dict(evaluation_interval=None, episode_cap=None)
        options = {**edges, **others, **off}
        checked = check(VALID.with_options(options)).options()
        assert {name: checked[name] for name in options} == options

    def test_every_number_has_a_rule(self) -> None:
        plain = {name for name, hint in option_annotations().items() if re.search(r"\b(int|float)\b", str(hint))}
        anything = {"coefficient", "value_min", "value_max"}  # which may be any finite number
        assert plain - rules().keys() - {"own"} == anything


class TestRelations:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (dict(steps=None), ["No budget", "Give one of steps, outer_iterations and episodes"]),
            (
                dict(target_update_interval=9, target="outer"),
                ["target_update_interval = 9 is of a hard target network"],
            ),
            (dict(weight_decay=0.1, adam_process=False), ["weight_decay = 0.1 is of Adam's", "or give step = 'adam'"]),
            (dict(episodes=7), ["steps = 100000 and episodes = 7", "Give one of"]),
            (dict(steps=15), ["steps = 15", "learning_frequency = 16", "at step 1008", "Give steps = 1008 or more"]),
            (
                dict(steps=None, episodes=2, time_limit=100),
                ["episodes = 2 of at most 100 steps", "at step 1008", "Give more episodes or longer ones"],
            ),
            (
                dict(learning_frequency=3_001, learning_starts=3_001),
                ["learning_frequency = 3001", "replay_capacity = 3000", "Raise replay_capacity to 3001 or more"],
            ),
            (
                dict(replay_capacity=95, estimator="none", single_step_matches="queries"),
                ["replay_capacity = 95", "96 transitions", "Raise replay_capacity to 96 or more"],
            ),
            (
                dict(sampling="without-replacement", learning_starts=63),
                ["learning_starts = 63", "64 transitions", "Raise learning_starts to 64 or more"],
            ),
            (
                dict(inner_sampling="without-replacement", inner_batch=65),
                ["inner_batch = 65", "batch_size = 64", "Lower inner_batch to 64 or less"],
            ),
            (
                dict(single_step_matches="length"),
                ["single_step_matches = 'length'", "estimator = 'srg'", "Give estimator = 'none'"],
            ),
            (
                dict(bootstrap="double", target="outer"),
                ["bootstrap = 'double'", "target = 'outer' has none", "Give target = 'hard' or 'polyak'"],
            ),
            (
                dict(bootstrap="munchausen", target="current"),
                ["bootstrap = 'munchausen'", "target = 'current' moves", "Give target = 'hard', 'polyak' or 'outer'"],
            ),
            (
                dict(adam_at_copy="reset", target="polyak"),
                ["adam_at_copy = 'reset'", "but target = 'polyak'", "Give target = 'hard', or adam_at_copy = 'keep'"],
            ),
            (
                dict(adam_at_copy="restart-clock", target="hard", adam_process=False),
                ["adam_at_copy = 'restart-clock'", "there is none (step = 'gradient'", "Give step = 'adam' or switch"],
            ),
            (
                dict(target_networks=2, target="polyak"),
                ["target_networks = 2", "target = 'polyak'", "Give target = 'hard', or leave target_networks out"],
            ),
            (
                dict(differentiation="closed-form", network="mine"),
                ["'closed-form'", "network = 'mine'", "Give differentiation = 'autodiff' or 'auto'"],
            ),
            (dict(torques="endpoints"), ["torques = 'endpoints'", "task = 'MountainCar'", "Leave torques out"]),
            (
                dict(reward="upright-cosine"),
                ["reward = 'upright-cosine'", "MountainCar", "Give one of: height, distance, raw"],
            ),
            (
                dict(task="Pendulum", reward="raw", dynamics="v0"),
                ["Pendulum needs torques", "Give torques = 'endpoints' or 'midpoints'"],
            ),
        ],
    )
    def test_options_that_contradict_each_other_are_refused(self, options: dict[str, Any], said: list[str]) -> None:
        message = refusal(**options)
        for words in said:
            assert words in message
        assert "{" not in message

    @pytest.mark.parametrize(
        "options",
        [
            dict(steps=None, episodes=2, episode_cap=504),
            dict(replay_capacity=64),
            dict(inner_sampling="without-replacement", inner_batch=64),
            dict(inner_batch=65),
            dict(sampling="without-replacement", learning_starts=64),
            dict(replay_capacity=96, estimator="none", single_step_matches="queries"),
            dict(differentiation="closed-form"),
        ],
    )
    def test_what_just_fits_is_allowed(self, options: dict[str, Any]) -> None:
        assert check(VALID.with_options(options)) == VALID.with_options(options)

    def test_the_first_learning_step_is_the_first_multiple_from_learning_starts(self) -> None:
        for frequency in (1, 3, 16):
            for starts in range(40):
                first = next(step for step in range(1, 100) if step % frequency == 0 and step >= starts)
                options = dict(learning_frequency=frequency, learning_starts=starts)
                check(VALID.with_options(dict(options, steps=first)))
                assert f"steps = {first - 1}" in refusal(**options, steps=first - 1) or first == 1


def test_every_room_is_returned_coerced() -> None:
    given = VALID.with_options(dict(hidden=[8, 8], eta=1, gamma=np.float64(0.5), time_limit="none"))
    checked = check(given)
    assert checked == VALID.with_options(dict(hidden=(8, 8), eta=1.0, gamma=0.5))
    assert type(checked.optimiser.eta) is float
    assert hash(checked) == hash(check(checked))
    assert all(getattr(checked, section) is not None for section in sections())


def test_names_in_tables_are_those_of_options() -> None:
    assert set(BUDGETS) <= option_names().keys()
    for task in COMPILED_TASKS.values():
        assert task.preset["reward"] in task.rewards
        assert {*task.preset, *task.options} <= option_names().keys()
    assert SYNONYMS.keys().isdisjoint(option_names())
    assert {ours for names in SYNONYMS.values() for ours in names} <= option_names().keys()
