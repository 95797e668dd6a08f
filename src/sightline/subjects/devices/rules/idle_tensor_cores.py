"""A busy GPU whose tensor cores do nothing, by its counters alone.

Symptom
    nvidia-smi shows 100 %, SMs are active, and the tensor pipe is at 0 %.

Why it hurts
    Utilization says that kernels run, not what they run on. Matrix products take several times as
    long on the vector units: an H100 has 67 TFLOP/s in fp32 there, and 495 in TF32 on its tensor
    cores.

Evidence
    Means of the device's counters over the time in which it was busy (`sightline stats
    device_use`). Counters do not show how much of the work is matrix products, so no gain is told:
    a recording of the program does.

Threshold
    Busy: nvidia-smi's utilization or SM active at 80 % and more, for half of the time; SM active 50
    % and more (DCGM's user guide: less than 0.5 is likely ineffective, which busy-but-idle is
    about). Tensor cores under 1 % of the cycles (ours: less than tools print).

Fix
    16-bit inputs (autocast), or TF32: torch.set_float32_matmul_precision("high").

False positives
    Work without matrix products: stencils, sorting, sparse solvers, data bases. Programs that need
    double precision show it in the FP64 pipe, and are left out.

References
    NVIDIA DCGM User Guide, "Profiling Metrics"; NVIDIA H100 datasheet (dense rates).
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.devices.rules._counters import list_busy_devices, write_use
from sightline.timeline.device_use import SHOWN, TRUE
from sightline.timeline.use_thresholds import INEFFECTIVE_PCT, PIPES, find_busiest_pipe

RULE = Rule("idle-tensor-cores", "Busy, but no tensor cores")
_TENSOR, _DOUBLE = "tensor active", "FP64 active"
NONE_PCT = 1.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, over all devices that were busy without them."""
    found = [
        row
        for row in list_busy_devices(run)
        if row[_TENSOR] is not None
        and row[_TENSOR] < NONE_PCT
        and (row[TRUE] is None or row[TRUE] >= INEFFECTIVE_PCT)
        and find_busiest_pipe({pipe: row[pipe] for pipe in PIPES})[0] != PIPES[_DOUBLE]
    ]
    if not found:
        return
    first = found[0]
    busy = first[SHOWN] if first[SHOWN] is not None else first[TRUE]
    yield build_finding(
        RULE,
        f"{format_several(len(found), 'GPU')} busy at {busy:.0f} %, and the tensor cores at "
        f"{first[_TENSOR]:.0f} %: matrix products, if there are any, run on the vector units.",
        Evidence(
            [
                *(write_use(row) for row in found[:5]),
                "counters do not show how much of the work is matrix products",
            ],
            where={
                "ranks": sorted({row["rank"] for row in found}),
                "devices": sorted({row["device_id"] for row in found}),
            },
        ),
        Advice(
            fix="16-bit inputs (autocast), or TF32; to see what runs, record it:  sightline run "
            "-- COMMAND, or  sightline attach PID",
            verify="sightline stats device_use AFTER: the tensor pipe above 0 %",
            cause="matrix products in fp32 without TF32, or work that has none",
            sources=("NVIDIA DCGM User Guide: Tensor Activity",),
        ),
        severity="warning",
        confidence="medium",
    )
