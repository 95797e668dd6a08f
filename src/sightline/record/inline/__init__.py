"""The in-code API: what a program calls to be recorded, and nothing it would notice otherwise.

Only the standard library is imported here. torch, JAX and CuPy are used where the program itself
has imported them.
"""
