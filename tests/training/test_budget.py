"""Blocks and budgets against counting steps one by one."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from srgdqn.config import TrainingSettings
from srgdqn.training.budget import Budget, budget_of, limits_of, total_blocks

COUNTS = st.integers(1, 200)


def learning_steps(settings: TrainingSettings, until: int) -> list[int]:
    """The environment steps after which there is an outer iteration."""
    every, starts = settings.learning_frequency, settings.learning_starts
    return [step for step in range(1, until + 1) if step % every == 0 and step >= starts]


@given(frequency=st.integers(1, 20), starts=COUNTS)
def test_learning_starts_with_the_first_block_that_ends_not_before_it(frequency: int, starts: int) -> None:
    settings = TrainingSettings(learning_frequency=frequency, learning_starts=starts)
    first = learning_steps(settings, until=starts + frequency)[0]
    assert (settings.first_learning_block + 1) * frequency == first


@given(frequency=st.integers(1, 20), starts=COUNTS, steps=COUNTS)
def test_a_budget_of_steps(frequency: int, starts: int, steps: int) -> None:
    settings = TrainingSettings(steps=steps, learning_frequency=frequency, learning_starts=starts)
    blocks = total_blocks(settings)
    assert blocks is not None
    assert (blocks - 1) * frequency < steps <= blocks * frequency
    limits = limits_of(settings)
    learning = [index for index in range(blocks) if limits.first_learning <= index < limits.last_block]
    assert [(index + 1) * frequency for index in learning] == learning_steps(settings, until=steps)
    assert (budget_of(settings), float(limits.amount)) == (Budget("steps", steps), steps)


@given(frequency=st.integers(1, 20), starts=COUNTS, amount=st.integers(1, 30))
def test_a_budget_of_outer_iterations(frequency: int, starts: int, amount: int) -> None:
    settings = TrainingSettings(outer_iterations=amount, learning_frequency=frequency, learning_starts=starts)
    last_step = learning_steps(settings, until=starts + frequency * (amount + 1))[amount - 1]
    blocks = total_blocks(settings)
    assert blocks is not None
    assert blocks * frequency == last_step
    assert blocks <= limits_of(settings).last_block
    assert budget_of(settings) == Budget("outer_iterations", amount)


def test_a_budget_of_episodes_has_no_known_end() -> None:
    settings = TrainingSettings(episodes=7)
    assert total_blocks(settings) is None
    assert budget_of(settings) == Budget("episodes", 7)
    assert int(limits_of(settings).last_block) == 2**31 - 1
