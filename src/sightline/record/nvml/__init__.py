"""GPUs through NVML, NVIDIA's management library: what `run`, the in-code API and `doctor` read."""
