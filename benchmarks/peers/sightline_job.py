"""The job with sightline: open the trace, ask for its kernels and for the parts of the GPU's time.

python sightline_job.py TRACE
"""

import json
import sys

import sightline

run = sightline.open(sys.argv[1])
kernels = run.ask("kernels").sort("total_ns", descending=True)
parts = run.ask("breakdown")
print(
    json.dumps(
        {
            "kernels": kernels["instances"].sum(),
            "kernel_ns": kernels["total_ns"].sum(),
            "top": kernels.select("name", "instances", "total_ns").head(10).rows(),
            "window_ns": parts["window_ns"].sum(),
            "busy_ns": (parts["window_ns"] - parts["idle_ns"]).sum(),
        }
    )
)
