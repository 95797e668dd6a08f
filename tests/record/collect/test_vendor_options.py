"""Options that are passed on to nsys, ncu and LTTng: their command lines, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from record.collect.test_plan import MACHINE, WITH_GPU
from sightline.errors import RequestError
from sightline.record.collect import plan
from sightline.record.collect.backends import ncu, nsys
from sightline.record.collect.clock_lock import ClockLock
from sightline.record.collect.look import Awaited, Look, read_output
from sightline.record.collect.lttng import list_userspace, rotate_session, split_events
from sightline.record.collect.ncu_metrics import check_metrics
from sightline.record.nvml.library import Unavailable
from support import fakes
from support.command import sightline

OLD = {"options": ["gpu-metrics-device", "trace"], "traces": ["cuda", "nvtx", "osrt", "mpi", "ucx",
       "cublas", "cudnn", "python-gil"]}  # fmt: skip


def make(command: str, **options):
    facts = {**WITH_GPU, "nsys_help": options.pop("known", None), "mpi_rank": "PMI_RANK"}
    asked = options.pop("backends", ())
    return plan.make_plan(command.split(), facts, backends=asked, options=options)


def line_of(made) -> str:
    options = {**made.options, "question": made.question}
    return " ".join(nsys.build_command(made.command, Path("/r"), "host-1a.2.nsys", options))


def test_counters_of_gpus_ask_for_nsys_by_themselves():
    made = make("python t.py", gpu_metrics=20_000)
    assert made.backends == ["nsys", "nvml"]
    assert "--gpu-metrics-devices all --gpu-metrics-frequency 20000" in line_of(made)
    old = make("python t.py", gpu_metrics=10_000, known=OLD)
    assert "--gpu-metrics-device all " in line_of(old)


def test_traces_are_those_of_the_program():
    assert "--trace cuda,nvtx,osrt,cublas,cudnn,mpi " in line_of(
        make("mpirun -n 2 ./a.out", backends=["nsys"])
    )
    assert "cudnn,ucx,nccl " in line_of(make("./a.out", trace="+ucx,nccl"))
    assert "--trace cuda,python-gil " in line_of(make("./a.out", trace="cuda,python-gil"))


def test_what_this_nsys_cannot_trace():
    with pytest.raises(RequestError) as raised:
        make("./a.out", trace="+nvshmem", known=OLD)
    assert "cannot trace nvshmem: it has cuda, nvtx" in str(raised.value)
    made = make("./a.out", trace="+nccl", known=OLD)  # which NCCL marks itself
    assert "nccl" not in line_of(made)
    (nsys_choice,) = (c for c in made.choices if c.backend == "nsys")
    assert "recorded as NVTX ranges" in nsys_choice.why
    with pytest.raises(RequestError, match="nsys cannot record here") as raised:
        make("python t.py", stacks=True, backends=["nsys"], known=OLD)
    assert "no --python-backtrace" in raised.value.why


def test_stacks_with_nsys_are_of_the_program():
    text = line_of(make("python t.py", stacks=True, backends=["nsys"]))
    assert "--python-backtrace cuda --python-sampling true" in text
    assert "python-gil" in text and "--sample none" in text
    text = line_of(make("./a.out", stacks=True, backends=["nsys"]))
    assert "--cudabacktrace all" in text and "--sample process-tree" in text


def test_memory_is_recorded_where_allocations_are_few():
    assert "--cuda-memory-usage true" in line_of(make("python t.py", backends=["nsys"]))
    assert "--cuda-memory-usage false" in line_of(make("./a.out", backends=["nsys"]))
    assert "--cuda-memory-usage true" in line_of(make("./a.out", memory=True, backends=["nsys"]))


def test_a_report_of_each_rank():
    text = line_of(make("torchrun --nproc-per-node 2 t.py", backends=["nsys"]))
    assert text.startswith("torchrun --nproc-per-node 2 --no-python nsys profile --output ")
    assert "/r/rank%q{RANK}-1a-%p.nsys " in text and text.endswith(" python -u t.py")


def test_only_chosen_ranks_are_recorded(tmp_path):
    """A shell at each rank decides; a stand-in for nsys says that it was called, and goes on."""
    fakes.program(
        tmp_path, "nsys", '#!/bin/sh\nwhile [ "$1" != ./a.out ]; do shift; done; echo nsys\n'
    )
    fakes.program(tmp_path, "a.out", "#!/bin/sh\necho plain $1\n")
    made = make("torchrun --no-python ./a.out x", backends=["nsys"])
    path = f"{tmp_path}:{os.environ['PATH']}"

    def start(rank: int, **chosen: object) -> str:
        words = nsys.build_command(
            made.command, Path("/r"), "host-1a.2.nsys", made.options | chosen
        )
        assert words[:2] == ["torchrun", "--no-python"]
        env = {"PATH": path, "RANK": str(rank)}
        done = subprocess.run(words[2:], cwd=tmp_path, env=env, capture_output=True, text=True,
                              check=True)  # fmt: skip
        return done.stdout.strip()

    assert [start(rank, ranks=(0, 2)) for rank in range(3)] == ["nsys", "plain x", "nsys"]
    assert [start(rank, every=2) for rank in range(3)] == ["nsys", "plain x", "nsys"]
    assert start(2, ranks=(2,), every=4) == "plain x"
    assert start(1) == "nsys"


def test_captures_that_repeat(monkeypatch):
    end = "--capture-range cudaProfilerApi --capture-range-end"
    assert f"{end} repeat:3 " in line_of(make("./a.out", capture="repeat:3", backends=["nsys"]))
    assert f"{end} stop " in line_of(make("./a.out", capture=True, backends=["nsys"]))
    monkeypatch.setenv("TLLM_PROFILE_START_STOP", "100-150")
    assert f"{end} stop " in line_of(make("python trtllm.py", backends=["nsys"]))


def test_single_metrics_instead_of_a_set():
    made = make("./a.out", metrics=["sm__throughput.avg.pct_of_peak_sustained_elapsed", "group:x"])
    assert (made.question, made.backends) == ("kernels", ["ncu", "nvml"])
    text = " ".join(ncu.build_command(["./a.out"], Path("/r"), "k", made.options))
    assert "--metrics sm__throughput.avg.pct_of_peak_sustained_elapsed,group:x " in text
    assert "--set" not in text
    chosen = {"sections": ["SpeedOfLight", "Occupancy"], "set": "full", "cache_control": "none"}
    text = " ".join(ncu.build_command(["./a.out"], Path("/r"), "k", chosen))
    assert "--set full --section SpeedOfLight --section Occupancy" in text
    assert "--cache-control none" in text


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("sm__sass_average_data_bytes_per_wavefront_spill", "smsp__inst_executed_op_local_ld.sum"),
        (
            "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        ),
        (
            "sm__sass_thread_inst_executed_op_hmma_pred_on.sum",
            "sm__inst_executed_pipe_tensor_op_hmma.sum",
        ),
        (
            "smsp__warps_issue_stalled_barrier_per_issue_active.ratio",
            "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
        ),
        (
            "sm__sass_average_warps_issue_stalled_*",
            "regex:smsp__average_warps_issue_stalled_.*_per_issue_active",
        ),
        ("achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ],
)
def test_a_wrong_metric_is_answered_with_the_right_one(wrong, right):
    with pytest.raises(RequestError) as raised:
        check_metrics([wrong], lambda words: None)
    assert right in str(raised.value.hint)
    check_metrics(right.split(","), lambda words: None)


LISTED = "sm__throughput    Throughput  %  of the SM\ndram__bytes    Counter   byte\n"


def test_other_metrics_are_looked_up_in_what_ncu_lists():
    check_metrics(["dram__bytes.sum", "launch__registers_per_thread"], lambda words: LISTED)
    with pytest.raises(RequestError) as raised:
        check_metrics(["dram__byte.sum"], lambda words: LISTED)
    assert "dram__bytes.sum" in raised.value.why
    with pytest.raises(RequestError, match="has no suffix"):
        check_metrics(["dram__bytes"], lambda words: LISTED)
    check_metrics(["made__up.sum"], lambda words: None)  # no ncu here: it cannot be known


def test_what_nothing_reads_is_said(tmp_path, monkeypatch):
    made = plan.make_plan(["python", "t.py"], MACHINE, options={"kernel": "gemm", "stacks": True})
    assert plan.list_unread(made, made.options) == [("--kernel", ["ncu"])]
    monkeypatch.chdir(tmp_path)
    outcome = sightline("run", "--kernel", "x", "--dry-run", "--", "true")
    assert "# --kernel has no effect here: it is for ncu" in outcome.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--gpu-metrics", "5"), "nsys samples 10 to 200,000 times a second"),
        (("--capture", "always"), "repeat, repeat:N or nothing"),
        (("--rotate", "10 minutes"), "a size (10M) or a time (60s)"),
    ],
)
def test_what_a_tool_would_refuse_is_refused_at_once(words, text):
    outcome = sightline("run", *words, "--", "true")
    assert outcome.code == 2 and text in outcome.said


def test_lttng_traces_what_is_named():
    assert split_events(["hip:*", "hsa:*", "sched_switch"]) == ("hip:*,hsa:*", "sched_switch")
    lines = [" ".join(w) for w in list_userspace("s", Path("/f"), snapshot=True, events="hip:*",
             kernel="")]  # fmt: skip
    assert "enable-event --userspace --session=s --channel=user hip:*" in lines
    assert lines[0] == "create s --output=/f --snapshot"
    only_kernel = list_userspace("s", Path("/f"), snapshot=False, events="", kernel="sched_switch")
    assert not [words for words in only_kernel if words[0] == "enable-event"]
    every = list_userspace("s", Path("/f"), snapshot=False, events="", kernel="")
    assert [words[-1] for words in every if words[0] == "enable-event"] == ["--all"]
    assert rotate_session("s", "60s")[-1] == "--timer=60s"
    assert rotate_session("s", "10M")[-1] == "--size=10M"


class Gpus:
    """What clocks are locked with, of a driver that may refuse it."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, refuses: bool = False) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.refuses = refuses

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetName(self, handle):
        return "GPU"

    def nvmlDeviceGetPersistenceMode(self, handle):
        return handle == 1

    def __getattr__(self, name):
        def call(*arguments):
            if self.refuses and name == "nvmlDeviceSetGpuLockedClocks":
                raise self.NVMLError("Insufficient Permissions")
            self.calls.append((name.removeprefix("nvmlDevice"), *arguments))

        if not name.startswith("nvmlDevice"):
            raise AttributeError(name)
        return call


