"""Compiler options: all of those asked for are known to the XLA that is here, and strange ones do no harm."""

from srgdqn.training import xla_flags as effort


def test_every_option_is_known_here() -> None:
    """Otherwise programs, and bits, would silently be others than those that were measured."""
    assert effort.some_effort() == effort._SOME
    assert effort.no_effort() == effort._NONE


def test_what_another_version_may_lack_is_left_out() -> None:
    known = {"xla_backend_optimization_level": "1"}
    assert effort._known({**known, "xla_of_another_age": True}) == known
