"""PyTorch: its profiler's traces, memory snapshots, flight recorder, Inductor, DeepSpeed."""
