"""The same simulated server as Nsight Systems records it: NVTX ranges, API calls and kernels.

TensorRT-LLM writes its steps so (TLLM_LLMAPI_ENABLE_NVTX=1).
"""

from __future__ import annotations

from pathlib import Path

from synth_nsys import Export

from .server import Served


def write_export(served: Served, folder: Path) -> Path:
    """One worker's report, as `nsys export --type sqlite` writes it."""
    export = Export()
    number = 0
    for n, step in enumerate(served.steps):
        text = (
            f"[Executor] _forward_step {n}: {step.prefill[0]} ctx reqs, "
            f"{step.prefill[1]} ctx tokens, {step.decode} gen reqs"
        )
        export.range(text, step.start_ns, step.sample[0])
        export.range("_sample_async", *step.sample)
        left = list(step.kernels)
        for start, end, count in step.launches:
            number += 1
            name = "cudaGraphLaunch_v10000" if step.places else "cudaLaunchKernel_v7000"
            export.api(name, start, end, number)
            for kernel in left[:count]:
                export.kernel(kernel.name, kernel.start_ns, kernel.end_ns, number)
            left = left[count:]
        if step.sample[0] > step.launches[-1][1]:
            number += 1
            export.api("cudaStreamSynchronize_v3020", step.launches[-1][1], step.sample[0], number)
    return export.write(folder / "server.sqlite")
