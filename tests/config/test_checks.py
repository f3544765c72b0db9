import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from srgdqn.config.checks import BUDGETS, check
from srgdqn.config.coercion import coerce, option_annotations
from srgdqn.config.discovery import COMPILED_TASKS
from srgdqn.config.options import SYNONYMS, Configuration, option_names, rules, sections
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
            ("eta", None, "a number"),
            ("eta", [0.01], "a number"),
            ("eta", 1j, "a number"),
            ("gamma", float("nan"), "a finite number"),
            ("gamma", float("inf"), "a finite number"),
            ("alpha", float("-inf"), "a finite number"),
            ("coefficient", 1e39, "a finite number"),
            ("coefficient", 10**400, "a finite number"),
            ("clip_norm", float("nan"), "a finite number"),
            ("clip_norm", "tight", "a number"),
            ("batch_size", 64.5, "a whole number"),
            ("batch_size", "64", "a whole number"),
            ("batch_size", True, "a whole number"),
            ("batch_size", None, "a whole number"),
            ("steps", float("nan"), "a whole number"),
            ("steps", float("inf"), "a whole number"),
            ("rounds", [3], "a whole number"),
            ("hidden", 20, "a list of whole numbers"),
            ("hidden", "20", "a list of whole numbers"),
            ("hidden", [1.5], "a whole number"),
            ("mask_terminal", 1, "true or false"),
            ("mask_terminal", "true", "true or false"),
            ("mask_terminal", None, "true or false"),
            ("network", "", "a name"),
            ("network", 3, "a name"),
            ("network", "a\nb", "a name"),
            ("task", None, "a name"),
            ("estimator", 4, "a name"),
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

    @pytest.mark.parametrize(
        ("option", "value", "suggestion"),
        [
            ("loss", "hubber", "'huber'"),
            ("activation", "RELU", "'relu'"),
            ("target", "pollyak", "'polyak'"),
            ("torques", "endpoint", "'endpoints'"),
            ("sampling", "without_replacement", "'without-replacement'"),
        ],
    )
    def test_a_misspelt_choice_is_answered_with_the_nearest(self, option: str, value: str, suggestion: str) -> None:
        message = refusal(**{option: value})
        assert f"unknown {option} '{value}'. Did you mean {suggestion}?" in message

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

    def test_an_unknown_option_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(InputError, match=r"unknown option 'etta'\. Did you mean 'eta'"):
            coerce("etta", 1)

    def test_every_annotation_is_understood(self) -> None:
        for name, value in Configuration().options().items():
            assert coerce(name, value) == value
        assert option_annotations().keys() == option_names().keys()


class TestRules:
    @pytest.mark.parametrize(
        ("option", "values"),
        [
            ("eta", [-1e-9, -1]),
            ("alpha", [-0.1]),
            ("beta1", [-0.1, 1, 1.5, 1 - 1e-9]),
            ("beta2", [-0.1, 1.0, 1 - 1e-12]),
            ("gamma", [-0.1, 1.001]),
            ("epsilon_start", [-0.1, 1.1]),
            ("epsilon_end", [-1e-3, 2]),
            ("epsilon_fraction", [0, -0.5, 1.1, 1e-60]),
            ("adam_epsilon", [0, -1e-8, 1e-60, 1e-42]),
            ("batch_size", [0, -3]),
            ("inner_iterations", [-1]),
            ("inner_batch", [0]),
            ("replay_capacity", [0]),
            ("learning_starts", [0, -1]),
            ("learning_frequency", [0]),
            ("hidden", [[0], [20, -1], [2**31]]),
            ("rounds", [0]),
            ("lanes", [0, -16]),
            ("window", [0]),
            ("evaluation_interval", [0]),
            ("evaluation_episodes", [0]),
            ("seed", [-1, 2**32]),
            ("steps", [0, -5, 2**31]),
            ("clip_norm", [0, -1]),
            ("huber_delta", [0, -1]),
            ("target_tau", [0, 1.01]),
            ("target_period", [0]),
            ("schedule_end", [-0.1, 1.1]),
            ("reward_scale", [0, 0.0, 1e-60]),
            ("time_limit", [0]),
            ("episode_cap", [0]),
        ],
    )
    def test_values_out_of_range_are_refused(self, option: str, values: list[Any]) -> None:
        for value in values:
            message = refusal(**{option: value})
            expected = coerce(option, value)
            assert message.startswith(f"{option} is {expected!r}, but must be ")
            assert f"Give such a value, or leave {option} out." in message

    @pytest.mark.parametrize(
        "options",
        [
            dict(eta=0),
            dict(alpha=0),
            dict(gamma=0),
            dict(gamma=1),
            dict(beta1=0, beta2=0),
            dict(epsilon_start=1, epsilon_end=0, epsilon_fraction=1),
            dict(inner_iterations=0),
            dict(seed=2**32 - 1),
            dict(target_tau=1, target_period=1),
            dict(schedule_end=1),
            dict(reward_scale=-0.1),
            dict(hidden=()),
            dict(evaluation_interval=None),
            dict(episode_cap=None),
            dict(coefficient=-2),
        ],
    )
    def test_the_edges_of_ranges_are_allowed(self, options: dict[str, Any]) -> None:
        checked = check(VALID.with_options(options))
        assert {name: checked.options()[name] for name in options} == options

    def test_every_number_has_a_rule(self) -> None:
        plain = {name for name, hint in option_annotations().items() if re.search(r"\b(int|float)\b", str(hint))}
        assert plain - rules().keys() == {"coefficient"}  # which may be anything finite


