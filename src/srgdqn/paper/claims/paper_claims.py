"""What the paper claims, in words: one entry for every verdict."""

from __future__ import annotations

from typing import NamedTuple

IN_A_SENTENCE = (
    "Replacing the stochastic gradient of deep Q-learning by a recursive, variance-reduced one (SARAH), followed by an "
    "Adam step per outer iteration, gives more reward, sooner and more steadily."
)


class PaperClaim(NamedTuple):
    """A claim, where the paper makes it, and the section of the report that shows it."""

    words: str
    where: str
    section: str


_TASKS = {"a": "MountainCar", "b": "Pendulum", "c": "CartPole"}
_ANCHORS = {"a": "anchors at their own θ", "b": "anchors at θ_m", "c": "estimates Δ_m at θ_m"}
_SPREADS = {
    "a": "across rounds",
    "b": "within each 1,000-step window, averaged over rounds",
    "c": "at a frozen θ, over redraws of D and picks",
}

CLAIMS: dict[str, PaperClaim] = {
    "C1": PaperClaim(
        "Exact anchors make SVR-DQN (without Adam) converge faster, better and with less variance.",
        "Figure 1",
        "figure-1",
    ),
    "C2": PaperClaim(
        "On MountainCar SRG-DQN has the highest average reward and lower variance.", "Figure 2, left", "figure-2"
    ),
    "C3": PaperClaim(
        "On Pendulum SRG-DQN is the fastest and best, with less variance.", "Figure 2, middle", "figure-2"
    ),
    "C4": PaperClaim(
        "On CartPole SRG-DQN has an excellent reward and significantly less variance.", "Figure 2, right", "figure-2"
    ),
    **{
        f"C5{letter}": PaperClaim(
            f"The Adam process and variance reduction complement each other ({task}).", "Figures 2 and 3", "controls"
        )
        for letter, task in _TASKS.items()
    },
    "C6": PaperClaim(
        "On MountainCar SRG-DQN has the shortest and most stable episodes.", "Figure 3, left", "figure-3-left"
    ),
    **{
        f"C7{letter}": PaperClaim(
            f"Recursive anchors lie closer to the exact ones ({meaning}).", "Figure 3, right", "figure-3-right"
        )
        for letter, meaning in _ANCHORS.items()
    },
    **{
        f"C8{letter}": PaperClaim(
            f"SRG-DQN's gradient has a lower standard deviation than SVR-DQN's ({meaning}).", "Table 2", "table-2"
        )
        for letter, meaning in _SPREADS.items()
    },
    "C9": PaperClaim("SRG needs of the order of √M/ε gradient queries, fewer than SVRG.", "Theorem 1", "theorem-1"),
    "C10": PaperClaim("SRG-DQN needs less training time.", "introduction", "training-time"),
    "C11": PaperClaim(
        "Anchors are inaccurate because of unseen transitions and of the policy's drift.", "problem analysis", "anatomy"
    ),
    "C12": PaperClaim(
        "More accurate anchors are why SRG-DQN performs better.", "experimental analysis", "dose-response"
    ),
}
"""By the name of the verdict."""

_DIVERGED = (
    "A round that diverged no longer scores as the random policy, and steadiness is compared only between arms that "
    "have learned."
)
WHY_CHANGED: dict[str, str] = {
    "C1": "At 20,000 steps nobody had begun to learn: it is judged at 100,000 now.",
    **dict.fromkeys(("C2", "C3", "C4", "C6"), _DIVERGED),
    **dict.fromkeys(("C5a", "C5b", "C5c"), "A round that diverged no longer scores as the random policy."),
    **dict.fromkeys(("C7a", "C7b", "C7c"), "The first inner iteration, at which both coincide, no longer counts."),
    **dict.fromkeys(
        ("C8a", "C8b", "C8c"), "It was also asked that SRG-DQN's reward be no lower, which the paper does not claim."
    ),
    "C10": "The threshold is halfway from the untrained agent, not from the random policy, and all rounds count.",
    "C12": "It is judged at 100,000 steps and on 400 rounds; all doses' errors are measured from the same θ_0 and D.",
}
"""Why a verdict may differ from that of the second confirmatory run: what its rule was changed in, before this run."""
