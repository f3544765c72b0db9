"""Videos as files: .mp4 by ffmpeg, .gif by Pillow.

Gymnasium's own RecordVideo and save_video need moviepy, hold an episode's images in memory and leave half a file behind
when they fail; here images are streamed to ffmpeg, and the file is written atomically.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from srgdqn.errors import InputError
from srgdqn.extras import require
from srgdqn.runs.destination import check_file, disk_errors_reported, written_whole

if TYPE_CHECKING:
    import numpy as np


Add: TypeAlias = "Callable[[np.ndarray], None]"

SUFFIXES = (".mp4", ".gif")


def check_video(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a video can be written there in the format of its suffix."""
    target = check_file(path, SUFFIXES, what="video", overwrite=overwrite)
    if target.suffix.lower() == ".mp4":
        require("imageio_ffmpeg", "video", "An .mp4")
    return target


@contextmanager
def video_writer(path: Path, *, rate: float) -> Iterator[Add]:
    """A function that adds an image (height, width, 3) to the video, which appears in `path` if nothing failed."""
    encode = _mp4 if path.suffix.lower() == ".mp4" else _gif
    size: tuple[int, ...] | None = None
    with written_whole(path) as scratch, encode(path, scratch, rate) as add:

        def add_checked(image: np.ndarray) -> None:
            nonlocal size
            if size is not None and image.shape != size:
                raise InputError(f"an image of shape {image.shape} follows one of {size}, but a video has one size.")
            size = image.shape
            add(image)

        yield add_checked


@contextmanager
def _mp4(path: Path, scratch: Path, rate: float) -> Iterator[Add]:
    """Encoded by a process of ffmpeg as images come.

    The process is started here, as imageio-ffmpeg's own writer forks, which is unsafe beside jax's threads.
    """
    encoder: subprocess.Popen[bytes] | None = None
    with tempfile.TemporaryFile() as errors:

        def failure() -> InputError:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            return InputError(f"{path} could not be written. ffmpeg says: {said}. Give another place.")

        def add(image: np.ndarray) -> None:
            nonlocal encoder
            encoder = encoder or _encoder(scratch, rate, image.shape, errors)
            assert encoder.stdin is not None
            try:
                encoder.stdin.write(image.tobytes())
            except BrokenPipeError as error:
                encoder.wait()
                raise failure() from error

        try:
            yield add
            if encoder is not None:
                encoder.communicate()
                if encoder.returncode != 0:
                    raise failure()
        finally:
            if encoder is not None:
                encoder.kill()
                encoder.communicate()


def _encoder(scratch: Path, rate: float, shape: tuple[int, ...], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    import imageio_ffmpeg

    height, width, _ = shape
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-"]
    # yuv420p, which every player shows, stores colours of 2 x 2 pixels, and so needs even sides.
    made = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", str(scratch)]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *given, *made]
    # In its own process group, so that Ctrl-C reaches only this process, which then ends it.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, process_group=0)


@contextmanager
def _gif(path: Path, scratch: Path, rate: float) -> Iterator[Add]:
    """Collects quantised images until the end, because a GIF begins with what all of its images share."""
    from PIL import Image

    images: list[Image.Image] = []
    # By octree: the usual median cut takes six times as long, and files twice as large, for colours nearly as true.
    yield lambda image: images.append(Image.fromarray(image).quantize(256, Image.Quantize.FASTOCTREE))
    # Times are whole hundredths of a second: each image ends at the one nearest to its true end.
    ends = [round(100 * count / rate) for count in range(len(images) + 1)]
    lasting = [10 * (after - before) for before, after in itertools.pairwise(ends)]
    with disk_errors_reported(path):
        images[0].save(scratch, save_all=True, append_images=images[1:], duration=lasting, loop=0)
