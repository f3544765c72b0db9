"""A run as a whole: from claim to save, its `Result`, whether a stored one still answers; curves and comparison."""
