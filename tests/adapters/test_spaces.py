"""Spaces as networks read them, and what is said about those that they cannot read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete
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
STRANGE: dict[str, tuple[spaces.Space, str]] = {
    "Dict": (spaces.Dict({"a": Discrete(2), "b": FLAT}), "FlattenObservation"),
    "Tuple": (spaces.Tuple((Discrete(2), FLAT)), "FlattenObservation"),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 3]), "FlattenObservation"),
    "MultiBinary": (spaces.MultiBinary(4), "FlattenObservation"),
    "Text": (spaces.Text(5), "TransformObservation"),
    "Graph": (spaces.Graph(FLAT, None), "TransformObservation"),
    "Sequence": (spaces.Sequence(FLAT), "TransformObservation"),
}


def read(space: spaces.Space, as_image: bool = True) -> Observations:
    return read_observations(space, "Some-v0", as_image=as_image)


@pytest.mark.parametrize("kind", STRANGE)
def test_observations_that_no_network_reads_are_refused_with_a_wrapper(kind: str) -> None:
    space, wrapper = STRANGE[kind]
    with pytest.raises(InputError) as caught:
        read(space)
    for part in ("Some-v0", str(space), "a Box or a Discrete space", f"gymnasium.wrappers.{wrapper}"):
        assert part in str(caught.value)


@pytest.mark.parametrize("kind", STRANGE)
def test_actions_that_cannot_be_counted_are_refused_with_a_wrapper(kind: str) -> None:
    space, _ = STRANGE[kind]
    with pytest.raises(InputError) as caught:
        read_actions(space, "Some-v0", None)
    for part in ("Some-v0", str(space), "Discrete", "gymnasium.wrappers.TransformAction"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("space", "bins", "parts"),
    [
        (Box(-1.0, 1.0, (1,), np.float32), None, ["continuous", "action_bins (--action-bins 12)", "TransformAction"]),
        (Box(-np.inf, 1.0, (1,), np.float32), 4, ["bounds are not all finite", "RescaleAction"]),
        (Box(-1.0, 1.0, (3,), np.float32), 4, ["3 dimensions", "one or two", "TransformAction"]),
        (Box(-1.0, 1.0, (0,), np.float32), 4, ["0 dimensions"]),
        (Discrete(3), 4, ["action_bins is 4", "discrete already", "Leave it out"]),
    ],
)
def test_what_cannot_be_cut_into_bins(space: spaces.Space, bins: int | None, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read_actions(space, "Some-v0", bins)
    for part in ("Some-v0", str(space), *parts):
        assert part in str(caught.value)


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
    [(Discrete(3, start=2), None), (Box(-1.0, 1.0, (2,), np.float64), 3), (Box(-1.0, 1.0, (), np.float32), 3)],
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
