"""Options of one outer iteration: the estimator's and the optimiser's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srgdqn.config.numbers import number


@dataclass(frozen=True)
class EstimatorSettings:
    """The direction Δ_m of the inner iterations."""

    estimator: str = "srg"
    """Estimator of the inner iterations (none: only the full-batch step)."""
    inner_iterations: int = 16
    """M, the inner iterations in one outer iteration."""
    inner_batch: int = 1
    """b, the transitions picked from D for one inner iteration."""
    inner_sampling: Literal["with-replacement", "without-replacement"] = "with-replacement"
    """How the b transitions of one pick are drawn from D."""
    coefficient: float = number(1.0)
    """c in Δ_m = g(θ_m) - c (g(θ_ref) - anchor): 1 is full variance reduction, 0 none."""
    anchor_step: bool = True
    """Step along the full gradient before the inner iterations (Algorithm 1, line 6)."""


@dataclass(frozen=True)
class OptimiserSettings:
    """What is done with a direction: the step η, and the Adam process that may end an outer iteration."""

    eta: float = number(1e-2)
    """Step size η of every step along Δ_m."""
    step: Literal["gradient", "adam"] = "gradient"
    """Each step is -ηΔ_m, or Adam's with step size alpha."""
    adam_process: bool = True
    """End each outer iteration with the Adam process (Algorithm 1, lines 16 to 21)."""
    alpha: float = number(1e-3)
    """Adam's step size α."""
    beta1: float = number(0.9)
    """Adam's decay of the first moment, β1."""
    beta2: float = number(0.999)
    """Adam's decay of the second moment, β2."""
    adam_epsilon: float = number(1e-8)
    """ϵ in Adam's denominator."""
    adam_input: Literal["delta", "gradient"] = "delta"
    """What enters the Adam process: Δ_M, or the raw gradient g_M as line 16 prints."""
    adam_from: Literal["last", "previous"] = "last"
    """Where the Adam process steps from: θ after the last inner step, or before it as line 21 prints."""
    adam_denominator: Literal["elementwise", "norm"] = "elementwise"
    """Adam's denominator: the root of each element of v, or of the norm of all of v as line 21 prints."""
    single_step_matches: Literal["nothing", "length", "queries"] = "nothing"
    """What the full-batch step takes over from the inner iterations that are not made: nothing, their length
    (a step of (M + 1)η), or their gradient queries (a batch of N + 2bM)."""
    clip_norm: float | None = number(None)
    """Largest global norm of a direction as it is applied; the recursion itself is not clipped (none: off)."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How η and α change over the budget."""
    schedule_end: float = number(0.0)
    """Share of η and α that is left when the budget is."""
