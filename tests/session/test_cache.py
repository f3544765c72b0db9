"""Whether a stored run is still what training its configuration would give."""

from __future__ import annotations

import dataclasses

import srgdqn
from srgdqn.session.cache import why_invalid


def test_another_engine_makes_no_run_stale() -> None:
    result = srgdqn.train("CartPole", "dqn-adam", steps=1_200, evaluation_episodes=1, progress=False)
    assert why_invalid(result, result.configuration) is None
    for told, stale in (({"engine": "ray"}, False), ({"cores": 1_000}, False), ({"computation": "training 0"}, True)):
        run = dataclasses.replace(result.run, provenance={**result.run.provenance, **told})
        assert (why_invalid(dataclasses.replace(result, run=run), result.configuration) is not None) == stale
