"""Charts as data, and how they are drawn."""
