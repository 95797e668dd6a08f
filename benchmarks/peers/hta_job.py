"""The job with Holistic Trace Analysis: load the trace, then its breakdowns of kernels and of time.

    python hta_job.py TRACE

The last profiler step is asked for, too: HTA leaves it out otherwise (a fifth of a trace of five).
Its breakdown of kernels has no counts, so these come from its frame of events.
"""

import json
import sys
import tempfile
from pathlib import Path

from hta.trace_analysis import TraceAnalysis

with tempfile.TemporaryDirectory() as folder:
    analysis = TraceAnalysis(
        trace_files={0: str(Path(sys.argv[1]).resolve())},
        trace_dir=folder,
        include_last_profiler_step=True,
    )
time = analysis.get_temporal_breakdown(visualize=False).iloc[0]
names = analysis.t.symbol_table.sym_table
events = analysis.t.get_trace(0)
kernels = events[events["cat"] == names.index("kernel")]
counts = kernels["name"].map(lambda number: names[number]).value_counts()
_, sums = analysis.get_gpu_kernel_breakdown(
    visualize=False, duration_ratio=1.0, num_kernels=10_000, include_memory_kernels=False
)
top = sums.groupby("name")["sum (us)"].sum().sort_values(ascending=False).head(10)
window = round(float(time["kernel_time(us)"]) * 1000)
print(
    json.dumps(
        {
            "kernels": len(kernels),
            "kernel_ns": round(float(kernels["dur"].sum()) * 1000),
            "top": [(name, int(counts.get(name, 0)), round(us * 1000)) for name, us in top.items()],
            "window_ns": window,
            "busy_ns": window - round(float(time["idle_time(us)"]) * 1000),
        }
    )
)
