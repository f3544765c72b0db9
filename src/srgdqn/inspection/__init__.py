"""Rounds of a saved run, lived once more: from their beginning, or from a checkpoint that was kept."""
