"""Names for what takes a device's time away: analyses give them, rules declare which are theirs.

Each cause belongs to one rule (`Rule.causes`), and most rules have one cause, of their own name.
"""

from __future__ import annotations

# Of gaps (analysis idle_rules), in the order in which they are looked for: the first that holds.
# The launching thread had no CPU core (timeline/system_waits.py).
PREEMPTED = "preempted-launch-thread"
OVERSUBSCRIBED = "cpu-oversubscribed"
# Its core handled an interrupt.
INTERRUPTED = "irq-noise"
# An inference server had nothing to do (timeline/engine_gaps.py).
NO_REQUEST = "no-requests"
RECOMPILATION = "recompilation"
CODE_LOADING = "jit-or-module-load-in-window"
DATA_LOADING = "dataloader-starved"
GRAPH_CAPTURE = "graph-capture-in-window"
# Of copies as well: those that the program saves.
CHECKPOINT = "checkpoint-in-window"
PROFILER = "profiler-overhead"
ALLOCATION = "allocator-churn"
# PAGEABLE, DOWNLOAD: the host waited for such a copy
SYNCHRONISATION = "sync-in-step"
# The runtime of OpenMP or OpenACC fills or empties a buffer between two copies one way.
MAPPING = "offload-mapping"
# SMALL: launches of such copies come late
LAUNCHES = "launch-bound"
# It received from a rank that had not sent yet (timeline/mpi_waits.py).
LATE_SENDER = "late-sender"
# What the launching thread slept for (timeline/system_waits.py).
INPUT_OUTPUT = "blocked-on-io"
LOCK = "futex-contention"
FIRST_STEP = "first-iteration-included"
HOST = "host-late"
SHORT_KERNELS = "tiny-kernels"
OTHER_IDLE = "gpu-idle"

# Of copies and memsets (analysis copy_exposure).
UPLOAD = "h2d-bound"
DOWNLOAD = "d2h-in-step"
PAGEABLE = "pageable-copies"
SMALL = "many-small-copies"
FILL = "redundant-memset"
MIGRATION = "unified-memory-thrashing"
OTHER_COPY = "copy-bound"

# Of low clocks (analysis slow_clocks).
POWER = "power-capped"
HEAT = "thermal"
OTHER_CLOCK = "clock-throttled"
