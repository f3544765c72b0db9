"""Rounds of a saved run rerun, from their beginning or from a checkpoint: to verify them, or to trace them."""
