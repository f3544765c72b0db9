"""A trained policy as a file that other programs run; its suffix decides the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from srgdqn.extras import require
from srgdqn.runs.destination import check_file, write_file

if TYPE_CHECKING:
    from srgdqn.integrations.numpy_policy import PlainPolicy
    from srgdqn.results.result import Result, Which

SUFFIXES = (".onnx", ".py")


def export(
    result: Result,
    path: str | os.PathLike[str],
    round: int | None = None,  # noqa: A002, as the paper's word is a builtin's name
    *,
    which: Which = "last",
    overwrite: bool = False,
) -> Path:
    """Writes the greedy policy of a round to a file that needs neither this package nor jax.

    Args:
      result: of a run with a built-in network.
      path: its suffix decides the format: `.onnx` for an ONNX model, `.py` for a Python module that needs NumPy alone.
      round: by default the best one.
      which: the round's last policy, or the best of its evaluations.
      overwrite: replace the file, if there is one.

    Returns:
      The path.

    """
    target = check_export(path, overwrite=overwrite)
    # Imported only now, so that an unusable path is refused without waiting for NumPy.
    from srgdqn.integrations.policy import policy_of

    chosen = policy_of(result, result.best if round is None else round, which)
    return write_policy(chosen, target, overwrite=overwrite)


def check_export(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a policy can be written there in the format of its suffix."""
    target = check_file(path, SUFFIXES, what="policy", overwrite=overwrite)
    if target.suffix.lower() == ".onnx":
        require("onnx", "onnx", "An ONNX model")
    return target


def write_policy(policy: PlainPolicy, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes a policy in the format of the path's suffix, atomically."""
    from srgdqn.integrations.export_formats import onnx_bytes, python_bytes

    target = check_export(path, overwrite=overwrite)
    if target.suffix.lower() == ".onnx":
        return write_file(target, onnx_bytes(policy))
    return write_file(target, python_bytes(policy, target.stem))
