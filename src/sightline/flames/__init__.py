"""Flame graphs from the Python line to the stall in the silicon, for every vendor.

`build` makes weighted stacks from a run, `tree` merges them into nodes, the other modules write
them: HTML, SVG, folded text, speedscope, pprof.
"""
