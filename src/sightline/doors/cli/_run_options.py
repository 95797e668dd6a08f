"""The options of `sightline run`, by group: what is recorded, with which tool, where, how long."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

DEFAULT = "timeline"


def add_what(what: argparse._ArgumentGroup) -> None:
    from sightline.record.collect.backend import list_backends
    from sightline.record.collect.questions import QUESTIONS

    what.add_argument(
        "--for",
        dest="question",
        metavar="QUESTION",
        help=join_names(f"{name} (the default)" if name == DEFAULT else name for name in QUESTIONS),
    )
    what.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="B",
        help=f"{join_names(b.name for b in list_backends())} instead of what --for picks",
    )
    what.add_argument("--steps", metavar="W:U:A", help="PyTorch: wait W steps, warm up U, record A")
    what.add_argument("--after", type=float, metavar="S", help="start recording after S seconds")
    what.add_argument("--seconds", type=float, metavar="S", help="record for S seconds")
    what.add_argument(
        "--stacks", action="store_true", help="PyTorch, JAX, nsys: Python stacks (slower)"
    )
    what.add_argument(
        "--memory", action="store_true", help="PyTorch, nsys: every allocation (slower)"
    )
    what.add_argument(
        "--oom-snapshot",
        action="store_true",
        help="PyTorch: keep a memory snapshot when an allocation fails",
    )
    what.add_argument(
        "--no-shapes", action="store_true", help="PyTorch: do not record the inputs' shapes"
    )
    what.add_argument(
        "--capture",
        nargs="?",
        const=True,
        metavar="repeat[:N]",
        help="nsys, ncu: only what the program does inside  with sl.capture():  the first time, "
        "or each time, N at most (nsys)",
    )
    what.add_argument(
        "--trace",
        metavar="+A,B",
        help="nsys: trace these, too, such as +mpi,ucx,nccl,python-gil; A,B: only these",
    )
    what.add_argument(
        "--gpu-metrics",
        nargs="?",
        type=int,
        const=10_000,
        metavar="HZ",
        help="nsys: sample the GPUs' counters (SM, tensor, DRAM), 10,000 times a second",
    )
    what.add_argument(
        "--events",
        action="append",
        default=[],
        metavar="PATTERN",
        help="lttng: only these user-space ('hip:*') and kernel (sched_switch) events",
    )
    what.add_argument(
        "--snapshot",
        action="store_true",
        help="lttng: keep the latest events in memory; write them at the end or on demand",
    )
    what.add_argument(
        "--snapshot-on",
        metavar="EVENT",
        help="lttng: the same, but write at the first user-space EVENT: 'app:step', 'app:step if "
        "ms > 100', or SIGUSR1, sent to sightline",
    )
    what.add_argument(
        "--rotate", metavar="SIZE", help="lttng: a new chunk after each SIZE (10M) or time (60s)"
    )


def add_kernels(kernels: argparse._ArgumentGroup) -> None:
    kernels.add_argument("--kernel", metavar="REGEX", help="only kernels whose name matches")
    kernels.add_argument("--launch-skip", type=int, metavar="N", help="leave out the first N")
    kernels.add_argument("--launch-count", type=int, metavar="N", help="profile N launches (50)")
    kernels.add_argument("--set", metavar="SET", help="ncu's section set (full); or roofline, ...")
    kernels.add_argument(
        "--section", action="append", default=[], metavar="S", help="ncu: only this section"
    )
    kernels.add_argument("--metrics", metavar="M,N", help="ncu: only these metrics")
    kernels.add_argument(
        "--cache-control", choices=("all", "none"), help="ncu: empty the caches before each pass"
    )
    kernels.add_argument("--replay", metavar="MODE", help="kernel, application or range")
    kernels.add_argument("--graph", metavar="MODE", help="CUDA graphs by node (default) or graph")
    kernels.add_argument(
        "--lock-clocks",
        action="store_true",
        help="lock the GPUs to their base clocks while recording (root); default: leave clocks "
        "alone",
    )


def add_stacks(stacks: argparse._ArgumentGroup) -> None:
    stacks.add_argument(
        "--cpu-stacks",
        metavar="TOOL",
        help="py-spy, perf_event (sightline's own) or perf; also together with a GPU's timeline",
    )
    stacks.add_argument(
        "--cpu-rate", type=int, metavar="HZ", help="perf_event: samples a second (99)"
    )
    stacks.add_argument(
        "--cpu-stack-bytes",
        type=int,
        metavar="N",
        help="perf_event: bytes to copy of each stack (32768); 0: follow frame pointers",
    )


def add_cupti(cupti: argparse._ArgumentGroup) -> None:
    cupti.add_argument(
        "--sampling",
        metavar="MODE",
        help="where warps stall: continuous, or serialized (of each launch, one kernel at a time)",
    )
    cupti.add_argument(
        "--period", type=int, metavar="N", help="a sample every 2^N cycles of an SM, 5 to 31"
    )
    cupti.add_argument(
        "--no-calls", action="store_true", help="no API calls: records less, and costs less"
    )
    cupti.add_argument(
        "--budget",
        type=float,
        metavar="PCT",
        help="record less where recording takes more than PCT %% of a core (1)",
    )
    cupti.add_argument(
        "--flush-ms",
        type=int,
        metavar="MS",
        help="at most so many ms of records are lost if the program is killed (1000)",
    )
    cupti.add_argument(
        "--measure-cost",
        action="store_true",
        help="pause now and then to measure how much recording slows the program down",
    )


def add_where(where: argparse._ArgumentGroup) -> None:
    where.add_argument("-o", "--output", metavar="NAME", help="the run's folder: NAME.sightline")
    where.add_argument(
        "--join",
        action="store_true",
        help="add to a folder that another host of the same job records into",
    )
    where.add_argument("--ranks", metavar="LIST", help="record only these ranks, such as 0,7")
    where.add_argument("--every", type=int, default=1, metavar="N", help="record every Nth rank")
    where.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="end the program, and all that it started, after S seconds",
    )
    where.add_argument(
        "--server",
        nargs=2,
        metavar=("KIND", "URL"),
        help="switch on the profiler of a running vllm, sglang or trtllm server",
    )
    where.add_argument(
        "--traces",
        metavar="FOLDER",
        help="folder that server writes its traces to, if sightline cannot tell",
    )
    where.add_argument(
        "--server-log",
        metavar="FILE",
        help="that server's log; its lines on load and steps are kept with the trace",
    )
    where.add_argument(
        "--requests",
        type=int,
        metavar="N",
        help="send that server N requests while recording, and time each token",
    )
    where.add_argument(
        "--concurrency", type=int, metavar="N", help="how many of them to send at once (8)"
    )
    where.add_argument(
        "--load",
        metavar="FILE",
        help='their prompts: {"prompt": ...} on each line; or sharegpt-like: as long as '
        "conversations are",
    )
    where.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be run, with the tools' own command lines",
    )
    where.add_argument(
        "--keep-identity",
        action="store_true",
        help="keep whole command lines, which may hold names and secrets",
    )
    where.add_argument("--no-report", action="store_true", help="only record")


def join_names(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
