"""Transitions beside those that are counted by hand, whoever steps the environments and however blocks are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

from host_environments import Counting, ends, observed, rewarded
from srgdqn.adapters.players import CopiesPlayer, EnvironmentInfo, ExplorationDraws, VectorPlayer, autoreset_mode
from srgdqn.adapters.replay_memory import Block
from srgdqn.adapters.spaces import read_actions, read_observations
from srgdqn.errors import InputError

OBSERVATIONS = read_observations(Counting.observation_space, "Counting", as_image=False)
ACTIONS = read_actions(Counting.action_space, "Counting", None)
MODES = ("copies", *AutoresetMode)


class Greedy:
    """An action that tells what was seen."""

    def update(self, parameters: Any, normaliser: Any) -> None:
        raise AssertionError

    def one(self, observation: np.ndarray) -> int:
        return greedy(*observation)

    def rows(self, observations: np.ndarray) -> np.ndarray:
        return np.array([greedy(*row) for row in observations])


def greedy(episode: float, step: float, action: float) -> int:
    return int(episode + 2 * step + action) % 3


class Row(NamedTuple):
    s: tuple[float, ...]
    a: int
    r: float
    s_next: tuple[float, ...]
    terminated: bool
    truncated: bool
    place: int


class Place:
    """One environment, counted by hand."""

    def __init__(self, number: int, lengths: Sequence[int]) -> None:
        self.number, self.lengths, self.at, self.waits = number, lengths, (0, 0, 0), False

    def act(self, action: int) -> Row:
        episode, step, _ = before = self.at
        after = (episode, step + 1, action)
        terminated, truncated = ends(self.lengths, episode, step + 1)
        ended = terminated or truncated
        self.at = (episode + 1, 0, 0) if ended else after
        self.waits = ended
        reward = rewarded(episode, step + 1, action)
        return Row(
            tuple(observed(*before)), action, reward, tuple(observed(*after)), terminated, truncated, self.number
        )


def by_hand(
    mode: Any, lengths: Sequence[Sequence[int]], explore: Sequence[bool], draws: Sequence[int]
) -> Iterator[Row]:
    """Turn by turn, place by place; step number t uses draw number t."""
    places = [Place(number, each) for number, each in enumerate(lengths)]
    chances = iter(zip(explore, draws, strict=True))
    while True:
        for place in places:
            if mode is AutoresetMode.NEXT_STEP and place.waits:
                place.waits = False  # this turn only begins its episode
                continue
            explores, random_action = next(chances)
            yield place.act(random_action if explores else greedy(*place.at))


def player_of(mode: Any, environments: list[Counting], vector: type[SyncVectorEnv] = SyncVectorEnv) -> Any:
    def seeds(place: int, episode: int) -> int:
        return 1_000 * place + episode

    if mode == "copies":
        return CopiesPlayer(environments, EnvironmentInfo("Counting", OBSERVATIONS, ACTIONS, seeds))
    # It writes into the same arrays at every step, as vector environments may.
    together = vector([lambda each=each: each for each in environments], autoreset_mode=mode, copy=False)
    return VectorPlayer(together, EnvironmentInfo("Counting", OBSERVATIONS, ACTIONS, seeds))


def played(player: Any, blocks: int, length: int, explore: Sequence[bool], draws: Sequence[int]) -> list[Row]:
    """As a round does it: chances from the first step that has not been lived, with some to spare."""
    rows: list[Row] = []
    for index in range(blocks):
        first = index * length + player.ahead
        chances = ExplorationDraws([0.5] * len(draws[first:]), draws[first:], [float(each) for each in explore[first:]])
        block = Block(length, OBSERVATIONS)
        player.play(block, Greedy(), chances, index * length)
        columns = (block.observation, block.action, block.reward, block.next_observation)
        for s, a, r, s_next, *ended, place in zip(
            *columns, block.terminated, block.truncated, block.environment, strict=True
        ):
            rows.append(Row(tuple(s), int(a), float(r), tuple(s_next), *map(bool, ended), int(place)))
    return rows


@pytest.mark.parametrize("mode", MODES, ids=str)
@given(st.data())
def test_every_transition_is_the_one_counted_by_hand(mode: Any, data: st.DataObject) -> None:
    places, turns, blocks = (data.draw(st.integers(1, most)) for most in (4, 4, 5))
    length = places * turns
    lengths = [data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)) for _ in range(places)]
    count = (blocks + 1) * length + places
    explore = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    draws = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    environments = [Counting(each) for each in lengths]
    player = player_of(mode, environments)
    expected = by_hand(mode, lengths, explore, draws)
    assert played(player, blocks, length, explore, draws) == [next(expected) for _ in range(blocks * length)]
    # Whatever was lived ahead of the blocks has ended its episodes already, and no step is lived twice.
    ahead = [next(expected) for _ in range(player.ahead)]
    assert player.ahead < places
    behind = played_again(mode, lengths, explore, draws, blocks * length)
    assert player.episodes == sum(row.terminated or row.truncated for row in [*behind, *ahead])
    # Where the resets are ours, every episode has its own seed, by place and number.
    for place, environment in enumerate(environments):
        begun = environment.episode + 1
        ours = begun if mode in ("copies", AutoresetMode.DISABLED) else 1
        assert environment.seeds[:ours] == [1_000 * place + episode for episode in range(ours)]
        assert environment.seeds[ours:] == [None] * (begun - ours)
        assert player.begun[place] == ours


def played_again(mode: Any, lengths: Any, explore: Any, draws: Any, count: int) -> list[Row]:
    expected = by_hand(mode, lengths, explore, draws)
    return [next(expected) for _ in range(count)]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_blocks_length_changes_nothing(mode: Any) -> None:
    explore, draws = [False, True, True] * 50, [0, 1, 2, 2, 1] * 30
    lives = [
        played(player_of(mode, [Counting((3, 1, 4)), Counting((2, 5))]), 24 // turns, 2 * turns, explore, draws)
        for turns in (1, 2, 3, 4, 12)
    ]
    assert all(life == lives[0] for life in lives)


def test_exploration_follows_the_episodes_where_the_budget_does() -> None:
    """ε is 1 until two episodes have ended, and 0 from then on, also for episodes beyond the budget."""
    player = player_of("copies", [Counting((3, 2, 4))])
    block = Block(20, OBSERVATIONS)
    player.play(block, Greedy(), ExplorationDraws([0.5] * 20, [2] * 20, None, [1.0, 1.0, 0.0]), 0)
    expected = by_hand("copies", [(3, 2, 4)], [True] * 5 + [False] * 15, [2] * 20)
    assert block.action.tolist() == [next(expected).a for _ in range(20)]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_forgetting_begins_new_episodes(mode: Any) -> None:
    player = player_of(mode, [Counting((4, 4)), Counting((5, 5))])
    draws = [0] * 40
    played(player, 1, 6, [False] * 40, draws)
    player.forget()
    assert player.ahead == 0
    rows = played(player, 1, 2, [False] * 40, draws)
    assert [row.s for row in rows] == [(1, 0, 0), (1, 0, 0)]


Vector = Callable[..., Any]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda o, r, e, t, i: (o[:1], r, e, t, i), "1 observations where there are 2 environments"),
        (lambda o, r, e, t, i: (o[:, :2], r, e, t, i), "shape (2,) where its space has (3,)"),
        (lambda o, r, e, t, i: (o.astype(str), r, e, t, i), "which is no number"),
        (lambda o, r, e, t, i: (o, r[:1], e, t, i), "gave rewards"),
        (lambda o, r, e, t, i: (o, [None, 1.0], e, t, i), "gave rewards [None, 1.0]"),
        (lambda o, r, e, t, i: (o, r, ["no", "no"], t, i), "gave terminated ['no', 'no']"),
        (lambda o, r, e, t, i: (o, r, e, None, i), "gave truncated None"),
        (lambda o, r, e, t, i: (o, r, e, t), "not enough values to unpack"),
        (lambda o, r, e, t, i: None, "gave None, which cannot be used"),
    ],
)
def test_what_a_vector_gives_is_looked_at(change: Vector, what: str) -> None:
    class Odd(SyncVectorEnv):
        steps = 0

        def step(self, actions: Any) -> Any:
            self.steps += 1
            outcome = super().step(actions)
            return change(*outcome) if self.steps == 3 else outcome

    player = player_of(AutoresetMode.NEXT_STEP, [Counting((9,)), Counting((9,))], Odd)
    with pytest.raises(RuntimeError) as caught:
        played(player, 3, 4, [False] * 40, [0] * 40)
    assert what in str(caught.value)
    assert "the environment Counting" in str(caught.value)
    assert "at step 5. " in str(caught.value)  # after two of both


def test_same_step_without_final_observations_is_an_error() -> None:
    class Silent(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            return (*super().step(actions)[:-1], {})

    player = player_of(AutoresetMode.SAME_STEP, [Counting((2,))], Silent)
    with pytest.raises(RuntimeError, match=r"gave no info\['final_obs'\]"):
        played(player, 1, 4, [False] * 40, [0] * 40)


def test_an_unknown_autoreset_mode_is_refused() -> None:
    together = SyncVectorEnv([Counting])
    together.metadata = {**together.metadata, "autoreset_mode": "whenever"}
    with pytest.raises(InputError, match=r"'whenever'.*NEXT_STEP, SAME_STEP, DISABLED"):
        autoreset_mode(together)


# Environments that write into what they gave


class InPlace(Counting):
    """Gives the same array at every step."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = np.zeros(3, np.float32)

    def reset(self, **options: Any) -> Any:
        self._seen[:], info = super().reset(**options)
        return self._seen, info

    def step(self, action: Any) -> Any:
        self._seen[:], *rest = super().step(action)
        return self._seen, *rest


