"""CPU stacks of running programs by perf_event: no tool has to be installed, and none is started.

The kernel interrupts each thread at a fixed rate of its own CPU time, follows its frame pointers and
writes the addresses into rings, which a thread of sightline reads, names and writes to a file.
"""
