"""Variance-reduced deep Q-learning: SRG-DQN and its companions, measured honestly, many rounds at once."""
