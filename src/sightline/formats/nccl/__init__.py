"""NCCL: its logs, its tests, its profiler plug-in, its inspector, its RAS."""
