"""What a run came to: its `Result`, curves, comparison and statistics."""
