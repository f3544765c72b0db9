"""What few rounds need at a time, computed only when one of them does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Array, Bool


def where_due(due: Bool[Array, ""], compute: Callable[[], Any], otherwise: Any) -> Any:
    """`compute()` where it is due, and `otherwise` elsewhere, as `jax.lax.cond`; but mapped over lanes (where that
    computes both for every lane) it is computed for all of them if one is due, and not at all if none is.
    """
    closed, shapes = jax.make_jaxpr(compute, return_shape=True)()
    leaves: list[Any]
    leaves, tree = jax.tree.flatten(otherwise)
    given_tree: Any = jax.tree.structure(shapes)
    if given_tree != tree:
        raise TypeError(f"compute() gives {given_tree}, and otherwise is {tree}: make both the same")
    for leaf, shape in zip(leaves, jax.tree.leaves(shapes), strict=True):
        if jnp.shape(leaf) != shape.shape:
            other = jnp.shape(leaf)
            raise TypeError(f"compute() gives an array of {shape.shape}, and otherwise of {other}: make both the same")
    otherwise = [jnp.asarray(leaf, shape.dtype) for leaf, shape in zip(leaves, jax.tree.leaves(shapes), strict=True)]
    given = closed.consts

    def computed(given: list[Any]) -> list[Any]:
        return jaxpr_as_fun(closed.replace(consts=given))()

    @jax.custom_batching.custom_vmap
    def chosen(due: Any, otherwise: list[Any], given: list[Any]) -> list[Any]:
        return jax.lax.cond(due, lambda: computed(given), lambda: otherwise)

    @chosen.def_vmap
    def _(lanes: int, mapped: Any, due: Any, otherwise: list[Any], given: list[Any]) -> tuple[list[Any], list[bool]]:
        due_mapped, otherwise_mapped, given_mapped = mapped
        axes = tuple(
            [0 if is_mapped else None for is_mapped in each] if isinstance(each, list) else (0 if each else None)
            for each in (due_mapped, otherwise_mapped, given_mapped)
        )
        others = [
            leaf if is_mapped else jnp.broadcast_to(leaf, (lanes, *leaf.shape))
            for leaf, is_mapped in zip(otherwise, otherwise_mapped, strict=True)
        ]

        def of_one(due: Any, otherwise: list[Any], given: list[Any]) -> list[Any]:
            return [jnp.where(due, new, old) for new, old in zip(computed(given), otherwise, strict=True)]

        def of_all() -> list[Any]:
            return jax.vmap(of_one, axes, axis_size=lanes)(due, otherwise, given)

        return jax.lax.cond(jnp.any(due), of_all, lambda: others), [True] * len(others)

    return jax.tree.unflatten(tree, chosen(due, otherwise, given))
