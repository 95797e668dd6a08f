"""What is counted at the ends of steps: names of the counters, most of which only grow.

`record/inline/usage.py` writes them into the event file, `timeline/step_usage.py` reads them.
Nothing but the standard library is imported: the writer lives in other people's programs.
"""

# Of the thread that marks the steps.
THREAD_CPU = "main thread on a CPU"
THREAD_QUEUED = "main thread waiting for a CPU"
THREAD_SLEEPS = "sleeps of the main thread"
THREAD_PREEMPTIONS = "preemptions of the main thread"
# Of its whole process.
PROCESS_CPU = "process on CPUs"
KERNEL_CPU = "process in the kernel"
PAGE_FAULTS = "page faults of the process"
BLOCK_IO = "disk operations of the process"
# Read once, at the end of the first step.
USABLE_CPUS = "CPUs that the process may use"
COMPUTE_THREADS = "threads that PyTorch computes with"

UNITS = {
    THREAD_CPU: "ns",
    THREAD_QUEUED: "ns",
    THREAD_SLEEPS: "",
    THREAD_PREEMPTIONS: "",
    PROCESS_CPU: "ns",
    KERNEL_CPU: "ns",
    PAGE_FAULTS: "",
    BLOCK_IO: "",
}

# What a main thread slept for when it was looked at (record/collect/sleeps.py); the value is the
# time since the look before. The names begin with ASLEEP.
ASLEEP = "main thread asleep: "
LOCK, FILE, NETWORK = "a lock or another thread", "a file", "the network"
PROCESS, POLL, TIMER, UNKNOWN = "another process", "several of these (poll)", "a timer", "unknown"
AT_STEPS = (*UNITS, USABLE_CPUS, COMPUTE_THREADS)
CAUSES = (LOCK, FILE, NETWORK, PROCESS, POLL, TIMER, UNKNOWN)
