"""The job with `json` and pandas, as most scripts about traces begin.

    python pandas_job.py TRACE

Times are floats, as `json` reads them: exact here only because the trace has whole microseconds.
"""

import json
import sys
from pathlib import Path

import pandas

with Path(sys.argv[1]).open() as file:
    events = pandas.DataFrame(json.load(file)["traceEvents"])
ops = events[events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])].sort_values("ts")
kernels = ops[ops["cat"] == "kernel"]
top = kernels.groupby("name")["dur"].agg(["size", "sum"]).sort_values("sum", ascending=False)
busy = window = 0.0
for _, own in ops.groupby("pid"):  # a process of the trace is a device
    ends = own["ts"] + own["dur"]
    begin = own["ts"].clip(lower=ends.cummax().shift(fill_value=0))
    busy += (ends - begin).clip(lower=0).sum()
    window += ends.max() - own["ts"].min()
print(
    json.dumps(
        {
            "kernels": len(kernels),
            "kernel_ns": round(kernels["dur"].sum() * 1000),
            "top": [(name, int(n), round(us * 1000)) for name, n, us in top.head(10).itertuples()],
            "window_ns": round(window * 1000),
            "busy_ns": round(busy * 1000),
        }
    )
)
