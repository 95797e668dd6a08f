"""What several analyses and rules know of a run: its classes, waits, graph, replay and gains."""
