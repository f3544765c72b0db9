"""The commands by name, and the help above them all."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Annotated, Any, Union

from srgdqn.errors import InputError

COMMANDS = {
    "train": "srgdqn.cli.train",
    "watch": "srgdqn.cli.watch",
    "sweep": "srgdqn.cli.sweep",
    "evaluate": "srgdqn.cli.evaluate",
    "show": "srgdqn.cli.show",
    "verify": "srgdqn.cli.verify",
    "replay": "srgdqn.cli.replay",
    "compare": "srgdqn.cli.compare",
    "export": "srgdqn.cli.export",
    "video": "srgdqn.cli.video",
    "list": "srgdqn.cli.listing",
    "reproduce": "srgdqn.cli.reproduce",
}
"""Every command, and the module that runs it."""

_SHELLS = ("bash", "zsh", "fish")

_DESCRIPTION = """Variance-reduced deep Q-learning: SRG-DQN and its companions, measured honestly, many rounds at once.

  srgdqn list                                            what there is
  srgdqn train MountainCar srg-dqn --rounds 16 --out a   train, and keep the run
  srgdqn train MountainCar dqn-sgd --rounds 16 --out b
  srgdqn watch b                                         how it goes, in another terminal
  srgdqn compare a b --out curves.pdf                    a figure and a table
  srgdqn show a                                          what a run was and came to
  srgdqn verify a                                        is it what its configuration gives?
  srgdqn replay a --round 7                              which gradient made a round diverge?
  srgdqn sweep MountainCar srg-dqn --eta 1e-3 1e-2 --alpha 1e-4 1e-3 --out grid
                                                         every combination of some values
  srgdqn evaluate a                                      play 100 greedy episodes
  srgdqn export a --out policy.onnx                      the policy as a file for other programs
  srgdqn video a --out play.mp4                          the policy on film
  srgdqn reproduce --out results                         the whole paper, with a verdict on every claim

'srgdqn COMMAND --help' explains a command, and 'srgdqn train TASK ALGORITHM --help' shows every option with the values
that those names stand for.

For completion in your shell, put what 'srgdqn --tyro-print-completion bash' (or zsh, or fish) prints where your shell
looks for completions. Colours are off where NO_COLOR is set."""


def show_help() -> None:
    """Shows the help above all commands."""
    from srgdqn.cli.help import print_help

    print_help(_all_commands(), description=_DESCRIPTION)


def show_completion(words: Sequence[str]) -> None:
    """Writes the completion script that the words ask tyro for."""
    from srgdqn.cli.help import print_completion

    if len(words) < 2 or words[1] not in _SHELLS:
        raise InputError(f"{words[0]} needs the name of your shell: {', '.join(_SHELLS)}. Give it as the next word.")
    print_completion(_all_commands(), words)


def _all_commands() -> Any:
    """The dataclass of every command, as alternatives: `train` has `Train`."""
    import tyro

    def named(name: str) -> Any:
        form = getattr(importlib.import_module(COMMANDS[name]), name.capitalize())
        summary = " ".join(inspect.cleandoc(form.__doc__).split("\n\n")[0].split())
        return Annotated[form, tyro.conf.subcommand(name, description=summary)]

    return Union[tuple(map(named, COMMANDS))]  # noqa: UP007, as the alternatives are only known when this runs
