"""Games: one environment and a vector of them follow one protocol, and bad input is refused before anything runs."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

from srgdqn.adapters import atari
from srgdqn.adapters.atari import image_wrappers, make_atari, make_atari_vector
from srgdqn.errors import InputError

SHAPE = (4, 84, 84)


@pytest.fixture(autouse=True)
def _games() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")


@pytest.mark.parametrize("game", ["ALE/Pong-v5", "ALE/Breakout-v5"])
def test_one_environment_and_a_vector_are_the_same_game(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte up to the end of an episode, where nothing is random: starts and sticky actions are not compared."""
    monkeypatch.setattr(atari, "MOST_IDLE", 0)
    single = make_atari(game, repeat_action_probability=0.0)
    several = make_atari_vector(game, 1, repeat_action_probability=0.0, threads=1)
    assert several.single_observation_space == single.observation_space == Box(0, 255, SHAPE, np.uint8)
    assert several.single_action_space == single.action_space
    actions = np.random.default_rng(0).integers(0, single.action_space.n, 2000)
    one, _ = single.reset(seed=0)
    many, _ = several.reset(seed=0)
    np.testing.assert_array_equal(one, many[0])
    total = 0.0
    for action in actions:
        one, reward, terminated, truncated, _ = single.step(int(action))
        many, *rest, _ = several.step(np.array([action]))
        np.testing.assert_array_equal(one, many[0])
        assert [float(x[0]) for x in rest] == [reward, terminated, truncated]
        total += abs(float(reward))
        if terminated or truncated:
            break
    assert terminated
    assert total > 0


def test_starts_have_idle_frames_up_to_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atari, "MOST_IDLE", 2)
    single, several = make_atari("ALE/Pong-v5"), make_atari_vector("ALE/Pong-v5", 2, threads=1)
    for environment, expected in ((single, {1, 2}), (several, {0, 1, 2})):
        environment.reset(seed=0)
        starts = [np.ravel(environment.reset()[1]["episode_frame_number"]) for _ in range(10)]
        assert set(np.concatenate(starts).tolist()) == expected


