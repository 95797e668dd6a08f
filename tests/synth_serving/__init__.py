"""A simulated inference server: it shares nothing with what it tests.

`server` plays requests through continuous batching, step by step; `kineto` writes what a profiler
would have recorded of it, and the client's log; `causes` has servers that are slow for one reason,
and the same ones without it.
"""
