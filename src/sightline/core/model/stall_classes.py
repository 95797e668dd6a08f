"""What a vendor's stall reason means, in words that are the same for every vendor.

The mapping is a judgement, not an identity: Intel's `sbid` covers what NVIDIA tells apart as
long_scoreboard and others. Compare vendors by class, and within a vendor by reason. Reasons:
NVIDIA, Nsight Compute documentation, "Warp Stall Reasons"; AMD, rocprofiler-sdk
`rocprofiler_pc_sampling_instruction_not_issued_reason_t`; Intel, iaprof's and unitrace's columns of
EU stall sampling.
"""

from __future__ import annotations

_CLASSES = {
    "issuing": ("selected", "wave_issued", "active"),
    "memory wait": ("long_scoreboard", "waitcnt", "sbid"),
    "on-chip memory wait": ("short_scoreboard",),
    "memory queue full": ("lg_throttle", "mio_throttle", "tex_throttle", "drain", "send"),
    "ALU dependency": ("wait", "alu_dependency", "dist_acc", "dist", "psdep"),
    "pipe busy": (
        "math_pipe_throttle",
        "dispatch_stall",
        "gmma",
        "arbiter_win_ex_stall",
        "pipestall",
        "pipe",
    ),
    "sync": ("barrier", "membar", "barrier_wait", "sync"),
    "instruction supply": (
        "no_instruction",
        "no_instructions",
        "imc_miss",
        "no_instruction_available",
        "inst_fetch",
        "instrfetch",
    ),
    "not chosen": ("not_selected", "arbiter_not_win"),
    "control": ("branch_resolving", "internal_instruction", "control"),
    "other": ("sleeping", "misc", "sleep_wait", "other_wait", "other", "tdr"),
}

_OF = {reason: name for name, reasons in _CLASSES.items() for reason in reasons}

CLASSES = tuple(_CLASSES)


def classify_stall(reason: str) -> str:
    """The class of a reason, however the tool spells it; 'other' for an unknown one."""
    return _OF.get(normalize_reason(reason), "other")


def normalize_reason(reason: str) -> str:
    """The reason without the prefixes and endings that tools put around it."""
    text = reason.strip().lower().replace(" ", "_")
    for prefix in (
        "rocprofiler_pc_sampling_instruction_not_issued_reason_",
        "smsp__pcsamp_warps_issue_",
        "stalled_",
        "stall_",
    ):
        text = text.removeprefix(prefix)
    return text.removesuffix("_not_issued")
