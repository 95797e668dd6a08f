"""NVIDIA: Nsight Systems, Nsight Compute, CUPTI, RMM."""
