"""Records all ranks of a job that runs, in step: a daemon on each node, and who asks them.

A node's daemon (`node`) owns the door through which PyTorch's profiler asks for orders (`keeper`)
and answers requests (`api`, `server`) of those who may ask. A capture is one start for all ranks:
who asks (`controller`) compares the nodes' clocks with its own first. Each node reduces its ranks
in a process of its own (`reduce`), and keeps the traces within bounds (`shelf`).
"""
