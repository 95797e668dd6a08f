"""The few algorithms that all else rests on: intervals, nesting, classes of operations."""
