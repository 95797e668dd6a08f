"""Names under which people look for a problem that a rule of another name speaks for."""

ALIASES = {
    "implicit-sync": (
        ("allocator-churn", "pageable-copies"),
        "allocations in the step, and copies from pageable memory, synchronize without saying so",
    ),
    "copies-not-overlapped": (
        ("h2d-bound", "d2h-in-step", "copy-bound"),
        "each copy rule counts only exposed copies, and says how many of its copies share "
        "their stream with kernels",
    ),
    "cpu-op-overhead": (
        ("launch-bound",),
        "its evidence names framework operators that cost more than their kernels",
    ),
    "graph-candidate": (
        ("launch-bound",),
        "its cause says whether the steps are steady enough to capture one graph",
    ),
    "low-occupancy": (
        ("ncu-occupancy-limit", "ncu-occupancy-achieved"),
        "occupancy is not in a timeline: what the launch allows, and what was reached, is in a "
        "report of Nsight Compute",
    ),
    "tail-effect": (
        ("ncu-tail-effect",),
        "waves follow from the launch and the device's limits, which Nsight Compute records",
    ),
    "memory-bound-kernel-at-limit": (
        ("ncu-memory-limit",),
        "how near a kernel is to the memory's peak is measured by Nsight Compute",
    ),
    "unified-memory": (("unified-memory-thrashing",), "one rule covers all migrations"),
    "throttled": (("clock-throttled", "power-capped", "thermal"), "three causes of a low clock"),
}
