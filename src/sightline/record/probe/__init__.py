"""`sightline probe`: calls of GPU libraries in programs that run, seen from outside.

Nothing is restarted and nothing is loaded into the program: the kernel places a breakpoint (a
uprobe) on the first instruction of each function and another one on its return.

    elf         symbols of libraries and programs
    placement   which first instructions the kernel emulates: the others cost 16 us a hit
    processors  where x86-64 and AArch64 have a function's arguments
    functions   the functions that are probed, and what their arguments say
    processes   processes, containers and the files that they have mapped
    targets     which function lies where, and which of them cannot be probed
    bpf         the eBPF programs of native/probe, through the system's libbpf
    perf        the same without BPF: samples of perf_event_open
    names       kernels' names by what launches call them
    session     attach, read, write, detach
    counts      what was counted, as metrics for Prometheus
"""
