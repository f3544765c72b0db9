"""Trees of arrays by the paths of their leaves, as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from srgdqn.errors import InputError


def by_path(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree, by path.

    >>> by_path({"network": [np.ones(2)]})
    {'network.0': array([1., 1.])}
    """
    return {name_of(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def name_of(path: Any) -> str:
    """The name of a leaf's path."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def filled(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """A tree of the same form with the arrays that `by_path` gave of another; an `InputError` where one has none."""

    def leaf(path: Any, like: Any) -> np.ndarray:
        found = arrays.get(name_of(path))
        if found is None or found.shape != like.shape or found.dtype != like.dtype:
            got = "nothing" if found is None else f"{found.dtype} of shape {found.shape}"
            raise InputError(
                f"it holds {got} for {name_of(path)}, where {like.dtype} of shape {like.shape} is expected."
            )
        return found

    return jax.tree_util.tree_map_with_path(leaf, tree)
