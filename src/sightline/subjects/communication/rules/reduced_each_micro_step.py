"""Gradients are reduced in every micro-step, though the optimizer runs once for several.

Symptom
    Between two steps of the optimizer the same all-reduces, of the same sizes, run several times,
    each time behind a backward pass.

Why it hurts
    Accumulated gradients have to be summed over the ranks once, before the optimizer needs them:
    all reductions but the last send what will be sent again.

Evidence
    The sequence of sizes of one group's all-reduces (or reduce-scatters) between two kernels of the
    optimizer is the same few in a row, two times or more, and all of them are launched by backward
    work, where the recording tells who launches; tensor parallelism reduces in forward as well. The
    gain is a replay without all but the last round.

Threshold
    Two rounds or more in each of two steps, one mebibyte a round (DDP's smallest bucket), and 5 %
    of the window in cost or gain.

Fix
    DDP: `with model.no_sync():` around all micro-steps but the last. FSDP2:
    set_requires_gradient_sync(False); Accelerate: accelerator.accumulate(model); Lightning and
    DeepSpeed do it by themselves, if the accumulation is theirs.

False positives
    FSDP and ZeRO-2/3 that reduce each micro-step to keep gradients sharded trade it for memory.

References
    PyTorch documentation, DistributedDataParallel.no_sync; Hugging Face Accelerate, "Gradient
    synchronization".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, keep_notable, make_finding
from sightline.replay.gains import sum_windows
from sightline.replay.replay import remove_ops
from sightline.subjects.communication.reductions import (
    list_backward,
    list_early_reductions,
    measure_early,
)

RULE = Rule("reduced-each-micro-step", "Gradients reduced in every micro-step")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("collectives"):
        return
    early = list_early_reductions(run)
    if early.is_empty():
        return
    cost = measure_early(run)
    in_backward = list_backward(run).len() > 0
    ids = early.get_column("device_op_id")
    size = sum_column(early, "size") / max(early.get_column("rank").n_unique(), 1)
    times = find_largest(early, "rounds")
    found = make_finding(
        run,
        RULE,
        f"{format_pct(100 * sum_column(cost, 'ns') / sum_windows(run))} of the window reduces "
        f"gradients that are reduced again: in each step of the optimizer {times} times.",
        Loss(
            sum_column(cost, "ns"), find_largest(cost, "ns"), lambda nodes: remove_ops(nodes, ids)
        ),
        Evidence(
            [
                f"{times} rounds of the same sizes between two steps of the optimizer, "
                f"{format_bytes(int(size))} a rank in all but the last ones",
                "all of them launched by backward work"
                if in_backward
                else "who launches them was not recorded",
            ],
            rows=early.select("rank", "device_id", "device_op_id", "start_ns", "end_ns")
            .head(5)
            .to_dicts(),
            where={"ranks": early.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix=choose_fix(
                run,
                "sum locally, and reduce once for all micro-steps of a step",
                training="sum locally until the last micro-step:  with model.no_sync():  in DDP, "
                "set_requires_gradient_sync(False) in FSDP2, accelerator.accumulate(model) in "
                "Accelerate",
            ),
            verify="sightline stats comm_exposure AFTER: transfer_ns",
            cause="gradients are accumulated, and each micro-step's backward reduces them",
            sources=("Li et al., PyTorch Distributed (2020): gradient accumulation",),
        ),
        confidence="high" if in_backward else "medium",
    )
    yield from keep_notable(run, found)
