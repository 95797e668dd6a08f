"""One file per question: a pure function from a run's tables to one small table."""
