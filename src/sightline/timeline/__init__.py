"""What several subjects know of a run: classes of operations, calls, waits, collectives, clocks."""
