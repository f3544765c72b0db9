"""The training loop: rounds as lanes of a compiled program, in segments, in chunks, on every core."""

from srgdqn.training.rounds import Progress, Trained, train_rounds, train_side_by_side

__all__ = ["Progress", "Trained", "train_rounds", "train_side_by_side"]
