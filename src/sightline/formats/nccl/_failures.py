"""Why a run failed, began slowly or has a slow network, as logs of NCCL and its tests say it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.text import make_printable
from sightline.core.units import format_ns
from sightline.formats.nccl._nccl_log import Said

# mpirun --tag-output (job, rank and stream; also within a line that several wrote), srun --label.
_TAG = re.compile(r"\[\d{1,6},\d{1,6}\]<std(?:out|err|diag)>: ?")
_SHOWN = 160  # characters of the log's own words


class _Failure(NamedTuple):
    pattern: re.Pattern[str]
    text: str
    remedy: str


# The causes first: what follows from them stands below, and is said only where none is known.
_CAUSES = (
    _Failure(
        re.compile(
            r"error while loading shared libraries: [^\n]*|Failed to dlopen libcuda\.so[^\n]*"
            r"|libcuda\.so[.\d]*: cannot open shared object[^\n]*"
        ),
        "a library of the GPU or of NCCL was not found",
        "Make it visible to the program: LD_LIBRARY_PATH, or the container's GPU option.",
    ),
    _Failure(
        re.compile(
            r"Unable to register memory[^\n]*|cxil_map failed: -22[^\n]*"
            r"|Failed to (?:acquire mapping|map MR buffer)[^\n]*|ibv_reg_mr\w*[^\n]* failed[^\n]*"
        ),
        "the network could not register memory",
        "Check that the network library can use the GPU (GPUDirect, libcuda.so) and ulimit -l.",
    ),
    _Failure(
        re.compile(r"CUDA driver version is insufficient[^\n]*|no CUDA-capable device[^\n]*"),
        "CUDA could not be used",
        "Check the driver with  nvidia-smi  on each host.",
    ),
)
_EFFECTS = (
    _Failure(
        re.compile(r"Test (?:NCCL |CUDA )?failure[^\n]*|NCCL failure[^\n]*"),
        "a test failed",
        "Run it again with  NCCL_DEBUG=INFO",
    ),
    _Failure(
        re.compile(r"[Ee]xit(?:ed with(?: exit)?)? code:?\s*[1-9]\d{0,2}[^\n]*"),
        "ranks ended with an error",
        "Run it again with  NCCL_DEBUG=INFO",
    ),
)  # fmt: skip
_TIMINGS = re.compile(r"Init timings - .*? total (\d+\.\d+) \(.*?bootstrap (\d+\.\d+)")
_SLOW_S = 1.0  # of bootstrap (ours: what a person notices, and a job of minutes does not)


def strip_tags(text: str) -> str:
    """The log without what a launcher puts before, and between, what the ranks wrote."""
    return _TAG.sub("", text)


def list_failures(text: str) -> list[Quality]:
    """Why a run failed, in the log's own words: its causes, else what it ended with."""
    for failures in (_CAUSES, _EFFECTS):
        found = [quality for one in failures if (quality := _count(one, text)) is not None]
        if found:
            return found
    return []


def _count(failure: _Failure, text: str) -> Quality | None:
    lines = failure.pattern.findall(text)
    if not lines:
        return None
    said = make_printable(lines[0].strip())[:_SHOWN]
    return Quality("test_failed", "error", f"{failure.text}: {said}", None, failure.remedy)


def judge_network(said: Sequence[Said], channels: pl.DataFrame) -> list[Quality]:
    """Sockets where RDMA would be faster, GPUs that go through host memory, a slow begin."""
    found = []
    shared = channels.filter(pl.col("via").str.contains(r"(?i)^shm"))
    if shared.height:
        text = (
            "NCCL's channels between GPUs of one machine go through host memory (SHM), not from "
            "GPU to GPU"
        )
        remedy = (
            "See what keeps them apart:  nvidia-smi topo -p2p r; NCCL_P2P_DISABLE or "
            "NCCL_P2P_LEVEL, a container without access to its peers (--ipc=host), PCIe access "
            "control, or GPUs without peer access."
        )
        found.append(Quality("shared_memory_transport", "warning", text, shared.height, remedy))
    sockets = channels.filter(pl.col("via").str.contains(r"(?i)^net/socket"))
    if sockets.height:
        text = "NCCL's channels between hosts go over TCP sockets, which are slower than RDMA"
        remedy = (
            "Check that NCCL finds its network (NCCL_DEBUG_SUBSYS=NET), and that NCCL_IB_DISABLE "
            "and NCCL_NET do not say otherwise."
        )
        found.append(Quality("socket_transport", "warning", text, None, remedy))
    timings = [match for line in said if (match := _TIMINGS.search(line.text))]
    slow = [(float(m[1]), float(m[2])) for m in timings if float(m[2]) >= _SLOW_S]
    if slow:
        total, bootstrap = max(slow)
        text = (
            f"NCCL took {format_ns(round(total * 1e9))} to initialize, "
            f"{format_ns(round(bootstrap * 1e9))} of it until all ranks had met (bootstrap)"
        )
        remedy = (
            "Let all ranks start at once, and give bootstrap a fast interface "
            "(NCCL_SOCKET_IFNAME, NCCL_OOB_NET_ENABLE=1)."
        )
        found.append(Quality("slow_bootstrap", "warning", text, None, remedy))
    return found
