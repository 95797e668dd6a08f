"""What the driver and the memory of a GPU report as errors."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.units import format_several
from sightline.core.xids import describe_recovery, describe_xid, list_xids, look_up_action, read_xid
from sightline.health.check import FAIL, UNCHECKED, WARN, Check, Verdict, fail, find_reason, warn
from sightline.health.node import Gpu, Node

_DCGM = "DCGM's health checks (dcgm_health.cpp)"
_ROWS = 512  # DCGM's health check warns of as many remapped rows
_PAGES = 63  # DCGM's hard limit of retired pages; 64 is what the InfoROM holds


def _judge_recovery(node: Node) -> Iterator[Verdict]:
    """By NVML's number, or by the words of nvidia-smi -q."""
    told = [event for event in node.events if event.kind == "recovery-action"]
    for event in told:
        yield Verdict(FAIL, event.text, _name_place(event.device, event.source))
    known = [gpu for gpu in node.gpus if "recovery_action" in gpu.values]
    for gpu in known:
        if text := describe_recovery(gpu.values["recovery_action"]):
            yield Verdict(FAIL, text, f"GPU {gpu.number}")
    if not known and not told:
        yield Verdict(UNCHECKED, find_reason(node, "recovery_action"))


def _judge_lost(node: Node) -> Iterator[Verdict]:
    if not node.gpus and not any(event.kind == "device-lost" for event in node.events):
        yield Verdict(UNCHECKED, node.why_missing("gpus"))
    for gpu in node.gpus:
        if gpu.lost is not None:
            yield Verdict(FAIL, f"it does not answer: {gpu.lost}", f"GPU {gpu.number}")
    known = {gpu.number for gpu in node.gpus if gpu.lost is not None}
    for event in node.events:
        if event.kind == "device-lost" and event.device not in known:
            yield Verdict(FAIL, event.text, _name_place(event.device, event.source))


def _judge_xids(node: Node) -> Iterator[Verdict]:
    """One verdict for each XID of each GPU: a hundred of a kind are one cause."""
    counts: dict[tuple[int, int | None, str | None], int] = {}
    yield from _list_unread(node, ("xid",))
    for event in node.events:
        code = read_xid(event.text) if event.kind == "xid" else None
        if code is not None:
            key = code, event.device, event.source
            counts[key] = counts.get(key, 0) + 1
    for (code, device, source), count in counts.items():
        action = look_up_action(code)
        times = f", {format_several(count, 'time')}" if count > 1 else ""
        text = f"XID {code}{times}: {describe_xid(code)}"
        state = {"critical": FAIL, "warning": WARN}.get(action.severity, "pass")
        yield Verdict(state, text, _name_place(device, source))


def _list_unread(node: Node, kinds: tuple[str, ...]) -> Iterator[Verdict]:
    """That nobody looked: no kernel log, and no such event from elsewhere."""
    if "kernel_log" not in node.values and not any(e.kind in kinds for e in node.events):
        yield Verdict(UNCHECKED, node.why_missing("kernel_log"))


def _judge_switches(node: Node) -> Iterator[Verdict]:
    yield from _list_unread(node, ("sxid", "sxid-fatal", "fabric-error"))
    for event in node.events:
        if event.kind in ("sxid", "sxid-fatal", "fabric-error"):
            state = WARN if event.kind == "sxid" else FAIL
            yield Verdict(state, event.text, _name_place(event.device, event.source))


def _name_place(device: int | None, source: str | None) -> str:
    return f"GPU {device}" if device is not None else (source or "")


def _judge_uncorrected(gpu: Gpu) -> Verdict | None:
    count = gpu.values["ecc_uncorrected"]
    if count <= 0:
        return None
    errors = format_several(int(count), "uncorrected ECC error")
    return fail(f"{errors} since the driver was loaded")


def _judge_remap_failure(gpu: Gpu) -> Verdict | None:
    return fail("no spare row is left for a faulty one") if gpu.values["remap_failure"] else None


def _judge_remap_pending(gpu: Gpu) -> Verdict | None:
    return warn("rows are remapped at the next reset") if gpu.values["remap_pending"] else None


def _judge_rows(gpu: Gpu) -> Verdict | None:
    count = int(gpu.values["rows_uncorrected"])
    return (
        fail(f"{format_several(count, 'row')} are remapped for uncorrected errors")
        if count >= _ROWS
        else None
    )


def _judge_pages(gpu: Gpu) -> Verdict | None:
    count = int(gpu.values["pages_corrected"] + gpu.values["pages_uncorrected"])
    return fail(f"{format_several(count, 'page')} are retired") if count >= _PAGES else None


def _judge_page_pending(gpu: Gpu) -> Verdict | None:
    return warn("pages are retired at the next reset") if gpu.values["page_pending"] else None


CHECKS = (
    Check(
        "recovery-action",
        "what the driver itself asks for",
        "any recovery action other than none",
        "nvml.h, nvmlDeviceGpuRecoveryAction_t",
        "drain the node, then do what it says",
        judge_node=_judge_recovery,
    ),
    Check(
        "gpu-lost",
        "whether every GPU answers",
        "any that does not",
        "nvml.h, NVML_ERROR_GPU_IS_LOST",
        "drain the node; look for its XID in the kernel log; reboot",
        judge_node=_judge_lost,
    ),
    Check(
        "xid",
        "errors that the driver reported (kernel log, NVML)",
        "by the catalog's action: restart of an application warns, a reset and more fails",
        f"NVIDIA's catalogue of XIDs, {format_several(len(list_xids()), 'code')}",
        "sightline explain xid CODE",
        judge_node=_judge_xids,
    ),
    Check(
        "nvswitch",
        "errors of NVSwitches and of the NVLink fabric",
        "an SXID warns; a fatal one, or a GPU that is not in the fabric, fails",
        "NVIDIA Fabric Manager user guide, appendix on SXIDs",
        "restart the fabric manager; after a fatal SXID reset all GPUs and switches",
        judge_node=_judge_switches,
    ),
    Check(
        "ecc-uncorrected",
        "ECC errors that were not corrected",
        "any since the driver was loaded",
        _DCGM,
        "drain the node and reset the GPU; replace it if they recur",
        ("ecc_uncorrected",),
        _judge_uncorrected,
    ),
    Check(
        "row-remap-failure",
        "whether faulty rows could be replaced",
        "one that could not",
        "NVIDIA GPU Memory Error Management",
        "replace the GPU",
        ("remap_failure",),
        _judge_remap_failure,
    ),
    Check(
        "row-remap-pending",
        "rows that wait for a reset",
        "any",
        "NVIDIA GPU Memory Error Management",
        "reset the GPU once it is idle",
        ("remap_pending",),
        _judge_remap_pending,
    ),
    Check(
        "rows-remapped",
        "how many rows were replaced",
        f"{_ROWS} for uncorrected errors",
        _DCGM,
        "have the GPU examined: its spare rows are nearly used up",
        ("rows_uncorrected",),
        _judge_rows,
    ),
    Check(
        "pages-retired",
        "how many pages were taken out of use (before Ampere)",
        f"{_PAGES}, for any reason",
        _DCGM,
        "replace the GPU",
        ("pages_corrected", "pages_uncorrected"),
        _judge_pages,
    ),
    Check(
        "page-retirement-pending",
        "pages that wait for a reset",
        "any",
        "NVIDIA Dynamic Page Retirement",
        "reset the GPU once it is idle",
        ("page_pending",),
        _judge_page_pending,
    ),
)
