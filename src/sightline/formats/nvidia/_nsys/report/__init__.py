"""Nsight Systems reports themselves (.nsys-rep, .qdrep), read without nsys."""
