"""Gymnasium's environments made ready for training: sources, spaces, frames, replay memories, players."""
