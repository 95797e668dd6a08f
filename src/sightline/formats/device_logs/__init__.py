"""Logs of devices: nvidia-smi, amd-smi, xpu-smi, Prometheus, stress tests, power meters."""
