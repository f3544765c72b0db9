"""Memories on the host that follow episodes, beside a plain loop over the stream of steps that were written."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from host_environments import Counting
from srgdqn.adapters.players import CopiesPlayer, EnvironmentInfo, ExplorationDraws, VectorPlayer
from srgdqn.adapters.replay_memory import REPLAY, Block, FlatMemory, FrameMemory, Memory
from srgdqn.adapters.spaces import read_actions, read_observations
from srgdqn.errors import InputError
from srgdqn.learner.gradients import Transitions

SIDES, DEPTH = (1, 2), 2


class Written(NamedTuple):
    """A step of a stream. Its own number stands for S, and half more for S'; `left`: its episode is left after it."""

    environment: int
    reward: float
    terminated: bool
    truncated: bool
    left: bool


def by_hand(stream: Sequence[Written], first: int, n: int) -> list[int]:
    """The steps from one on: the next ones of its environment, until the episode ends or is left."""
    found = [first]
    for number in range(first + 1, len(stream)):
        last = stream[found[-1]]
        if len(found) == n or last.terminated or last.truncated or last.left:
            break
        if stream[number].environment == stream[first].environment:
            found.append(number)
    return found


@st.composite
def streams(draw: st.DrawFn) -> list[Written]:
    kinds = st.sampled_from(["", "", "", "", "terminated", "truncated", "left"])
    steps = draw(st.lists(st.tuples(st.integers(0, 2), kinds), min_size=1, max_size=50))
    return [
        Written(environment, number / 8 - 3, kind == "terminated", kind == "truncated", kind == "left")
        for number, (environment, kind) in enumerate(steps)
    ]


def memory_of(images: bool, slots: int, n: int) -> Memory:
    if images:
        return FrameMemory(slots, (DEPTH, *SIDES), 3, 3, chunk_frames=5, n_step=n)
    return FlatMemory(slots, 2, 3, environments=3, n_step=n)


def write(memory: Memory, number: int, step: Written) -> None:
    shape = (1, DEPTH, *SIDES) if isinstance(memory, FrameMemory) else (1, 2)
    kind: Any = np.uint8 if isinstance(memory, FrameMemory) else np.float32
    columns: Any = (
        np.full(shape, 2 * number, kind),
        np.array([number % 3]),
        np.array([step.reward]),
        np.full(shape, 2 * number + 1, kind),
        np.array([step.terminated]),
    )
    memory.write(Transitions(*columns), np.array([step.environment]), np.array([step.terminated or step.truncated]))
    if step.left:
        memory.begin_anew([step.environment])


def stored_anew(memory: Memory, images: bool, n: int) -> Memory:
    """What a checkpoint of it leads to."""
    tensors, streams = memory.state()
    other = memory_of(images, memory.slots, n)
    for name, stream in streams.items():
        other.take(name, stream.first, stream.read(stream.first, stream.stop))
    if isinstance(other, FlatMemory):
        assert other.written == memory.written
    other.restore({name: array.copy() for name, array in tensors.items()})
    return other


@pytest.mark.parametrize("images", [False, True])
@settings(max_examples=60)
@given(stream=streams(), n=st.integers(2, 6), slots=st.integers(1, 20), interrupted=st.integers(0, 49))
def test_what_is_gathered_is_what_a_loop_over_the_stream_gives(
    images: bool, stream: list[Written], n: int, slots: int, interrupted: int
) -> None:
    """Also where the memory is stored and restored on the way."""
    memory = memory_of(images, slots, n)
    for number, step in enumerate(stream):
        write(memory, number, step)
        if number == interrupted:
            memory = stored_anew(memory, images, n)
    stored = np.arange(max(0, len(stream) - slots), len(stream))
    found: Any = memory.gather(stored % slots)
    blank: Any = memory.blank(len(stored))
    assert (found.next_mask, blank.next_mask) == (None, None)
    assert [(x.shape, x.dtype) for x in found[:6]] == [(x.shape, x.dtype) for x in blank[:6]]
    for row, first in enumerate(stored.tolist()):
        expected = by_hand(stream, first, n)
        rewards = [stream[number].reward for number in expected]
        assert int(found.steps[row]) == len(expected)
        np.testing.assert_array_equal(found.reward[row], np.array([*rewards, *[0] * (n - len(rewards))], np.float32))
        assert (found.observation[row] == 2 * first).all()
        assert (found.next_observation[row] == 2 * expected[-1] + 1).all()
        assert int(found.action[row]) == first % 3
        assert bool(found.terminated[row]) == stream[expected[-1]].terminated