def test_clocks_are_locked_and_set_free():
    gpus = Gpus()
    lock = ClockLock(gpus)
    lock.stop()
    lock.stop()
    base = 0xFFFFFF01
    assert gpus.calls == [
        ("SetPersistenceMode", 0, 1),
        ("SetGpuLockedClocks", 0, base, base),
        ("SetGpuLockedClocks", 1, base, base),
        ("ResetGpuLockedClocks", 0),
        ("SetPersistenceMode", 0, 0),
        ("ResetGpuLockedClocks", 1),
    ]


def test_where_clocks_may_not_be_locked_nothing_stays_changed():
    gpus = Gpus(refuses=True)
    with pytest.raises(Unavailable, match="GPU 0: Insufficient Permissions"):
        ClockLock(gpus)
    assert gpus.calls[-1] == ("SetPersistenceMode", 0, 0)


# -- against the vendor's own help, where the tools are there (Debian: nsight-systems-target and
#    nsight-compute-target of non-free) ---------------------------------------------------------


def list_flags(words: list[str]) -> set[str]:
    own = words[words.index("profile") if "profile" in words else 0 : words.index("./a.out")]
    return {word.split("=")[0] for word in own if word.startswith("--")}


@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
def test_nsys_knows_each_option():
    look = Look(read_output, Path("/"), None, lambda: None, Awaited())  # type: ignore[arg-type]

    class Facts:
        def __getitem__(self, name):
            return look.find_version("nsys")

    look.facts = Facts()  # type: ignore[assignment]
    known = nsys._read_help(look)
    assert known is not None
    options = {
        "traces": nsys.list_traces("+ucx,python-gil", mpi=True, gil=True),
        "nsys_options": known["options"], "gpu_metrics": 10_000, "capture": "repeat:3",
        "server": True, "after_s": 1.0, "seconds": 2.0, "stacks": True,
    }  # fmt: skip
    new = {"python-backtrace", "python-sampling", "python-sampling-frequency"}
    for is_python in (False, "python-backtrace" in known["options"]):
        made = nsys.build_command(["./a.out"], Path("/r"), "n", {**options, "is_python": is_python})
        assert {flag.lstrip("-") for flag in list_flags(made)} <= set(known["options"]) | (
            set() if is_python else new
        )
    if "python-backtrace" in known["options"]:
        assert set(options["traces"]) <= set(known["traces"])


@pytest.mark.skipif(shutil.which("ncu") is None, reason="ncu is not installed")
def test_ncu_knows_each_option_and_each_metric_that_is_advised():
    help_text = subprocess.run(["ncu", "--help"], capture_output=True, text=True, check=True).stdout
    chosen = {
        "sections": ["SpeedOfLight"], "set": "full", "cache_control": "none", "kernel": "x",
        "launch_skip": 1, "capture": True, "metrics": ["dram__bytes.sum"],
    }  # fmt: skip
    made = ncu.build_command(["./a.out"], Path("/r"), "k", chosen)
    assert [flag for flag in list_flags(made) if flag not in help_text] == []
    for right in (
        "sm__inst_executed_pipe_tensor_op_hmma.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "smsp__inst_executed_op_local_ld.sum",
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
        "smsp__sass_average_data_bytes_per_wavefront_mem_shared.ratio",
    ):
        check_metrics([right])
    with pytest.raises(RequestError):
        check_metrics(["sm__nonsense.sum"])
