"""Simulated caching allocators and programs with a planted problem of memory, with exact truth."""
