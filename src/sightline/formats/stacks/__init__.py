"""CPU stacks: perf, folded stacks, speedscope."""
