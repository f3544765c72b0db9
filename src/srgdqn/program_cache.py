"""The door to `srgdqn.kernel.program_cache`: compiled programs kept between processes."""

from srgdqn.kernel.program_cache import *  # noqa: F403
