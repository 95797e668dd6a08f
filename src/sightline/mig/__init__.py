"""How GPUs can be cut into MIG instances, and which cut serves the workloads with the least waste.

Placements follow the rules of real `nvidia-smi mig -lgipp` tables, never sums of slices; the plan
is proven to be the best by integer programming. Nothing here changes a GPU but `apply.py`.
"""
