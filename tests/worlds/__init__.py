"""Simulated GPU programs, what a profiler would record of them, and what truly makes them slow.

A second simulator, written from real recordings and without the code that reads them: a program is
a script of calls for each host thread (`script`), a machine plays all scripts (`machine`), writers
turn what happened into files of profilers (`kineto`, `nsight`), and the truth of a planted cause is
the same program, with the same luck, played once more without it (`truth`).
"""