@pytest.mark.parametrize("copies", [1, 2])
def test_observations_are_what_they_were_when_they_were_seen(copies: int) -> None:
    player = CopiesPlayer(
        [InPlace() for _ in range(copies)], EnvironmentInfo("InPlace", OBSERVATIONS, ACTIONS, lambda *_: 0)
    )
    block = Block(12, OBSERVATIONS)
    player.play(block, Greedy(), ExplorationDraws([1.0] * 14, [0] * 14, [0.0] * 14), 0)
    np.testing.assert_array_equal(block.next_observation[:, 1], block.observation[:, 1] + 1)
    np.testing.assert_array_equal(block.next_observation[:, 0], block.observation[:, 0])


class Pictures(gym.Env):
    """Shows the number of its steps as an image."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._picture(), {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        return self._picture(), 0.0, self._steps == 5, False, {}

    def _picture(self) -> np.ndarray:
        return np.full(self.observation_space.shape, self._steps, np.uint8)


@pytest.mark.parametrize("mode", AutoresetMode, ids=str)
@pytest.mark.parametrize("shape", [(40, 40), (40, 40, 3), (3, 40, 40)])
def test_so_are_images_of_a_vector_that_writes_into_the_same_arrays(
    mode: AutoresetMode, shape: tuple[int, ...]
) -> None:
    together = SyncVectorEnv([lambda: Pictures(shape)] * 2, autoreset_mode=mode, copy=False)
    reading = read_observations(together.single_observation_space, "Pictures", as_image=True)
    actions = read_actions(together.single_action_space, "Pictures", None)
    player = VectorPlayer(together, EnvironmentInfo("Pictures", reading, actions, lambda *_: 0))
    block = Block(8, reading)

    class Still(Greedy):
        def rows(self, observations: np.ndarray) -> np.ndarray:
            return np.zeros(len(observations), int)

    seen: list[int] = []
    for lived in range(0, 24, 8):
        player.play(block, Still(), ExplorationDraws([1.0] * 12, [0] * 12, [0.0] * 12), lived)
        np.testing.assert_array_equal(block.next_observation, block.observation + 1)
        seen += block.observation[:, 0, 0, 0].tolist()
    assert seen[:10] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
