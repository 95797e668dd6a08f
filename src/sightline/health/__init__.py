"""Whether a node and its GPUs are healthy: what is known of it, and checks that are declared.

`node.py` is what is known; `reading/` fills it from this machine or from recordings; `checks/` has
a file for each family; `judge.py` asks them; `failures/` is about many nodes over time.
"""
