"""Peaks of the hardware, ceilings, the placement of kernels under them, and occupancy."""
