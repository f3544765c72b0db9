"""Trained policies made ready to leave: as files that other programs run, and as videos. What leaves knows no jax."""
