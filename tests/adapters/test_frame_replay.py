"""The memory of images gives back what was put in, whatever it was, and keeps every frame once."""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from srgdqn.adapters.replay_memory import FrameMemory
from srgdqn.learner.gradients import Transitions

SIDES = (2, 3)


class Written(NamedTuple):
    """A transition, its images copied."""

    environment: int
    observation: np.ndarray
    action: int
    reward: float
    next_observation: np.ndarray
    terminated: bool


def append(memory: FrameMemory, environment: int, *transition: Any) -> None:
    """One transition: S, A, R, S', whether terminated."""
    memory.write(Transitions(*(np.array(each)[None] for each in transition)), np.array([environment]))  # type: ignore[arg-type]


@st.composite
def journeys(draw: Any, depth: int) -> list[Written]:
    """Transitions of some environments in any order. Frames have few different values, so that stacks coincide, too."""
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    values = draw(st.sampled_from([1, 2, 256]))

    def frames(count: int) -> np.ndarray:
        return rng.integers(0, values, (count, *SIDES), dtype=np.uint8)

    now: dict[int, np.ndarray] = {}
    written = []
    for environment in draw(st.lists(st.integers(0, 2), max_size=60)):
        kind = draw(st.sampled_from(["on", "on", "on", "still", "begin", "anew"]))
        before = frames(depth) if environment not in now or kind == "begin" else now[environment]
        after = {"still": before, "anew": frames(depth)}.get(kind, np.concatenate([before[1:], frames(1)]))
        now[environment] = after
        row = len(written)
        written.append(Written(environment, before.copy(), row % 7, row / 3, after.copy(), bool(rng.integers(2))))
    return written


@given(data=st.data(), depth=st.integers(1, 4), slots=st.integers(1, 25), chunk_frames=st.integers(1, 9))
def test_what_is_gathered_is_what_was_written(data: st.DataObject, depth: int, slots: int, chunk_frames: int) -> None:
    memory = FrameMemory(slots, (depth, *SIDES), 3, 7, chunk_frames=chunk_frames)
    journey = data.draw(journeys(depth))
    for number, row in enumerate(journey):
        given_images = [row.observation.copy(), row.next_observation.copy()]
        append(memory, row.environment, given_images[0], row.action, row.reward, given_images[1], row.terminated)
        for image in given_images:
            image[:] = 77  # the memory must have copies of its own
        assert memory.written == number + 1
        stored = np.arange(max(0, number + 1 - slots), number + 1)
        chosen = stored if number % 5 == 0 or number + 1 == len(journey) else stored[-1:]
        found = memory.gather(chosen % slots)
        expected = [journey[t] for t in chosen]
        np.testing.assert_array_equal(found.observation, [x.observation for x in expected])
        np.testing.assert_array_equal(found.next_observation, [x.next_observation for x in expected])
        np.testing.assert_array_equal(found.action, [x.action for x in expected])
        np.testing.assert_array_equal(found.reward, np.array([x.reward for x in expected], np.float32))
        np.testing.assert_array_equal(found.terminated, [float(x.terminated) for x in expected])


def test_numbers_have_the_types_that_the_learner_takes() -> None:
    memory = FrameMemory(2, (4, *SIDES), 1, 7)
    stack = np.zeros((4, *SIDES), np.uint8)
    append(memory, 0, stack, 1, -0.5, stack, True)
    found = memory.gather(np.array([0, 0, 0]))
    assert [x.dtype for x in found[:5]] == [np.uint8, np.int32, np.float32, np.uint8, np.float32]
    assert [x.shape for x in found[:5]] == [(3, 4, *SIDES), (3,), (3,), (3, 4, *SIDES), (3,)]
    assert found.next_mask is None


def play(memory: FrameMemory, steps: int, episode: int, *, depth: int, environments: int) -> None:
    """Episodes of a fixed length, whose stacks move on by a frame that was never seen before."""
    clock = iter(range(10**9))

    def fresh() -> np.ndarray:
        return np.frombuffer(np.array([next(clock)], "<u8").tobytes()[:6], np.uint8).reshape(1, *SIDES)

    now: list[np.ndarray] = []
    for step in range(steps):
        for environment in range(environments):
            if step % episode == 0:
                now[environment : environment + 1] = [np.concatenate([fresh() for _ in range(depth)])]
            after = np.concatenate([now[environment][1:], fresh()])
            append(memory, environment, now[environment], 0, 0.0, after, False)
            now[environment] = after


@pytest.mark.parametrize("depth", [1, 4])
def test_a_step_costs_one_frame(depth: int) -> None:
    steps, episode, chunk, environments = 3000, 50, 100, 2
    memory = FrameMemory(environments * steps, (depth, *SIDES), environments, 7, chunk_frames=chunk)
    ring = memory.nbytes
    play(memory, steps, episode, depth=depth, environments=environments)
    frames = (memory.nbytes - ring) / 6
    new = environments * (steps + depth * (steps // episode))
    repeated_or_unused = 2 * (depth - 1) / chunk  # of each chunk, at most, but the one that an environment writes to
    assert new <= frames <= new / (1 - repeated_or_unused) + environments * chunk


def test_memory_stays_within_bounds_when_old_transitions_go() -> None:
    slots, environments, chunk = 200, 2, 20
    memory = FrameMemory(slots, (4, *SIDES), environments, 7, chunk_frames=chunk)
    sizes = []
    for _ in range(20):
        play(memory, 100, 25, depth=4, environments=environments)
        sizes.append(memory.nbytes)
    assert max(sizes) == max(sizes[:3])


def test_an_environment_that_rests_stays_where_it_was() -> None:
    """Its transitions are overwritten by another's, but what it saw last is still there to go on from."""
    rng = np.random.default_rng(0)
    memory = FrameMemory(3, (2, *SIDES), 2, 7, chunk_frames=4)
    stacks = rng.integers(0, 256, (30, 2, *SIDES), dtype=np.uint8)
    append(memory, 0, stacks[0], 0, 0.0, stacks[1], False)
    for t in range(2, 20):
        append(memory, 1, stacks[t], 0, 0.0, stacks[t + 1], False)
    append(memory, 0, stacks[1], 5, 0.0, stacks[2], False)
    found = memory.gather(np.array([(memory.written - 1) % 3]))
    np.testing.assert_array_equal(found.observation[0], stacks[1])
    np.testing.assert_array_equal(found.next_observation[0], stacks[2])
