"""Where functions run side by side: threads, processes, the nodes of a Ray cluster."""
