"""`srgdqn video`: a trained policy on film."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from srgdqn.cli.options import SavedRun, UserModules
from srgdqn.cli.parsing import Arg, parse


@dataclass(frozen=True)
class Video:
    """Films the greedy policy of a saved run, and shows what its episodes came to.

    Drawing the compiled tasks, and writing .mp4, need pip install 'srgdqn[video]'. A screen is not needed.

    Episodes start from the seed, the next from the seed after it, and so on, and end at the limit of the run's
    evaluations. A compiled task is filmed with the reward that was learned from.
    """

    run: SavedRun
    """Folder that a run was saved in."""
    out: Annotated[Path, Arg("FILE")] = Path("play.mp4")
    """File of the video; its ending (.mp4 or .gif) decides the format."""
    overwrite: bool = False
    """Replace the file, if there is one."""
    round: int | Literal["best"] = "best"
    """The round whose policy plays: a number, or the one with the best last evaluation."""
    which: Literal["last", "best"] = "last"
    """Its policy: the last, or the best of the evaluations on the way (of runs with --keep-best)."""
    episodes: Annotated[int, Arg(least=1)] = 1
    """Episodes, one after the other."""
    seed: int = 0
    """Seed of the first episode's start."""
    quiet: bool = False
    """Show no progress bar."""
    json: bool = False
    """Print what was filmed as JSON, and nothing else, on standard output."""
    import_: UserModules = ()


def run(words: Sequence[str]) -> int:
    """Films a policy."""
    asked = parse(Video, words)

    from srgdqn.integrations.video_files import check_video

    check_video(asked.out, overwrite=asked.overwrite)

    from srgdqn.cli.presentation import number, print_json, print_table
    from srgdqn.results.result import load_result

    result = load_result(asked.run)
    chosen = result.best if isinstance(asked.round, str) else asked.round

    from srgdqn.integrations.video import video

    film = video(
        result,
        asked.out,
        round=chosen,
        which=asked.which,
        episodes=asked.episodes,
        seed=asked.seed,
        overwrite=asked.overwrite,
        progress=False if asked.quiet else None,
    )
    settings = result.configuration.task
    episodes = [
        {"seed": seed, "return": played.total_reward, "length": played.length, "terminated": played.terminated}
        for seed, played in enumerate(film.episodes, asked.seed)
    ]
    if asked.json:
        about = {
            "run": str(asked.run),
            "round": chosen,
            "which": asked.which,
            "reward": settings.reward,
            "video": str(film.path),
        }
        print_json({**about, "images": film.images, "images_per_second": film.rate, "episodes": episodes})
        return 0
    print_table(
        f"{settings.task} · {result.configuration.algorithm} · round {chosen}"
        + (" · best policy" if asked.which == "best" else ""),
        ("episode", "seed", "return", "length", "ended"),
        [
            (
                str(index),
                str(played["seed"]),
                number(played["return"]),
                str(played["length"]),
                "by itself" if played["terminated"] else "at its limit",
            )
            for index, played in enumerate(episodes)
        ],
        caption=f"return: of the reward {settings.reward}",
    )
    print(f"The video is in {film.path}: {film.images} images, {film.images / film.rate:.1f} s.")
    return 0
