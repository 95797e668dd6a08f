"""CPU stacks of running programs by perf_event: no tool has to be installed, and none is started.

The kernel interrupts each thread at a fixed rate of its own CPU time and writes its registers and
the top of its stack into rings, from which a thread of sightline finds out who called whom (by
the call frame information of the code, as debuggers do), names the functions and writes a file.
"""
