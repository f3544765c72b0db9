"""The training loop: rounds as lanes of a compiled program, in segments, in chunks, on every core."""

from srgdqn.training.rounds import Progress, Trained, train_rounds

__all__ = ["Progress", "Trained", "train_rounds"]
