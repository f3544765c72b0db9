"""Spaces as networks read them, and what is said about those that they cannot read."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import utils as vector
from hypothesis import given
from hypothesis import strategies as st

from host_environments import SMALL, Slope
from srgdqn.adapters.environments import source_of
from srgdqn.adapters.spaces import (
    Actions,
    Observations,
    OddValueError,
    as_rows,
    is_image,
    read_actions,
    read_observations,
    scale_of,
)
from srgdqn.config.configure import configure
from srgdqn.config.presets import host_preset
from srgdqn.errors import InputError
from srgdqn.training.host.task import about_task, host_task

FLAT = Box(-1.0, 1.0, (2, 3), np.float32)
STRANGE: dict[str, spaces.Space] = {
    "Text": spaces.Text(5),
    "Graph": spaces.Graph(FLAT, None),
    "Sequence": spaces.Sequence(FLAT),
    "Text in a Tuple in a Dict": spaces.Dict({"a": Discrete(2), "b": spaces.Tuple((FLAT, spaces.Text(5)))}),
    "OneOf in a Tuple": spaces.Tuple((FLAT, spaces.OneOf((FLAT, Discrete(2))))),
}


def read(space: spaces.Space, as_image: bool = True) -> Observations:
    return read_observations(space, "Some-v0", as_image=as_image)


@pytest.mark.parametrize("kind", STRANGE)
def test_observations_that_no_network_reads_are_refused_with_a_wrapper(kind: str) -> None:
    space = STRANGE[kind]
    with pytest.raises(InputError) as caught:
        read(space)
    for part in ("Some-v0", str(space), "a Q-network reads Box, Discrete", "gymnasium.wrappers.TransformObservation"):
        assert part in str(caught.value)


def test_images_within_others_are_refused_with_a_way_out() -> None:
    space = spaces.Dict({"own": spaces.Dict({"camera": Box(0, 255, (36, 40, 3), np.uint8)}), "speed": FLAT})
    with pytest.raises(InputError) as caught:
        read(space, as_image=False)
    for part in ("at 'own.camera', an image", "only where they are the whole observation", "FilterObservation"):
        assert part in str(caught.value)
    assert read(spaces.Dict({"few": Box(0, 255, (5, 40, 3), np.uint8)})).size == 600


ARRAYS = st.builds(
    lambda shape, kind: Box(0, 9, shape, kind),
    st.lists(st.integers(1, 3), max_size=2).map(tuple),
    st.sampled_from([np.float32, np.float64, np.uint8, np.int64]),
)
NUMBERS = st.builds(lambda n, start: Discrete(n, start=start), st.integers(1, 4), st.integers(-3, 3))
SEVERAL = st.lists(st.tuples(st.integers(1, 4), st.integers(-3, 3)), min_size=1, max_size=4).map(
    lambda each: spaces.MultiDiscrete([n for n, _ in each], start=[start for _, start in each])
)
MATRICES = st.just(spaces.MultiDiscrete([[2, 3], [1, 4]]))
SWITCHES = st.integers(1, 3).map(spaces.MultiBinary)
LEAVES = ARRAYS | NUMBERS | SEVERAL | MATRICES | SWITCHES
NESTED = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(st.sampled_from(["zebra", "a_key", "m", "1"]), inner, min_size=1, max_size=3).map(spaces.Dict)
        | st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple)
    ),
    max_leaves=6,
)


@given(NESTED, st.integers(0, 2**31 - 1))
def test_nested_observations_are_flattened_as_gymnasium_does(space: spaces.Space, seed: int) -> None:
    space.seed(seed)
    reading = read(space)
    samples = [space.sample() for _ in range(3)]
    expected = np.array([np.ravel(spaces.flatten(space, each)) for each in samples], np.float32)
    assert reading.shape == (expected.shape[1],) == (spaces.flatdim(space),)
    batched = vector.create_empty_array(space, 3)
    batched = vector.concatenate(space, samples, batched)
    rows, single = as_rows(reading, batched)
    assert (rows.tolist(), single) == (expected.tolist(), False)
    for sample, row in zip(samples, expected, strict=True):
        assert reading.encode(sample).tolist() == row.tolist()
        assert reading.encode(sample).dtype == np.float32
        assert as_rows(reading, sample)[1]
    stored = json.loads(json.dumps(reading.metadata()))
    assert Observations.from_metadata(stored) == reading
    assert Observations.from_metadata(stored).encode(samples[0]).tolist() == expected[0].tolist()


GOAL = spaces.Dict({"cell": spaces.MultiDiscrete([2, 3], start=[1, 0]), "at": spaces.Tuple((FLAT, Discrete(2)))})
HERE = {"cell": np.array([1, 2]), "at": (np.zeros((2, 3)), 1)}


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"cell": np.array([1, 2])}, "an observation without 'at.0'"),
        ({**HERE, "at": (np.zeros((2, 3)),)}, "an observation without 'at.1'"),
        (np.zeros(13), "an observation without"),
        ({**HERE, "cell": np.array([0, 2])}, "cell [[0, 2]], which its space does not have"),
        ({**HERE, "cell": np.array([1.0, 2.0])}, "cell of type float64"),
        ({**HERE, "cell": np.array([1, 2, 0])}, "cell of shape (3,) where its space has (2,)"),
        ({**HERE, "at": (np.zeros(6), 1)}, "at.0 of shape (6,) where its space has (2, 3)"),
        ({**HERE, "at": (np.full((2, 3), "a"), 1)}, "at.0 of type"),
        ({**HERE, "at": (np.zeros((2, 3)), 2)}, "at.1 [2]"),
    ],
)
def test_what_is_none_of_a_nested_space_is_refused(odd: Any, said: str) -> None:
    assert read(GOAL).encode(HERE).tolist() == np.ravel(spaces.flatten(GOAL, HERE)).tolist()
    with pytest.raises(OddValueError) as caught:
        read(GOAL).encode(odd)
    assert said in str(caught.value)


def test_bounds_of_nested_numbers_are_scaled_and_ones_among_zeros_are_not() -> None:
    space = spaces.Dict(
        {"cell": Discrete(3), "place": Box(np.array([0.0, -np.inf]), np.array([4.0, 1.0]), dtype=np.float64)}
    )
    mean, deviation = scale_of(space, "Some-v0")
    assert (mean.tolist(), deviation.tolist()) == ([0, 0, 0, 2, 0], [1, 1, 1, 2, 1])
    with pytest.raises(InputError, match="has no bounds"):
        scale_of(spaces.Dict({"cell": Discrete(3)}), "Some-v0")


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: about.update(parts=[[["cell"], [2], [2, 3], [1]]]),
        lambda about: about.update(parts=about["parts"][:1]),
        lambda about: about.update(parts=7),
        lambda about: about.update(parts=[[["cell"], [2], [2, -3], [1, 0]]]),
        lambda about: about.update(parts=[[[["cell"]], [13], [], []]]),
        lambda about: about.update(kind="image"),
        lambda about: about.update(shape=[13, 1]),
    ],
)
def test_damaged_metadata_of_nested_observations_are_refused(damage: Any) -> None:
    about = json.loads(json.dumps(read(GOAL).metadata()))
    damage(about)
    with pytest.raises(InputError, match="is inconsistent"):
        Observations.from_metadata(about)


@pytest.mark.parametrize("kind", [*STRANGE, "Dict", "Tuple"])
def test_actions_that_cannot_be_counted_are_refused_with_a_wrapper(kind: str) -> None:
    others = {"Dict": spaces.Dict({"a": Discrete(2), "b": FLAT}), "Tuple": spaces.Tuple((Discrete(2), FLAT))}
    space = {**STRANGE, **others}[kind]
    with pytest.raises(InputError) as caught:
        read_actions(space, "Some-v0", None)
    for part in ("Some-v0", str(space), "Discrete", "gymnasium.wrappers.TransformAction"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("space", "bins", "parts"),
    [
        (Box(-1.0, 1.0, (1,), np.float32), None, ["continuous", "action_bins (--action-bins 12)", "TransformAction"]),
        (Box(-np.inf, 1.0, (1,), np.float32), 4, ["bounds are not all finite", "RescaleAction"]),
        (Box(-1.0, 1.0, (5,), np.float32), 4, ["5 dimensions", "one to 4 dimensions", "TransformAction"]),
        (Box(-1.0, 1.0, (0,), np.float32), 4, ["0 dimensions"]),
        (Discrete(3), 4, ["action_bins is 4", "discrete already", "Leave it out"]),
    ],
)
def test_what_cannot_be_cut_into_bins(space: spaces.Space, bins: int | None, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read_actions(space, "Some-v0", bins)
    for part in ("Some-v0", str(space), *parts):
        assert part in str(caught.value)


def test_there_are_at_most_a_thousand_actions() -> None:
    for size, most in ((1, 1_000), (2, 31), (3, 10), (4, 5)):
        space = Box(-1.0, 1.0, (size,), np.float32)
        assert read_actions(space, "Some-v0", most).count == most**size <= 1_000
        with pytest.raises(InputError, match=rf"which makes {(most + 1) ** size:,} actions.*action_bins = {most} or"):
            read_actions(space, "Some-v0", most + 1)
    with pytest.raises(InputError, match=r"--action-bins 5\)"):
        read_actions(Box(-1.0, 1.0, (2, 2), np.float32), "Some-v0", None)
    assert read_actions(spaces.MultiDiscrete([10, 10, 10]), "Some-v0", None).count == 1_000
    for space in (spaces.MultiDiscrete([10, 10, 11]), spaces.MultiBinary(10)):
        with pytest.raises(InputError) as caught:
            read_actions(space, "Some-v0", None)
        for part in (str(space), f"{1_100 if space.shape == (3,) else 1_024:,} combinations", "TransformAction"):
            assert part in str(caught.value)
    with pytest.raises(InputError, match="action_bins is 3, but the actions of Some-v0 are discrete already"):
        read_actions(spaces.MultiDiscrete([2, 2]), "Some-v0", 3)


@given(SEVERAL | MATRICES | SWITCHES)
def test_every_combination_of_whole_numbers_is_an_action(space: Any) -> None:
    actions = read_actions(space, "Some-v0", None)
    assert all(space.contains(action) for action in actions.table)
    assert len({action.tobytes() for action in actions.table}) == actions.count
    counts = np.ravel(getattr(space, "nvec", np.full(space.shape, 2)))
    assert actions.count == np.prod(counts)
    # The last number changes fastest, as in NumPy's order of an array with an axis for each.
    start = getattr(space, "start", 0)
    places = np.array([np.ravel(action - start) for action in actions.table])
    np.testing.assert_array_equal(np.ravel_multi_index(tuple(places.T), tuple(counts)), np.arange(actions.count))


def test_four_dimensions_are_cut_into_all_combinations() -> None:
    space = Box(np.arange(4.0).reshape(2, 2), np.arange(4.0).reshape(2, 2) + 2, dtype=np.float64)
    actions = read_actions(space, "Some-v0", 3)
    wanted = list(itertools.product(*([low, low + 1, low + 2] for low in range(4))))
    np.testing.assert_allclose([np.ravel(action) for action in actions.table], wanted)
    assert all(space.contains(action) for action in actions.table)


@given(st.integers(1, 9), st.integers(-5, 5))
def test_discrete_actions_are_counted_from_their_start(count: int, start: int) -> None:
    actions = read_actions(Discrete(count, start=start), "Some-v0", None)
    assert actions.table == tuple(start + index for index in range(count))
    assert all(Discrete(count, start=start).contains(action) for action in actions.table)


@given(st.integers(2, 6))
def test_two_dimensions_are_cut_into_all_pairs_with_both_ends(bins: int) -> None:
    space = Box(np.array([-2.0, 0.0]), np.array([2.0, 5.0]), dtype=np.float64)
    actions = read_actions(space, "Some-v0", bins)
    first = [-2 + 4 * place / (bins - 1) for place in range(bins)]
    second = [5 * place / (bins - 1) for place in range(bins)]
    np.testing.assert_allclose(actions.table, list(itertools.product(first, second)), atol=1e-12)
    assert actions.count == bins**2
    assert all(space.contains(action) for action in actions.table)
    assert {tuple(action) for action in actions.table} >= set(itertools.product((-2.0, 2.0), (0.0, 5.0)))


@given(st.lists(st.tuples(st.floats(-9e5, 9e5), st.floats(1e-3, 9e5)), min_size=1, max_size=5))
def test_bounds_become_minus_one_and_one(ranges: list[tuple[float, float]]) -> None:
    low, width = np.array(ranges).T
    low, high = np.minimum(low, 9e4), np.minimum(low, 9e4) + width
    mean, deviation = scale_of(Box(low, high, dtype=np.float64), "Some-v0")
    np.testing.assert_allclose((low - mean) / deviation, -1, rtol=1e-6)
    np.testing.assert_allclose((high - mean) / deviation, 1, rtol=1e-6)


def test_numbers_without_bounds_are_left_as_they_are() -> None:
    largest = np.finfo(np.float32).max
    low = np.array([[-2, -np.inf, -largest, 0], [-1e6, 3, -1, -np.inf]], np.float32)
    high = np.array([[6, np.inf, largest, np.inf], [1e6, 3, 1e6, 1]], np.float32)
    mean, deviation = scale_of(Box(low, high), "Some-v0")
    assert mean.tolist() == [2, 0, 0, 0, 0, 0, 0, 0]
    assert deviation.tolist() == [4, 1, 1, 1, 1, 1, 1, 1]


@given(st.integers(1, 9), st.integers(-5, 5), st.data())
def test_discrete_observations_are_one_hot(count: int, start: int, data: st.DataObject) -> None:
    space = Discrete(count, start=start)
    reading = read(space)
    values = data.draw(st.lists(st.integers(start, start + count - 1), min_size=1, max_size=4))
    expected = [[float(place == value - start) for place in range(count)] for value in values]
    assert reading.encode_rows(values).tolist() == expected
    assert reading.encode(np.int64(values[0])).tolist() == expected[0]
    assert as_rows(reading, values[0])[0].tolist() == expected[:1]
    for outside in (start - 1, start + count, 0.5, None, "a", [start]):
        with pytest.raises(OddValueError):
            reading.encode(outside)


def test_boxes_are_flattened_in_order() -> None:
    reading = read(FLAT)
    assert (reading.kind, reading.shape, reading.given, reading.size) == ("vector", (6,), (2, 3), 6)
    given = np.arange(12.0).reshape(2, 2, 3)
    assert reading.encode(given[0]).tolist() == [0, 1, 2, 3, 4, 5]
    assert reading.encode(given[0].tolist()).tolist() == [0, 1, 2, 3, 4, 5]
    assert reading.encode_rows(given).tolist() == given.reshape(2, 6).tolist()
    rows, single = as_rows(reading, given[0])
    assert (rows.tolist(), single) == ([[0, 1, 2, 3, 4, 5]], True)
    rows, single = as_rows(reading, given)
    assert (rows.shape, single) == ((2, 6), False)


@pytest.mark.parametrize(
    "odd", [None, "word", np.zeros(6), {"a": 1}, [["a"] * 3] * 2, np.zeros((2, 3), complex), [[1], [2, 3]]]
)
def test_what_is_none_of_a_box_is_refused(odd: Any) -> None:
    reading = read(FLAT)
    with pytest.raises(ValueError, match=r"shape|no number|inhomogeneous"):
        reading.encode(odd)
    with pytest.raises(InputError, match="Give what the environment gives"):
        as_rows(reading, odd)


@pytest.mark.parametrize(
    ("shape", "dtype", "reading"),
    [
        ((84, 84), np.uint8, ((1, 84, 84), False)),
        ((84, 84, 3), np.uint8, ((3, 84, 84), True)),
        ((4, 84, 84), np.uint8, ((4, 84, 84), False)),
        ((36, 36), np.uint8, ((1, 36, 36), False)),
        ((35, 84), np.uint8, None),
        ((84, 84), np.float32, None),
        ((84,), np.uint8, None),
        ((84, 84, 3, 2), np.uint8, None),
    ],
)
def test_images_are_large_and_of_bytes(shape: tuple[int, ...], dtype: Any, reading: Any) -> None:
    space = Box(0, 255, shape, dtype)
    assert is_image(space) == (reading is not None)
    found = read(space)
    if reading is None:
        assert (found.kind, found.shape) == ("vector", (int(np.prod(shape)),))
    else:
        assert (found.kind, found.shape, found.channels_last) == ("image", *reading)
        assert found.dtype is np.uint8
    assert read(space, as_image=False).kind == "vector"


@pytest.mark.parametrize(
    ("space", "bins"),
    [
        (Discrete(3, start=2), None),
        (Box(-1.0, 1.0, (2,), np.float64), 3),
        (Box(-1.0, 1.0, (), np.float32), 3),
        (spaces.MultiDiscrete([2, 3], start=[1, -1]), None),
        (spaces.MultiBinary(2), None),
    ],
)
def test_a_run_tells_its_actions_and_observations_as_they_are(space: spaces.Space, bins: int | None) -> None:
    class Other(Slope):
        action_space = space

    configuration = configure("Other", defaults=host_preset("Other"), **SMALL, action_bins=bins)
    task = host_task(configuration, source_of(Other))
    about = about_task(task)
    read = Actions.from_metadata(about["action_table"], about["action_type"])
    assert Observations.from_metadata(about["observations"]) == task.observations
    assert [np.asarray(action).dtype for action in read.table] == [
        np.asarray(each).dtype for each in task.actions.table
    ]
    np.testing.assert_array_equal(read.table, task.actions.table)
    assert all(space.contains(action) for action in read.table)
