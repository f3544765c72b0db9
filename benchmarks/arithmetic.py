"""The floating-point operations that acting and an outer iteration need, by formula.

A sum of n products takes n multiplications and n - 1 additions; a layer's sums start at its biases, so that each of its
multiply-adds counts as 2. An activation, its slope and a comparison count as 1 each. What only serves the log (the mean
loss, norms), what is done to single numbers once per outer iteration, what the environment does, and moving data about
are not counted, nor is anything that multiplies by zero: of the last layer, only the chosen action's column passes
anything back and has a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from srgdqn.config import Configuration
from srgdqn.config.algorithms import ALGORITHMS

# Algorithms with a formula here. Of those with a direction per batch the compiler also counts, before it optimises, a
# gradient that it drops.
COUNTED = tuple(name for name, each in ALGORITHMS.items() if each.options["estimator"] not in ("storm", "mars"))

ACTING, FULL_BATCH, INNER, ADAM = "acting", "full-batch step", "inner iterations", "Adam process"

# Per parameter: Δ = g - c (g_ref - anchor), θ - ηΔ, and Adam's direction (3 for m, 4 for v, 2 to correct both, and a
# root, ϵ and a quotient).
_RECURSION, _DESCENT, _ADAM = 3, 2, 12


@dataclass(frozen=True)
class Operations:
    """Multiplications and additions, by what they are part of."""

    passes: int = 0
    """In the products of rows and weights, forward and backward."""
    weight_gradients: int = 0
    """In the products of a layer's inputs and its deltas, summed over rows."""
    elementwise: int = 0
    """In everything else."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.passes + self.weight_gradients + self.elementwise

    def __add__(self, other: Operations) -> Operations:
        return Operations(
            self.passes + other.passes,
            self.weight_gradients + other.weight_gradients,
            self.elementwise + other.elementwise,
        )

    def __rmul__(self, times: int) -> Operations:
        return Operations(times * self.passes, times * self.weight_gradients, times * self.elementwise)


def parameters(layers: Sequence[int]) -> int:
    """How many weights and biases there are.

    >>> parameters((2, 20, 3))
    123
    """
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(layers))


def forward(layers: Sequence[int], rows: int) -> Operations:
    """The Q-values of so many observations."""
    return Operations(
        passes=rows * sum(2 * inputs * outputs for inputs, outputs in pairwise(layers)),
        elementwise=rows * sum(layers[1:-1]),
    )


def acting(layers: Sequence[int], steps: int) -> Operations:
    """The greedy actions of so many steps."""
    return forward(layers, steps) + Operations(elementwise=steps * (layers[-1] - 1))


def targets(layers: Sequence[int], rows: int) -> Operations:
    """Y = R + γ max_a Q(S', a) of so many transitions."""
    return acting(layers, rows) + Operations(elementwise=2 * rows)


def gradient(layers: Sequence[int], rows: int, *, own_targets: bool = True) -> Operations:
    """The mean gradient over so many transitions, with `own_targets` if y depends on the same parameters."""
    *hidden_pairs, (last_inputs, _) = pairwise(layers)
    hidden = layers[1:-1]
    sums = 2 * rows - 1  # operations in a sum over rows of products
    error_and_slope = 2 * rows
    through_the_last_layer = rows * last_inputs if hidden else 0
    there = forward(layers, rows) + (targets(layers, rows) if own_targets else Operations())
    back = Operations(
        passes=rows * sum(inputs * (2 * outputs - 1) for inputs, outputs in hidden_pairs[1:]),
        weight_gradients=sums * (sum(inputs * outputs for inputs, outputs in hidden_pairs) + last_inputs),
        elementwise=error_and_slope + through_the_last_layer + rows * sum(hidden),
    )
    biases = Operations(weight_gradients=(rows - 1) * (sum(hidden) + 1))
    return there + back + biases


def parts_of_a_block(configuration: Configuration, layers: Sequence[int]) -> dict[str, Operations]:
    """What a block of steps and its outer iteration need, part by part, for one of the package's own algorithms.

    Sizes and the algorithm are the configuration's; other options are taken to be those of the readings `corrected`.
    """
    inner, settings = configuration.estimator, configuration.optimiser
    rows, picked, count = configuration.replay.batch_size, inner.inner_batch, inner.inner_iterations
    moving = configuration.gradients.target == "current"
    step = Operations(elementwise=(_DESCENT + (_ADAM if settings.step == "adam" else 0)) * parameters(layers))
    used = rows + (2 * picked * count if settings.single_step_matches == "queries" else 0)
    parts = {
        ACTING: acting(layers, configuration.training.learning_frequency),
        FULL_BATCH: gradient(layers, used, own_targets=moving)
        + (Operations() if moving else targets(layers, used))
        + (step if inner.anchor_step else Operations()),
    }
    if inner.estimator != "none":
        on_pick = gradient(layers, picked, own_targets=moving)
        reduced = 2 * on_pick + Operations(elementwise=_RECURSION * parameters(layers))
        directions = {
            "sgd": on_pick,
            "full": gradient(layers, rows, own_targets=moving),
            "svrg": reduced,
            "srg": reduced,
        }
        parts[INNER] = count * (directions[inner.estimator] + step)
    if settings.adam_process:
        parts[ADAM] = Operations(elementwise=(_ADAM + _DESCENT) * parameters(layers))
    return parts


def outer_iteration(configuration: Configuration, layers: Sequence[int]) -> Operations:
    """What one outer iteration needs."""
    parts = parts_of_a_block(configuration, layers)
    return sum((part for name, part in parts.items() if name != ACTING), Operations())
