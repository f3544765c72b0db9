"""Videos read back from their files, and the episodes they show played again by hand."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

import srgdqn
from host_environments import SMALL
from srgdqn.config.configure import configure
from srgdqn.errors import InputError
from srgdqn.integrations.video import Played, film, playing_environment, without_screen
from srgdqn.results.result import Result
from tiny import LEVERS, STUBBORN, TINY


class Screen(gymnasium.Env):
    """Twelve steps to the right across a dark field of odd sides; a step to the left ends the episode."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012, as Gymnasium has it
    observation_space = gymnasium.spaces.Box(0.0, 12.0, (1,))
    action_space = gymnasium.spaces.Discrete(8)

    def __init__(self, render_mode: str | None = "rgb_array") -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._place = int(self.np_random.integers(3))
        return np.array([self._place], np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._place += 1
        return np.array([self._place], np.float32), self._place / 4, action == 7, self._place == 12, {}

    def render(self) -> Any:
        image = np.zeros((33, 65, 3), np.uint8)
        image[:, 5 * self._place : 5 * self._place + 5] = 255
        return image


def places(images: list[np.ndarray]) -> list[int]:
    """Where the light field is in every image."""
    return [round((float(np.flatnonzero(image.mean((0, 2)) > 128).mean()) - 2) / 5) for image in images]


def mp4(path: Path) -> tuple[list[np.ndarray], float]:
    """The images of a file by ffmpeg, and how many there are per second."""
    # Not with imageio-ffmpeg's reader, which forks beside jax's threads.
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-fps_mode", "passthrough"]
    done = subprocess.run([*command, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, timeout=60)
    told = re.search(r"Video: h264.*yuv420p.*?, (\d+)x(\d+).*?, ([\d.]+) fps", done.stderr.decode())
    assert told is not None, done.stderr
    width, height, rate = told.groups()
    return list(np.frombuffer(done.stdout, np.uint8).reshape(-1, int(height), int(width), 3)), float(rate)


def gif(path: Path) -> tuple[list[np.ndarray], list[int]]:
    """The images of a file by Pillow, and for how many milliseconds each is shown."""
    with Image.open(path) as file:
        images, lasting = [], []
        for index in range(file.n_frames):
            file.seek(index)
            images.append(np.asarray(file.convert("RGB")))
            lasting.append(file.info["duration"])
    return images, lasting


def test_an_mp4_has_every_image_in_order_at_the_environments_rate(tmp_path: Path) -> None:
    made = film(Screen(), lambda observation: 0, tmp_path / "a.mp4", episodes=2, seed=5)
    starts = [int(np.random.default_rng(seed).integers(3)) for seed in (5, 6)]
    images, rate = mp4(made.path)
    assert rate == made.rate == 8
    assert images[0].shape == (34, 66, 3)  # sides made even
    assert places(images) == [place for start in starts for place in range(start, 13)]
    assert len(images) == made.images
    assert made.episodes == tuple(
        Played(sum(range(start + 1, 13)) / 4, 12 - start, terminated=False) for start in starts
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_a_gif_has_every_image_and_the_true_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = film(Screen(), lambda observation: 7 * int(observation[0] == 9), tmp_path / "a.GIF", seed=5, progress=True)
    assert "100%" in capsys.readouterr().err
    start = int(np.random.default_rng(5).integers(3))
    images, lasting = gif(made.path)
    assert images[0].shape == (33, 65, 3)
    assert places(images) == list(range(start, 11))
    assert made.episodes == (Played(sum(range(start + 1, 11)) / 4, 10 - start, terminated=True),)
    assert sum(lasting) == 10 * round(100 * len(images) / 8)  # 125 ms each, in hundredths of a second
    assert set(lasting) == {120, 130}


# Trained runs


@pytest.fixture(scope="module")
def result() -> Result:
    return srgdqn.train("CartPole", **{**TINY, "reward": "upright-cosine", "evaluation_limit": 25}, rounds=2, seed=1)


def test_the_film_shows_the_greedy_policy(result: Result, tmp_path: Path) -> None:
    made = srgdqn.video(result, tmp_path / "a.gif", episodes=3, seed=7)
    act = result.policy(result.best)
    rewards, images = [], []
    with without_screen():
        by_hand = playing_environment(result.configuration)
        for seed in (7, 8, 9):
            observation, _ = by_hand.reset(seed=seed)
            rewards.append([])
            over = False
            while not over:
                images.append(by_hand.render())
                observation, reward, terminated, truncated, _ = by_hand.step(act(observation))
                rewards[-1].append(float(reward))
                over = terminated or truncated
            images.append(by_hand.render())
        by_hand.close()
    assert [played.total_reward for played in made.episodes] == [sum(each) for each in rewards]
    assert [played.length for played in made.episodes] == [len(each) for each in rewards]
    assert made.images == len(images) == sum(map(len, rewards)) + 3
    assert made.rate == 50
    shown, lasting = gif(made.path)
    assert sum(lasting) == 20 * len(images)
    for mine, theirs in ((shown[0], images[0]), (shown[-1], images[-1])):
        assert np.abs(mine.astype(int) - theirs).mean() < 3  # colours are rounded in a GIF


@pytest.mark.parametrize(
    ("task", "options", "limit"),
    [
        ("MountainCar", dict(reward="distance"), 200),
        ("Pendulum", dict(torques="midpoints", dynamics="v1"), 200),
        ("CartPole", dict(reward="raw", evaluation_limit=700), 700),
    ],
)
def test_the_papers_tasks_are_shown_with_the_options_of_the_run(task: str, options: dict, limit: int) -> None:
    configuration = configure(task, "srg-dqn", **options)
    environment = playing_environment(configuration)
    assert environment.spec is not None
    assert environment.spec.max_episode_steps == limit
    assert environment.render_mode == "rgb_array"
    asked = {name: value for name, value in options.items() if name != "evaluation_limit"}
    twin = gymnasium.make(f"srgdqn/{task}-v0", max_episode_steps=limit, **asked)
    for each in (environment, twin):
        each.reset(seed=3)
    for action in (0, 1, 1, 0):
        mine, theirs = environment.step(action), twin.step(action)
        assert mine[0].tolist() == theirs[0].tolist()
        assert mine[1] == theirs[1]
    environment.close()
    twin.close()


def test_an_environment_of_the_users_own_is_given_and_cut(tmp_path: Path) -> None:
    usual = {name: value for name, value in TINY.items() if name not in ("hidden", "time_limit")}
    result = srgdqn.train(LEVERS, "dqn-sgd", network=STUBBORN, time_limit=6, **usual)
    with pytest.raises(InputError, match=r"which is not stored with it.*environment=…"):
        srgdqn.video(result, tmp_path / "a.gif")
    made = srgdqn.video(result, tmp_path / "a.gif", environment=Screen())
    assert [played.length for played in made.episodes] == [6]
    assert made.images == 7


class Endless(Screen):
    """Goes round and round. Whoever follows it for longer than anybody should gets an error, not a film without end."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        self._steps = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._steps += 1
        assert self._steps <= 50, "nobody ended the episode"
        self._place = (self._place + 1) % 12
        return np.array([self._place], np.float32), 1.0, False, False, {}


@pytest.mark.parametrize(("own", "asked", "length"), [(None, 9, 9), (6, 9, 6)])
def test_films_of_gymnasiums_environments_end_with_their_evaluations(
    own: int | None, asked: int | None, length: int, tmp_path: Path
) -> None:
    gymnasium.register("Endless-v0", Endless, max_episode_steps=own)
    try:
        options = {**SMALL, "steps": 40, "time_limit": None if own else 16, "evaluation_limit": asked}
        result = srgdqn.train("Endless-v0", "dqn-adam", **options)
        assert result.evaluations["length"].to_list() == [length] * 2
        made = srgdqn.video(result, tmp_path / "a.gif", episodes=2)
    finally:
        gymnasium.registry.pop("Endless-v0")
    assert made.episodes == (Played(float(length), length, terminated=False),) * 2
    assert made.images == 2 * (length + 1)


def test_screens_are_not_looked_for_only_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    monkeypatch.setenv("SDL_AUDIODRIVER", "loud")
    with without_screen():
        assert os.environ["SDL_VIDEODRIVER"] == "dummy"
        assert os.environ["SDL_AUDIODRIVER"] == "loud"
    assert "SDL_VIDEODRIVER" not in os.environ
    assert os.environ["SDL_AUDIODRIVER"] == "loud"


# What cannot be filmed


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("old.gif", {}, "exists already"),
        ("a.gif", {"round": 5}, "there is no round 5"),
        ("a.gif", {"episodes": 0}, "episodes is 0"),
        ("a.gif", {"seed": -1}, "seed is -1"),
        ("a.gif", {"environment": Screen("ansi")}, r"'ansi', but a film needs 'rgb_array'\. Make it with"),
    ],
)
def test_what_cannot_be_filmed_is_refused_before_anything_is_played(
    result: Result, name: str, options: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srgdqn.integrations.video.video_writer", lambda *_, **__: pytest.fail("filming began"))
    (tmp_path / "old.gif").write_text("old")
    with pytest.raises(InputError, match=why):
        srgdqn.video(result, tmp_path / name, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["old.gif"]


def test_the_extra_is_named_where_it_is_missing(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(InputError, match=r"pip install 'srgdqn\[video\]'"):
        film(Screen(), lambda observation: 0, tmp_path / "a.mp4")
    assert film(Screen(), lambda observation: 0, tmp_path / "a.gif").path.exists()
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(InputError, match=r"pip install 'srgdqn\[video\]'"):
        srgdqn.video(result, tmp_path / "b.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


@pytest.mark.parametrize("image", [None, np.zeros((4, 4, 3)), np.zeros((4, 4, 4), np.uint8)])
def test_images_of_another_kind_are_refused(image: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "render", lambda self: image)
    with pytest.raises(InputError, match=r"a film needs images of bytes: \(height, width, 3\)"):
        film(Screen(), lambda observation: 0, tmp_path / "a.gif")


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_what_fails_on_the_way_leaves_nothing_behind(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"a{suffix}").write_text("old")

    def stumble(observation: np.ndarray) -> int:
        if observation[0] > 6:
            raise FileNotFoundError("the policy's own trouble")
        return 0

    before = threading.active_count()
    with pytest.raises(FileNotFoundError, match="the policy's own trouble"):
        film(Screen(), stumble, tmp_path / f"a{suffix}", overwrite=True)
    assert threading.active_count() == before
    assert [path.name for path in tmp_path.iterdir()] == [f"a{suffix}"]
    assert (tmp_path / f"a{suffix}").read_text() == "old"
    film(Screen(), lambda observation: 0, tmp_path / f"a{suffix}", overwrite=True)
    assert (tmp_path / f"a{suffix}").read_bytes()[:3] != b"old"


def test_images_of_two_sizes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "render", lambda self: np.zeros((4, 6 + self._place, 3), np.uint8))
    with pytest.raises(InputError, match=r"an image of shape .* follows one of .*, but a video has one size"):
        film(Screen(), lambda observation: 0, tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_what_ffmpeg_says_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = tmp_path / "refusing"
    refusing.write_text("#!/bin/sh\necho out of film >&2\nexit 3\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(refusing))
    with pytest.raises(InputError, match=r"a\.mp4 could not be written. ffmpeg says: out of film"):
        film(Screen(), lambda observation: 0, tmp_path / "a.mp4", episodes=50)
    assert [path.name for path in tmp_path.iterdir()] == ["refusing"]


def test_the_bar_is_drawn_where_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film(Screen(), lambda observation: 0, tmp_path / "a.gif", episodes=2, progress=True)
    assert "a.gif: episode 2, " in capsys.readouterr().err
    film(Screen(), lambda observation: 0, tmp_path / "b.gif", progress=False)
    assert capsys.readouterr().err == ""
