"""What PyTorch's profiler would have recorded of a simulated server's worker, and its client's log.

Times go from integer ns to decimal text by digits alone: a float does not hold them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from .server import Served, Step

PID = 4711
ORIGIN_NS = 1_790_000_000_000_000_000


def write_metrics(served: Served, folder: Path) -> Path:
    """The server's count of preempted requests, as its /metrics says it."""
    path = folder / "metrics.prom"
    path.write_text(
        "# TYPE vllm:num_preemptions_total counter\n"
        f'vllm:num_preemptions_total{{engine="0"}} {served.preemptions}\n'
    )
    return path


# Heads of keys and values, and their width, as vLLM's attention operator has them.
KV_SHAPE = (8, 128)
ATTENTION = "kernel_unified_attention_2d"
_TRANSFER = "vllm/distributed/kv_transfer/kv_connector/v1/base.py(268): wait_for_layer_load"


def write_trace(
    served: Served,
    folder: Path,
    engine: str = "vllm",
    rank: int = 0,
    transfers: Sequence[tuple[int, int]] = (),
    clock_ns: int = 0,
) -> Path:
    """One worker's trace; "vllm detailed" is vLLM with detailed_trace_annotation and shapes.

    `transfers` are of keys and values that come in, on a thread of their own; `clock_ns` is how far
    the machine's clock is ahead.
    """
    rows = [_row("M", "process_name", args={"name": "VLLM::Worker"})]
    rows += [
        _range("user_annotation", "nixl_read", begin, end, PID + 1 + n % 2)
        for n, (begin, end) in enumerate(transfers)
    ]
    number = 0
    for step in served.steps:
        rows.append(_range("user_annotation", _name(step, engine), step.start_ns, step.end_ns))
        rows.append(
            _range("cpu_op", "vllm::unified_attention", step.start_ns, step.start_ns + 1_000)
        )
        if step.transfer is not None:
            rows.append(_range("python_function", _TRANSFER, *step.transfer))
        if step.draft is not None:
            rows.append(_range("user_annotation", "gpu_model_runner: draft", *step.draft))
        left = list(step.ranks[rank] if step.ranks else step.kernels)
        for start, end, count in step.launches:
            number += 1
            api = "cudaGraphLaunch" if count > 1 else "cudaLaunchKernel"
            if engine == "vllm detailed" and left[0].name == ATTENTION:
                rows.append(_attend(step, start, end))
            rows.append(_range("cuda_runtime", api, start, end, correlation=number))
            for kernel in left[:count]:
                rows.append(
                    _range(
                        "kernel", kernel.name, kernel.start_ns, kernel.end_ns, 7,
                        correlation=number, device=0, stream=7,
                    )
                )  # fmt: skip
            left = left[count:]
        waits_from = step.launches[-1][1]
        if step.sample[0] > waits_from:
            rows.append(_range("cuda_runtime", "cudaStreamSynchronize", waits_from, step.sample[0]))
        rows.append(_range("user_annotation", "gpu_model_runner: sample", *step.sample))
    path = folder / f"rank{rank}.pt.trace.json"
    ranks = max(len(step.ranks) for step in served.steps)
    head = {"rank": rank, "world_size": max(ranks, 1), "backend": "nccl"}
    gpu = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    path.write_text(
        f'{{"schemaVersion": 1, "distributedInfo": {json.dumps(head)}, '
        f'"deviceProperties": {json.dumps(gpu)}, '
        f'"baseTimeNanoseconds": {ORIGIN_NS + clock_ns}, "traceEvents": [\n'
        + ",\n".join(rows)
        + "\n]}"
    )
    return path


def write_client(served: Served, folder: Path) -> Path:
    """The client's log: when each request was sent, and each of its tokens came, in seconds."""
    rows = []
    for number, request in enumerate(served.requests):
        times = [ORIGIN_NS + at for at in request.token_ns]
        sent = ORIGIN_NS + request.arrival_ns
        rows.append({
            "i": number, "start": sent / 1e9, "ttft": (times[0] - sent) / 1e9,
            "itl": [(b - a) / 1e9 for a, b in pairwise(times)],
            "end": times[-1] / 1e9, "n": len(times), "ptok": request.prompt,
        })  # fmt: skip
    path = folder / "client.json"
    path.write_text(json.dumps(rows))
    return path


def _attend(step: Step, start: int, end: int) -> str:
    """The operator around a launch of attention, with the shapes of queries, keys and values."""
    heads = [step.decode, 4 * KV_SHAPE[0], KV_SHAPE[1]]
    keys = [step.decode, *KV_SHAPE]
    told = {
        "Input Dims": [heads, keys, keys, heads],
        "Input type": ["c10::BFloat16"] * 4,
        "Concrete Inputs": [""] * 4,
    }
    return _range("cpu_op", "vllm::unified_attention_with_output", start - 100, end + 100, **told)  # type: ignore[arg-type]


def _name(step: Step, engine: str) -> str:
    if engine == "vllm detailed":
        tokens, context = step.prefill[1], step.context
        return (
            f"execute_{tokens + step.checked}_context_{step.prefill[0]}"
            f"(sq{tokens}sk{tokens}sqsq1sqsk1)_generation_{step.decode}"
            f"(sq{step.checked}sk{context}sqsq1sqsk1)"
        )
    if engine == "vllm":
        return (
            f"execute_context_{step.prefill[0]}({step.prefill[1]})"
            f"_generation_{step.decode}({step.checked})"
        )
    if engine == "atom" and step.phase == "decode":
        return f"decode[bs={step.decode}/{step.places or step.decode} tok={step.decode}]"
    if engine == "atom":
        return f"prefill[bs={step.prefill[0]} tok={step.prefill[1]}]"
    if step.phase == "decode":
        return f"step[DECODE bs={step.decode}]"
    if step.phase == "prefill":
        return f"step[EXTEND bs={step.prefill[0]} toks={step.prefill[1]}]"
    both = step.prefill[0] + step.decode
    return (
        f"step[MIXED bs={both} c={step.prefill[0]} g={step.decode} c_sq={step.prefill[1]} "
        f"c_sk={step.prefill[1]} c_sqsq=1 c_sqsk=1 g_sq={step.decode} g_sk={step.decode} "
        "g_sqsq=1 g_sqsk=1]"
    )


def _range(category: str, name: str, start: int, end: int, tid: int = PID, **args: int) -> str:
    pid = 0 if category == "kernel" else PID
    return (
        f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid}, '
        f'"ts": {_write_us(start)}, "dur": {_write_us(end - start)}, "args": {json.dumps(args)}}}'
    )


def _row(phase: str, name: str, args: dict[str, str]) -> str:
    return json.dumps({"ph": phase, "name": name, "pid": PID, "tid": 0, "ts": 0, "args": args})


def _write_us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"