class TestRelations:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (dict(steps=None), ["No budget", "Give one of steps, outer_iterations and episodes"]),
            (dict(episodes=7), ["steps = 100000 and episodes = 7", "Give one of"]),
            (
                dict(outer_iterations=5, episodes=7),
                ["steps = 100000 and outer_iterations = 5 and episodes = 7", "Give one of"],
            ),
            (dict(steps=15), ["steps = 15", "learning_frequency = 16", "at step 1008", "Give steps = 1008 or more"]),
            (dict(steps=1007), ["steps = 1007", "learning_starts = 1000", "Give steps = 1008 or more"]),
            (dict(steps=15, learning_starts=1), ["steps = 15", "Give steps = 16 or more"]),
            (
                dict(steps=None, episodes=2, time_limit=100),
                ["episodes = 2 of at most 100 steps", "at step 1008", "Give more episodes or longer ones"],
            ),
            (dict(steps=None, episodes=2, episode_cap=503), ["episodes = 2 of at most 503 steps"]),
            (
                dict(learning_frequency=3_001, learning_starts=3_001),
                ["learning_frequency = 3001", "replay_capacity = 3000", "Raise replay_capacity to 3001 or more"],
            ),
            (
                dict(replay_capacity=63),
                ["replay_capacity = 63", "64 transitions", "Raise replay_capacity to 64 or more"],
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
                dict(sampling="newest", learning_starts=95, estimator="none", single_step_matches="queries"),
                ["learning_starts = 95", "96 transitions", "'newest'", "Raise learning_starts to 96 or more"],
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
                dict(differentiation="closed-form", network="mine"),
                ["'closed-form'", "network = 'mine'", "Give differentiation = 'autodiff' or 'auto'"],
            ),
            (dict(torques="endpoints"), ["torques = 'endpoints'", "task = 'MountainCar'", "Leave torques out"]),
            (dict(dynamics="v1"), ["dynamics = 'v1'", "task = 'MountainCar'", "Leave dynamics out"]),
            (
                dict(reward="upright-cosine"),
                ["reward = 'upright-cosine'", "MountainCar", "Give one of: height, distance, raw"],
            ),
            (
                dict(task="Pendulum", reward="raw", dynamics="v0"),
                ["Pendulum needs torques", "Give torques = 'endpoints' or 'midpoints'"],
            ),
            (
                dict(task="Pendulum", reward="raw", torques="midpoints"),
                ["Pendulum needs dynamics", "Give dynamics = 'v0' or 'v1'"],
            ),
            (
                dict(task="Pendulum", reward="height", torques="midpoints", dynamics="v0"),
                ["reward = 'height'", "Give one of: raw"],
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
            dict(steps=1008),
            dict(steps=16, learning_starts=16),
            dict(steps=1000, learning_frequency=1),
            dict(steps=None, episodes=2, episode_cap=504),
            dict(steps=None, outer_iterations=1),
            dict(replay_capacity=64),
            dict(inner_sampling="without-replacement", inner_batch=64),
            dict(inner_batch=65),
            dict(sampling="without-replacement", learning_starts=64),
            dict(learning_starts=1),
            dict(replay_capacity=96, estimator="none", single_step_matches="queries"),
            dict(differentiation="closed-form"),
            dict(differentiation="autodiff", network="mine"),
            dict(reward="distance"),
        ],
    )
    def test_what_just_fits_is_allowed(self, options: dict[str, Any]) -> None:
        assert check(VALID.with_options(options)) == VALID.with_options(options)

    def test_tasks_of_others_have_their_own_reward_and_none_of_the_papers_options(self) -> None:
        adopted = VALID.with_options(dict(task="mine.Acrobot", reward="raw"))
        assert check(adopted) == adopted
        for options in (dict(reward="height"), dict(torques="midpoints"), dict(dynamics="v1")):
            with pytest.raises(InputError, match=next(iter(options))):
                check(adopted.with_options(options))

    def test_the_first_learning_step_is_the_first_multiple_from_learning_starts(self) -> None:
        for frequency in (1, 3, 16):
            for starts in range(1, 40):
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
