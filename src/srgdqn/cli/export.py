"""`srgdqn export`: a trained policy as a file that other programs run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from srgdqn.cli.options import SavedRun
from srgdqn.cli.parsing import Arg, parse


@dataclass(frozen=True)
class Export:
    """Writes the greedy policy of a saved run to a file that needs neither srgdqn nor jax.

    policy.onnx is a model for any ONNX runtime (pip install 'srgdqn[onnx]' to write one): from rows of observations to
    'q_values' and 'action'. policy.py is a Python module that needs NumPy alone: 'from policy import policy', then
    policy(observation) is the action.

    Normalisation is part of both. Actions are counted from 0; docs/shipping.md says what they stand for.
    """

    run: SavedRun
    """Folder that a run was saved in."""
    out: Annotated[Path, Arg("FILE")] = Path("policy.onnx")
    """File of the policy; its ending (.onnx or .py) decides the format."""
    overwrite: bool = False
    """Replace the file, if there is one."""
    round: int | Literal["best"] = "best"
    """The round whose policy it is: a number, or the one with the best last evaluation."""
    which: Literal["last", "best"] = "last"
    """Its policy: the last, or the best of the evaluations on the way (of runs with --keep-best)."""
    json: bool = False
    """Print what was written as JSON on standard output."""


def run(words: Sequence[str]) -> int:
    """Exports a policy."""
    asked = parse(Export, words)

    from srgdqn.integrations.export import check_export, write_policy

    check_export(asked.out, overwrite=asked.overwrite)

    from srgdqn.cli.presentation import print_json, print_rows
    from srgdqn.integrations.policy import described, policy_of
    from srgdqn.results.result import load_result

    result = load_result(asked.run)
    policy = policy_of(result, result.best if isinstance(asked.round, str) else asked.round, asked.which)
    saved = write_policy(policy, asked.out, overwrite=asked.overwrite)
    if asked.json:
        print_json(
            {
                "run": str(asked.run),
                "policy": str(saved),
                "observation": {"kind": policy.kind, "shape": policy.shape},
                "actions": policy.actions,
                "about": policy.about,
            }
        )
        return 0
    print_rows(
        f"{policy.about['task']} · {policy.about['algorithm']} · round {policy.about['round']}"
        + (" · best policy" if asked.which == "best" else ""),
        [
            ("observation", described(policy)),
            ("actions", f"0 to {policy.actions - 1}"),
            ("policy in", str(saved)),
        ],
    )
    return 0