@pytest.mark.parametrize("sticky", [True, False])
def test_actions_are_sticky_as_the_id_has_them(sticky: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no idle frames nothing else is random: the same actions lead elsewhere only where they stick."""
    monkeypatch.setattr(atari, "MOST_IDLE", 0)
    options: dict[str, Any] = {} if sticky else {"repeat_action_probability": 0.0}
    singles = [make_atari("ALE/Breakout-v5", **options) for _ in range(2)]
    several = make_atari_vector("ALE/Breakout-v5", 2, threads=1, **options)
    for seed, environment in enumerate(singles):
        environment.reset(seed=seed)
    several.reset(seed=0)
    for action in [2, 2, 3, 2, 3, 3, 3, 2, 2, 3, 2, 3] * 3:
        ends = [environment.step(action)[0] for environment in singles]
        both = several.step(np.full(2, action))[0]
    assert np.array_equal(*ends) != sticky
    assert np.array_equal(*both) != sticky


def roll(seed: int, threads: int) -> np.ndarray:
    several = make_atari_vector("ALE/Breakout-v5", 2, threads=threads)
    seen = [several.reset(seed=seed)[0]]
    actions = np.random.default_rng(1).integers(0, 4, (30, 2))
    return np.array([*seen, *(several.step(row)[0] for row in actions)])


def test_seeds_decide_everything_and_threads_nothing() -> None:
    first = roll(5, 1)
    np.testing.assert_array_equal(first, roll(5, 2))
    assert not np.array_equal(first, roll(50, 1))
    singles = [make_atari("ALE/Breakout-v5") for _ in range(2)]
    for environment in singles:
        environment.reset(seed=3)
    for action in np.random.default_rng(1).integers(0, 4, 40):
        frames = [environment.step(int(action))[0] for environment in singles]
        np.testing.assert_array_equal(*frames)


def test_an_episode_begins_anew_from_a_seed_or_by_itself() -> None:
    several = make_atari_vector("ALE/Pong-v5", 2, threads=1, max_num_frames_per_episode=40)
    assert several.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    still = np.zeros(2, np.int64)
    several.reset(seed=0)
    for _ in range(10):
        *_, truncated, _ = several.step(still)
    assert truncated.all()
    seeded, _ = several.reset(seed=np.array([7]), options={"reset_mask": np.array([True, False])})
    other = make_atari_vector("ALE/Pong-v5", 1, threads=1, max_num_frames_per_episode=40)
    fresh, _ = other.reset(seed=7)
    np.testing.assert_array_equal(seeded[0], fresh[0])
    stepped, reward, *ends, _ = several.step(still)
    np.testing.assert_array_equal(stepped[0], other.step(still[:1])[0][0])
    assert not stepped[1, :3].any()  # the second began by itself: black frames before its first
    assert stepped[1, 3].any()
    assert not np.any([reward, *ends])


def test_an_unknown_game_is_refused() -> None:
    for make in (make_atari, lambda name: make_atari_vector(name, 2)):
        with pytest.raises(InputError, match=r"unknown Atari game 'ALE/Pnog-v5'\. Did you mean 'ALE/Pong-v5'\?"):
            make("ALE/Pnog-v5")


@pytest.mark.parametrize("option", ["mood", "frameskip"])
def test_options_that_are_unknown_or_the_protocols_are_refused(option: str) -> None:
    for make in (make_atari, lambda name, **options: make_atari_vector(name, 2, **options)):
        with pytest.raises(InputError, match=rf"ALE/Pong-v5 does not take these options: .*'{option}'"):
            make("ALE/Pong-v5", **{option: 1})


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = r"pip install 'srgdqn\[atari\]'"
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "ale_py", None)
        with pytest.raises(InputError, match=rf"needs ale_py.*{expected}"):
            make_atari("ALE/Pong-v5")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(InputError, match=rf"needs cv2.*{expected}"):
        make_atari("ALE/Pong-v5")
    with pytest.raises(InputError, match=rf"needs cv2.*{expected}"):
        image_wrappers(Colours((96, 96, 3)))


class Colours(gymnasium.Env):
    """Images of one colour, which gets brighter with every step."""

    action_space = Discrete(2)

    def __init__(self, shape: tuple[int, ...], number: type = np.uint8) -> None:
        self.observation_space = Box(0, 255, shape, number)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.brightness = 10
        return self._image(), {}

    def step(self, action: int) -> Any:
        self.brightness += 10
        return self._image(), 1.0, False, False, {}

    def _image(self) -> np.ndarray:
        return np.full(self.observation_space.shape, self.brightness, np.uint8)


@pytest.mark.parametrize("shape", [(96, 96, 3), (40, 60), (210, 160, 3)], ids=str)
def test_images_become_stacks_of_grey_frames(shape: tuple[int, ...]) -> None:
    environment = image_wrappers(Colours(shape))
    assert environment.observation_space == Box(0, 255, SHAPE, np.uint8)
    seen = [environment.reset(seed=0)[0], environment.step(0)[0]]
    for stack, expected in zip(seen, [(0, 0, 0, 10), (0, 0, 10, 20)], strict=True):
        assert stack.dtype == np.uint8
        for frame, grey in zip(stack, expected, strict=True):
            np.testing.assert_allclose(frame, np.full((84, 84), grey), atol=1)  # the weights of colours sum to 1


@pytest.mark.parametrize(("shape", "number"), [((4,), np.float32), ((3, 96, 96), np.uint8), ((96, 96, 3), np.float32)])
def test_observations_that_are_no_images_are_refused(shape: tuple[int, ...], number: type) -> None:
    with pytest.raises(InputError, match=r"images have the shape \(height, width, 3\)"):
        image_wrappers(Colours(shape, number))