def test_links_that_lead_nowhere_are_refused() -> None:
    memory = memory_of(False, 5, 3)
    for number in range(4):
        write(memory, number, Written(0, 0.0, False, False, False))
    tensors, streams = memory.state()
    rows = streams[REPLAY].read(0, 4)["row"]
    for column, newest in ((-1.0, 3), (2.5, 3), (5.0, 3), (np.nan, 3), (1.0, 4), (1.0, -2)):
        changed, other = rows.copy(), memory_of(False, 5, 3)
        changed[2, -1] = column
        other.take(REPLAY, 0, {"row": changed})
        with pytest.raises(InputError, match="episodes"):
            other.restore({**tensors, "newest": np.array([newest, -1, -1])})
    with pytest.raises(InputError, match="episodes"):
        memory.restore({"written": np.array(4)})


@pytest.mark.parametrize("mode", ["copies", *AutoresetMode], ids=str)
def test_no_return_goes_beyond_an_episode_whoever_resets_it(mode: Any) -> None:
    """`Counting` says in S' and in every reward which episode and step they are of."""
    n, blocks, length, lengths = 4, 12, 6, [(3, 5, 2), (1, 7), (6,)]
    observations = read_observations(Counting.observation_space, "Counting", as_image=False)
    actions = read_actions(Counting.action_space, "Counting", None)
    info = EnvironmentInfo("Counting", observations, actions, lambda place, episode: 1_000 * place + episode)
    environments = [Counting(each) for each in lengths]
    player: Any = CopiesPlayer(environments, info)
    if mode != "copies":
        player = VectorPlayer(SyncVectorEnv([lambda e=e: e for e in environments], autoreset_mode=mode), info)
    policy: Any = SimpleNamespace(rows=lambda seen: np.zeros(len(seen), int))
    memory = FlatMemory(60, 3, 3, environments=3, n_step=n)
    newest: dict[tuple[int, int], int] = {}  # by environment and episode: the last step that is stored
    kinds, made = set(), list[int]()
    for index in range(blocks):
        block = Block(length, observations)
        chances = ExplorationDraws([1.0] * (length + 3), [0] * (length + 3), [0.0] * (length + 3))
        player.play(block, policy, chances, index * length)
        memory.write(block.transitions(block.reward), block.environment, block.terminated | block.truncated)
        for environment, (episode, step, _) in zip(block.environment, block.next_observation.astype(int), strict=True):
            newest[int(environment), episode] = step
        slots = np.arange(memory.written - min(memory.written, 60), memory.written) % 60
        found: Any = memory.gather(slots)
        made += block.environment.tolist()
        for row in range(len(slots)):
            episode, before, _ = found.observation[row].astype(int)
            after_episode, after, _ = found.next_observation[row].astype(int)
            steps = int(found.steps[row])
            assert (after_episode, after - before) == (episode, steps)
            environment = made[-len(slots) :][row]
            whole = lengths[environment][episode % len(lengths[environment])]
            assert steps == min(n, whole - before, newest[environment, episode] - before)
            assert bool(found.terminated[row]) == (after == whole and episode % 2 == 0)
            told = [(int(r), int((r - int(r)) * 64)) for r in found.reward[row][:steps]]
            assert told == [(episode, before + 1 + k) for k in range(steps)]
            kinds.add((steps, after == whole, episode % 2))
    assert {(steps, True, kind) for steps in (1, 2) for kind in (0, 1)} <= kinds
    assert (n, False, 0) in kinds
