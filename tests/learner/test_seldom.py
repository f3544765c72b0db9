"""What few lanes need at a time: the values are `jnp.where`'s, and nothing is computed that no lane is due."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.learner.seldom import where_due

LANES = 4


class Counted:
    """A computation, and how often it is made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, x: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
        jax.debug.callback(self._count, x)
        return {"sum": x + y, "count": jnp.asarray(3, jnp.int32)}

    def _count(self, _: Any) -> None:
        self.times += 1


@pytest.mark.parametrize("due", [[False] * 4, [False, True, False, True], [True] * 4])
@pytest.mark.parametrize("shared", [False, True])
def test_lanes_have_what_they_would_have_alone(due: list[bool], shared: bool) -> None:
    """Also where what is computed with, or what is there otherwise, is the same for all lanes."""
    compute = Counted()
    x, y = jnp.arange(4.0), jnp.asarray(10.0)

    def one(due: jax.Array, x: jax.Array) -> dict[str, jax.Array]:
        otherwise = {"sum": jnp.asarray(-1.0) if shared else -x, "count": jnp.asarray(0, jnp.int32)}
        return where_due(due, lambda: compute(y if shared else x, y), otherwise)

    together = jax.jit(jax.vmap(one))(jnp.asarray(due), x)
    jax.effects_barrier()
    assert (compute.times > 0) == any(due)
    for lane in range(LANES):
        compute.times = 0
        alone = jax.jit(one)(jnp.asarray(due[lane]), x[lane])
        jax.effects_barrier()
        assert compute.times == int(due[lane])
        expected = (20.0 if shared else lane + 10.0) if due[lane] else (-1.0 if shared else -float(lane))
        assert float(alone["sum"]) == float(together["sum"][lane]) == expected
        assert int(alone["count"]) == int(together["count"][lane]) == (3 if due[lane] else 0)
        assert alone["count"].dtype == together["count"].dtype == jnp.int32


def test_in_a_loop_each_turn_is_due_by_itself() -> None:
    """Lane n is due in every n-th turn."""

    def one(every: jax.Array) -> jax.Array:
        def turn(total: jax.Array, t: jax.Array) -> tuple[jax.Array, None]:
            return where_due(t % every == 0, lambda: total + t, total), None

        return jax.lax.scan(turn, jnp.asarray(0), jnp.arange(12))[0]

    every = np.array([1, 2, 5, 13])
    expected = [sum(t for t in range(12) if t % n == 0) for n in every]
    np.testing.assert_array_equal(jax.jit(jax.vmap(one))(jnp.asarray(every)), expected)
    np.testing.assert_array_equal([jax.jit(one)(n) for n in every], expected)


def test_a_lane_that_is_not_due_is_not_touched_by_one_that_is_not_finite() -> None:
    def one(due: jax.Array, x: jax.Array) -> jax.Array:
        return where_due(due, lambda: 1 / x, x)

    got = jax.jit(jax.vmap(one))(jnp.asarray([True, False]), jnp.asarray([0.0, 0.0]))
    assert np.isinf(got[0])
    assert got[1] == 0.0


def test_what_is_there_otherwise_has_the_type_of_what_is_computed() -> None:
    """A zero written as 0 is no reason to fail."""
    got = where_due(jnp.asarray(False), lambda: jnp.asarray(0.5), 0)
    assert (got.dtype, float(got)) == (jnp.float32, 0.0)


@pytest.mark.parametrize("otherwise", [{"a": 1.0}, (1.0,), (1.0, 2.0, 3.0)])
def test_both_have_the_same_structure(otherwise: Any) -> None:
    with pytest.raises(TypeError, match=r"compute\(\) gives .*, and otherwise is .*: make both the same"):
        where_due(jnp.asarray(True), lambda: (jnp.asarray(1.0), jnp.asarray(2.0)), otherwise)


def test_both_have_the_same_shape() -> None:
    with pytest.raises(TypeError, match=r"gives an array of \(2,\), and otherwise of \(3,\): make both the same"):
        where_due(jnp.asarray(True), lambda: jnp.zeros(2), jnp.zeros(3))
