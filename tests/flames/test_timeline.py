"""Flame graphs of timelines: every ns of the device is in them, under the right stack."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest

import sightline
from sightline.flames import timeline
from sightline.flames.build import build_stacks
from sightline.flames.instances import merge_instances
from sightline.flames.stacks import Stacks
from support import traces
from support.campaigns import sample
from synth import SCENARIOS, kineto, scenarios, truth_of


def paths(stacks: Stacks, weight: str) -> dict[str, int]:
    """'frame;frame' without layers, to weight."""
    name = dict(stacks.frames.select("frame_id", "name").rows())
    found: dict[str, int] = {}
    for frames, value in stacks.rows.select("frames", weight).rows():
        path = ";".join(name[f] for f in frames)
        found[path] = found.get(path, 0) + value
    return {p: v for p, v in found.items() if v}


DIALECTS = ["2023", "2025", "amd"]
NAMES = [n for n in SCENARIOS if n != "cpu_only"]


@pytest.mark.parametrize(("name", "dialect"), sample(list(product(NAMES, DIALECTS)), 4))
def test_conserves_kernel_time_and_idle_time_of_every_device(name, dialect, tmp_path):
    program = SCENARIOS[name]()
    kineto.write(program, tmp_path, dialect=dialect)
    run = sightline.open(str(tmp_path))
    truth = truth_of(program)
    devices = [d for rank in truth.ranks.values() for d in rank.devices.values()]
    device, idle = timeline.stack_device_time(run), timeline.stack_idle_time(run)
    sums = [s for d in devices for s in (*d.kernels.values(), *d.copies.values())]
    assert device.total("gpu_time_ns") == sum(s.total_ns for s in sums)
    assert device.total("bytes") == sum(s.bytes or 0 for s in sums)
    assert idle.total("gpu_idle_ns") == sum(d.breakdown.idle_ns for d in devices)
    assert device.total("exposed_ns") <= device.total("gpu_time_ns")


def test_a_kernel_stands_below_all_that_led_to_it(tmp_path):
    run = traces.opened(
        tmp_path,
        [
            traces.host("user_annotation", "forward", 0, 100),
            traces.host("python_function", "train.py(3): step", 1, 98),
            traces.op("aten::linear", 2, 50),
            traces.op("aten::addmm", 3, 40),
            traces.launch(10, 5, 1),
            traces.kernel("gemm", 20, 30, 1),
            traces.kernel("orphan", 60, 10),
        ],
    )
    root = "rank 0;thread 101"
    assert paths(timeline.stack_device_time(run), "gpu_time_ns") == {
        f"{root};forward;train.py(3): step;aten::linear;aten::addmm;cudaLaunchKernel;"
        "GPU 0 stream 7;gemm": 30_000,
        "rank 0;[launch not recorded];GPU 0 stream 7;orphan": 10_000,
    }
    assert timeline.stack_device_time(run).shares("gpu_time_ns") == {
        "exact": 75.0,
        "unmatched": 25.0,
    }


def test_backward_work_stands_below_its_forward_operator(tmp_path):
    fwd = {"Sequence number": 7, "Fwd thread id": 0}
    bwd = {"Sequence number": 7, "Fwd thread id": 1}
    run = traces.opened(
        tmp_path,
        [
            traces.host("python_function", "model.py(9): forward", 0, 50),
            traces.op("aten::mm", 5, 20, **fwd),
            traces.op("autograd::engine::evaluate_function: MmBackward0", 100, 50, tid=202, **bwd),
            traces.op("MmBackward0", 105, 40, tid=202, **bwd),
            traces.host("cuda_runtime", "cudaLaunchKernel", 110, 5, tid=202, correlation=1),
            traces.kernel("gemm_bwd", 120, 30, 1),
        ],
    )
    assert paths(timeline.stack_device_time(run), "gpu_time_ns") == {
        "rank 0;thread 101;model.py(9): forward;aten::mm;[backward];"
        "autograd::engine::evaluate_function: MmBackward0;MmBackward0;cudaLaunchKernel;"
        "GPU 0 stream 7;gemm_bwd": 30_000,
    }


def test_exposed_is_the_time_in_which_nothing_else_ran(tmp_path):
    run = traces.opened(tmp_path, [traces.kernel("a", 0, 10), traces.kernel("b", 6, 10, stream=8)])
    exposed = {
        p.rsplit(";", 1)[-1]: v
        for p, v in paths(timeline.stack_device_time(run), "exposed_ns").items()
    }
    assert exposed == {"a": 6_000, "b": 6_000}


def test_a_slow_python_function_is_shown_as_what_the_gpu_waited_for(tmp_path):
    run = traces.opened(
        tmp_path,
        [
            traces.host("python_function", "train.py(1): loop", 0, 1000),
            traces.launch(10, 5, 1),
            traces.kernel("k1", 20, 30, 1),
            # The device runs dry at 50; the thread is in slow() from 60 to 460, launches at 500.
            traces.host("python_function", "data.py(7): slow", 60, 400),
            traces.launch(500, 5, 2),
            traces.kernel("k2", 512, 10, 2),
        ],
    )
    root = "rank 0;thread 101;train.py(1): loop"
    assert paths(timeline.stack_idle_time(run), "gpu_idle_ns") == {
        f"{root};data.py(7): slow": 400_000,
        root: 50_000,
        f"{root};cudaLaunchKernel;[launch latency]": 12_000,
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_simulated_dataloader_takes_the_idle_time_that_it_caused(seed, tmp_path):
    program = scenarios.dataloader_starved(seed=seed)
    kineto.write(program, tmp_path, dialect="2025")
    idle = timeline.stack_idle_time(sightline.open(str(tmp_path)))
    inside = sum(v for p, v in paths(idle, "gpu_idle_ns").items() if "DataLoader" in p)
    by_cause = truth_of(program).device(0).idle_by_cause()
    # The gap's cause takes all of it; the graph splits off what the loader did not take.
    assert 0.9 * by_cause["data_loading"] < inside <= sum(by_cause.values())


def test_cpu_time_is_each_threads_recorded_time(tmp_path):
    run = traces.opened(
        tmp_path,
        [
            traces.op("a", 0, 100),
            traces.op("b", 10, 30),
            traces.op("b", 50, 10),
            traces.op("c", 200, 5),
        ],
    )
    assert paths(timeline.stack_cpu_time(run), "cpu_time_ns") == {
        "rank 0;thread 101;a": 60_000,
        "rank 0;thread 101;a;b": 40_000,
        "rank 0;thread 101;c": 5_000,
    }


def test_a_run_gives_all_weights_it_can(tmp_path):
    kineto.write(scenarios.launch_bound(), tmp_path, dialect="2025")
    stacks = build_stacks(sightline.open(str(tmp_path)))
    assert set(stacks.weights) == {
        "gpu_time_ns",
        "exposed_ns",
        "bytes",
        "gpu_idle_ns",
        "cpu_time_ns",
    }
    assert stacks.frames.get_column("frame_id").to_list() == list(range(stacks.frames.height))


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "h100/gaunernst_bert-small-uncased__1016001",
        "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005",
        "mi300/ddp_resnet18_no_pool/train_resnet18",
        "mi210/gpu_only_trace/gpu_only_trace",
    ],
)
def test_real_recordings_are_conserved(corpus, name):
    run = sightline.open(str(corpus / f"kineto/AMD-AGI__TraceLens/{name}.json.gz"))
    ops = run.table("device_ops")
    assert (
        timeline.stack_device_time(run).total("gpu_time_ns")
        == ops.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    )
    idle = run.ask("breakdown").get_column("idle_ns").sum()
    assert timeline.stack_idle_time(run).total("gpu_idle_ns") == idle


def test_memory_of_one_rank_is_of_one_rank(tmp_path):
    """The host's memory and each GPU's stand below the rank that they belong to."""

    def allocated(address: int, kind: int, device: int) -> dict[str, object]:
        args = {"Addr": address, "Bytes": 512, "Device Type": kind, "Device Id": device}
        args |= {"Total Allocated": 512, "Total Reserved": 1024}
        place = {"pid": 1, "tid": 1, "ts": 5 + address}
        return {"ph": "i", "s": "t", "name": "[memory]", **place, "args": args}

    run = traces.opened(
        tmp_path,
        [
            traces.launch(10, 5, 1),
            traces.kernel("gemm", 20, 30, 1),
            allocated(1, 0, -1),
            allocated(2, 1, 0),
            allocated(3, 1, 1),
        ],
    )
    merged = merge_instances(build_stacks(run))
    assert merged.frames.filter(layer="run").get_column("name").to_list() == ["rank 0"]
    assert {"host memory", "GPU memory"} <= set(merged.frames.get_column("name"))
