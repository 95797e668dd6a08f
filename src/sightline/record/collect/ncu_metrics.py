"""Names of metrics as a person types them for ncu, checked before the program is started.

ncu itself tells a wrong name only once the first kernel has run. Names that tutorials repeat and
that are wrong stand below with the right ones; all others are looked up in what ncu lists
(`ncu --query-metrics`), if it is there.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from sightline.errors import RequestError
from sightline.record.collect.look import Runner, read_output

_STALL = r"(?:sm|smsp)__(?:sass_average_|average_)?warps_issue_stalled"
# Wrong, right, why. None of the left is in the lists of ncu 2024.1 for ga100 and gh100, all of the
# right are; and nvprof's names, by the Nsight Compute CLI's "nvprof Transition Guide", Metrics.
_WRONG = tuple(
    (re.compile(wrong), right, why)
    for wrong, right, why in (
        (
            rf"{_STALL}_?\*",
            "regex:smsp__average_warps_issue_stalled_.*_per_issue_active",
            "reasons of stalls are counted per sub-partition (smsp), and are chosen by regex:",
        ),
        (
            rf"(?!smsp__average_){_STALL}_(\w+?)_per_issue_active(\.\w+)?",
            r"smsp__average_warps_issue_stalled_\1_per_issue_active.ratio",
            "the ratio of warps per issued instruction is an average of sub-partitions",
        ),
        (
            r"sm__sass_average_data_bytes_per_wavefront_spill(\.\w+)?",
            "smsp__inst_executed_op_local_ld.sum,smsp__inst_executed_op_local_st.sum",
            "spilled registers are loads and stores of local memory",
        ),
        (
            r"sm__sass_data_bytes_per_wavefront_mem_shared(\.\w+)?",
            "smsp__sass_average_data_bytes_per_wavefront_mem_shared.ratio",
            "bytes per wavefront are an average of sub-partitions",
        ),
        (
            r"sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared(\.\w+)?",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
            "bank conflicts of shared memory are counted by L1TEX",
        ),
        (
            r"sm(?:sp)?__sass_thread_inst_executed_op_hmma_pred_on(\.\w+)?",
            "sm__inst_executed_pipe_tensor_op_hmma.sum",
            "a tensor instruction is of a whole warp, and of no thread",
        ),
        (r"achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", "nvprof's"),
        (r"sm_efficiency", "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed", "nvprof's"),
        (r"ipc", "smsp__inst_executed.avg.per_cycle_active", "nvprof's"),
        (r"dram_read_throughput", "dram__bytes_read.sum.per_second", "nvprof's"),
        (r"dram_write_throughput", "dram__bytes_write.sum.per_second", "nvprof's"),
        (
            r"warp_execution_efficiency",
            "smsp__thread_inst_executed_per_inst_executed.ratio",
            "nvprof's",
        ),
        (
            r"gld_efficiency",
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
            "nvprof's",
        ),
        (
            r"gst_efficiency",
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
            "nvprof's",
        ),
    )
)
# Not listed by --query-metrics, or not names of single metrics (ncu --help, --metrics).
_UNLISTED = re.compile(
    r"^(?:regex:|group:|breakdown:|pmsampling:|launch__|device__|derived__|sass__|memory_|profiler__"
    r"|nvlrx__|nvltx__|numa__|smsp__pcsamp_|sm__maximum_|thread_inst_executed|inst_executed"
    r"|gpu__dispatch|func__|source|.*[*?])"
)
# Chips whose metrics are listed without a GPU: ncu's own names (ncu --list-chips).
_CHIPS = "ga100,gh100"


def check_metrics(names: Sequence[str], run: Runner = read_output) -> None:
    """Raise RequestError at the first name that ncu does not have; it tells the right one."""
    rest = []
    for name in names:
        for wrong, right, why in _WRONG:
            if (found := wrong.fullmatch(name)) is not None:
                whose = "it is nvprof's name" if why == "nvprof's" else why
                raise RequestError(
                    f"ncu has no metric {name}",
                    why=whose,
                    hint=f"Write  --metrics '{found.expand(right)}'",
                )
        if not _UNLISTED.match(name):
            rest.append(name)
    listed = list_metrics(run) if rest else set()
    for name in rest:
        base, _, suffix = name.partition(".")
        if listed and base not in listed:
            near = difflib.get_close_matches(base, sorted(listed), 3, 0.6)
            ending = f".{suffix}" if suffix else ""
            raise RequestError(
                f"ncu has no metric {name}",
                why=f"nearest: {', '.join(n + ending for n in near)}" if near else None,
                hint="All of them:  ncu --query-metrics",
            )
        if listed and not suffix:
            raise RequestError(
                f"{name} has no suffix",
                why="ncu collects a metric as .sum, .avg, .max or .min, or as a share of its peak",
                hint=f"ncu --query-metrics-mode suffix --metrics {name}",
            )


def list_metrics(run: Runner) -> set[str]:
    """The base names that this ncu has; of two chips where there is no GPU; else none."""
    text = run(["ncu", "--query-metrics"]) or run(["ncu", "--query-metrics", "--chips", _CHIPS])
    return set(re.findall(r"^([a-z]\w*__\w+)\s", text or "", re.MULTILINE))
