"""Trees of arrays by the paths of their leaves, as they are stored."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def by_path(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree, by path.

    >>> by_path({"network": [np.ones(2)]})
    {'network.0': array([1., 1.])}
    """
    return {name_of(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def name_of(path: Any) -> str:
    """The name of a leaf's path."""
    return jax.tree_util.keystr(path, simple=True, separator=".")
