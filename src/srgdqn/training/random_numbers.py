"""Which of jax's random numbers a seed stands for: those with `jax_threefry_partitionable` on, as it is by default."""

from __future__ import annotations

import jax

from srgdqn.errors import InputError


def check_random_numbers() -> None:
    """Refuses another setting, with which every number would be another one, here or in one process of several."""
    if not jax.config.values["jax_threefry_partitionable"]:
        raise InputError(
            "jax_threefry_partitionable is off, and with it off a seed gives other random numbers than everywhere "
            "else. Leave it on (JAX_THREEFRY_PARTITIONABLE=1)."
        )
