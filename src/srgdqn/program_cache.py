"""The door to `srgdqn.kernel.program_cache`: the cache of compiled programs."""

from srgdqn.kernel.program_cache import *  # noqa: F403
