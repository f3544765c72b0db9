"""How large a step Theorem 1 allows: smoothness constants β_i of single transitions, and the bound on η they give.

The theorem asks for f_i(θ) = (y_i - Q(S_i, A_i; θ))² whose gradients are β_i-Lipschitz, with y_i held constant. The
constants are known for a linear Q and, on a bounded region, for one hidden layer of tanh. For other networks there is
the Hessian at one θ: its norm is at most β_i wherever the loss is smooth, so that a step size which exceeds the bound
made of such norms is certainly too large, and one which does not exceed it may still be.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from srgdqn.config import Configuration
from srgdqn.errors import InputError
from srgdqn.learner.gradients import Batch, Transitions, make_batch
from srgdqn.learner.gradients.bellman import loss_of
from srgdqn.learner.networks import Network, Parameters

# The largest |tanh''|, which is 2a(1 - a²) at a = tanh = 1/√3.
_TANH_CURVATURE = 4 / (3 * 3**0.5)

# Products with a Hessian that its norm is taken from. A single transition's has few eigenvalues that are not small, and
# both ends of its spectrum are found to the precision of the numbers with half as many.
_PRODUCTS = 64


def theory_step_size(constants: Float[Array, " n"] | np.ndarray, inner_iterations: int) -> float:
    """The bound of Theorem 1, 2 / (√μ (√(4M + 1) + 1)), where μ is the mean of the β_i².

    >>> theory_step_size(np.array([3.0, 4.0, 5.0]), inner_iterations=2)  # μ = 50/3
    0.1224744871391589
    """
    betas = np.asarray(constants, np.float64)
    if betas.ndim != 1 or betas.size == 0 or not np.all(betas >= 0) or not np.any(betas > 0):
        raise InputError(
            f"the smoothness constants are {betas}, but must be one number of 0 or more for each transition, and not "
            "all 0. Give an array such as that of local_smoothness."
        )
    if inner_iterations < 0:
        raise InputError(f"inner_iterations is {inner_iterations}, but must be 0 or more. Give M.")
    root_mu = np.sqrt(np.mean(betas**2))
    return float(2 / (root_mu * (np.sqrt(4 * inner_iterations + 1) + 1)))


def local_smoothness(
    configuration: Configuration,
    network: Network,
    parameters: Parameters,
    transitions: Transitions,
    target: Parameters | None = None,
) -> Float[Array, " n"]:
    """For each transition, the spectral norm of its loss's Hessian at these parameters, with y frozen there or at a
    target network's.

    It bounds the gradient's change in the vicinity, not over all θ. The Hessian of a relu network is that of the linear
    piece θ lies in: it leaves out the jumps of the gradient at the kinks, where no Lipschitz constant exists.

    No Hessian is ever written down: LAPACK would share a large one out among the cores there are, and round its
    eigenvalues accordingly. But for rounding, what is found can only be too small.
    """
    settings = configuration.gradients
    batch = make_batch(settings, network, transitions, parameters if target is None else target)
    flat, unravel = ravel_pytree(parameters)

    def loss(theta: Array, row: Batch) -> Array:
        q = network.q_values(unravel(theta), row.observation[None])[0, row.action]
        return loss_of(settings, q - jnp.asarray(row.frozen_target))

    def norm(row: Batch) -> Array:
        gradient = jax.grad(loss)
        return _spectral_norm(lambda vector: jax.jvp(lambda theta: gradient(theta, row), (flat,), (vector,))[1], flat)

    # One transition at a time: all of their bases together can be larger than the memory.
    return jax.lax.map(norm, batch)


def _spectral_norm(product: Callable[[Array], Array], like: Float[Array, " d"]) -> Float[Array, ""]:
    """The largest |eigenvalue| of a symmetric matrix known by its products with vectors, by Lanczos's method."""
    size, dtype = like.size, like.dtype
    steps = min(size, _PRODUCTS)
    first = jax.random.normal(jax.random.key(0, impl="threefry2x32"), (size,), dtype)

    def step(carry: tuple[Array, Array, Array], index: Array) -> tuple[tuple[Array, Array, Array], tuple[Array, Array]]:
        basis, vector, scale = carry
        basis = basis.at[index].set(vector)
        image = product(vector)
        diagonal = jnp.sum(image * vector)
        scale = jnp.maximum(scale, _length(image))
        for _ in range(
            2
        ):  # once more than in theory: what rounding leaves of earlier vectors would come back as copies
            image = image - jnp.sum(jnp.sum(basis * image, 1)[:, None] * basis, 0)
        left = _length(image)
        # Nothing is left where the basis holds all that the first vector can reach.
        ended = left <= 8 * jnp.finfo(dtype).eps * scale
        after = jnp.where(ended, 0, image / jnp.where(ended, 1, left))
        return (basis, after, scale), (diagonal, jnp.where(ended, 0, left))

    start = (jnp.zeros((steps, size), dtype), first / _length(first), jnp.zeros((), dtype))
    _, (diagonal, beside) = jax.lax.scan(step, start, jnp.arange(steps))
    small = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    return jnp.abs(jnp.linalg.eigvalsh(small)).max()


def _length(vector: Float[Array, " d"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(jnp.square(vector)))


def linear_smoothness(observations: np.ndarray) -> np.ndarray:
    """β_i of a linear Q with squared loss: the Hessian is 2 x̃ x̃ᵀ with x̃ = (x_i, 1), so that β_i = 2‖x̃‖² exactly."""
    return 2 * _squared_length(observations)


def tanh_smoothness(
    observations: np.ndarray, *, width: int, weights: float, biases: float, targets: float
) -> np.ndarray:
    """β_i of one hidden layer of tanh with squared loss, where the last layer's weights and biases stay bounded.

    The region is |v_j| ≤ `weights` and |c| ≤ `biases` for the weights v and the bias c of each action, and all |y_i| ≤
    `targets`; the first layer is free. It is convex, so that a bound on Hessians is one on Lipschitz constants.

    With a_j = tanh(w̃_j · x̃), x̃ = (x_i, 1) and Q = v · a + c, the Hessian of f_i is 2 ∇Q ∇Qᵀ - 2 (y - Q) ∇²Q.

    1. ‖∇Q‖² = 1 + Σ_j (a_j² + v_j² ‖x̃‖² (1 - a_j²)²). Each summand is convex in a_j², which lies in [0, 1], hence
       largest at an end: ‖∇Q‖² ≤ 1 + h max(1, V² ‖x̃‖²).
    2. |y - Q| ≤ Y + C + h V, as |a_j| ≤ 1.
    3. ∇²Q has one block per hidden unit, which on (v_j, w̃_j along x̃) is [[0, s], [s, t]] with s = (1 - a_j²) ‖x̃‖ and
       t = v_j tanh'' ‖x̃‖², and 0 elsewhere. Its norm is |t|/2 + √(t²/4 + s²), where s ≤ ‖x̃‖ and |tanh''| ≤ 4/(3√3).
    """
    squared = _squared_length(observations)
    gradient = 1 + width * np.maximum(1.0, weights**2 * squared)
    error = targets + biases + width * weights
    half = weights * _TANH_CURVATURE * squared / 2
    return 2 * gradient + 2 * error * (half + np.sqrt(half**2 + squared))


def _squared_length(observations: np.ndarray) -> np.ndarray:
    """‖(x_i, 1)‖² of each row."""
    return np.sum(np.asarray(observations, np.float64) ** 2, axis=-1) + 1
