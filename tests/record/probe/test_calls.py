"""Probes on running programs: what is seen, what is counted, what is left behind. Needs root."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import polars as pl
import pytest

import sightline
from record.probe.programs import (
    Probe,
    Target,
    compile_c,
    find_cudart,
    find_nvcc,
    needs,
    read_code,
    wait_until,
)
from sightline.record.probe.bpf import Programs
from sightline.record.probe.cost import Cost
from sightline.record.probe.elf import open_elf
from sightline.record.probe.perf import Samples
from sightline.record.probe.session import Session
from sightline.record.probe.targets import Targets
from support.campaigns import CAMPAIGNS
from support.prometheus import run_prometheus

pytestmark = pytest.mark.xdist_group("probe")

BACKENDS = ["bpf", "perf"]
CALLS = 1_000_000 if CAMPAIGNS else 200_000


def record(folder: Path, target: Target, *options: str) -> Probe:
    return Probe("--pid", str(target.pid), "-o", folder, *options)


def open_recorded(folder: Path) -> sightline.Run:
    return sightline.open(str(folder))


def requests(run: sightline.Run, kind: str) -> list[dict[str, object]]:
    rows = run.table("requests").filter(pl.col("kind") == kind)
    calls = run.table("host_ops").select("host_op_id", call="name", tid="tid")
    return rows.join(calls, on="host_op_id", maintain_order="left").to_dicts()


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments(backend: str, target: Target, tmp_path: Path) -> None:
    """Everything that the program does once, with what it was given."""
    needs(backend)
    probe = record(tmp_path / "x", target, "--backend", backend)
    target.do("a")
    target.end()
    code, out, err = probe.wait()
    assert code == 0, err
    run = open_recorded(tmp_path / "x.sightline")
    names = run.table("host_ops").get_column("name").to_list()
    # One is single-stepped: it is not probed, and the report says so.
    assert "cudaEventSynchronize" not in names
    assert "cudaEventSynchronize" in out and "1 function cannot be probed" in err

    launch, triton = requests(run, "kernel")
    size = {"grid_x": 7, "grid_y": 5, "grid_z": 3, "block_x": 128, "block_y": 2, "block_z": 1}
    assert launch["call"] == "cudaLaunchKernel"
    assert {k: launch[k] for k in size} == size
    assert launch["dynamic_shared_bytes"] == 2048 and launch["stream_handle"] == 0x5000
    assert launch["name"] == "saxpy(int, float, float*, float*)"
    assert launch["mangled_name"] == "_Z5saxpyifPfS_"
    size = {"grid_x": 11, "grid_y": 12, "grid_z": 13, "block_x": 32, "block_y": 4, "block_z": 2}
    assert triton["call"] == "cuLaunchKernelEx"
    assert {k: triton[k] for k in size} == size
    assert triton["dynamic_shared_bytes"] == 512 and triton["stream_handle"] == 0x5000
    # The name of a handle was asked for behind a pointer, where perf_event does not see it.
    assert triton["name"] == ("triton_add(float*)" if backend == "bpf" else None)

    copy, pitched = requests(run, "memcpy")
    assert (copy["call"], copy["copy_kind"], copy["bytes"]) == ("cudaMemcpy", "HtoD", 1000)
    assert copy["source_address"] == 0x2000
    assert (pitched["copy_kind"], pitched["bytes"]) == ("DtoH", 200 * 30)
    (fill,) = requests(run, "memset")
    assert (fill["bytes"], fill["stream_handle"]) == (640, 0x5000)
    allocated, refused = requests(run, "alloc")
    assert (allocated["bytes"], allocated["return_value"]) == (4096, 0)
    assert allocated["address"] == (0x7F0000001000 if backend == "bpf" else None)
    assert (refused["bytes"], refused["return_value"]) == (1 << 31, 2)
    assert refused["address"] is None
    (freed,) = requests(run, "free")
    assert freed["address"] == 0x7F0080000000
    reduced, sent = requests(run, "collective")
    assert (reduced["op"], reduced["dtype"], reduced["elements"]) == (
        "allreduce",
        "float32",
        123456,
    )
    assert (reduced["bytes"], reduced["communicator"]) == (4 * 123456, 0xC0)
    assert (sent["op"], sent["dtype"], sent["peer"], sent["bytes"]) == ("send", "bfloat16", 3, 198)

    (wait,) = run.table("syncs").to_dicts()
    assert wait["kind"] == "stream" and 20e6 <= wait["end_ns"] - wait["start_ns"] < 2e9
    # The driver's launch lies in the runtime's, and is no second one.
    inner = run.table("host_ops").filter(pl.col("name") == "cuLaunchKernel").row(0, named=True)
    outer = run.table("host_ops").filter(pl.col("host_op_id") == inner["parent_id"])
    assert outer.get_column("name").to_list() == ["cudaLaunchKernel"]
    now = time.time_ns()
    assert 0 < now - run.table("recordings").row(0, named=True)["end_ns"] < 120e9


def test_many_calls_are_counted_exactly(target: Target, tmp_path: Path) -> None:
    needs("bpf")
    probe = record(tmp_path / "x", target, "--no-report")
    target.do(f"c{CALLS}")
    target.do(f"l{CALLS // 10}")
    target.do(f"t{CALLS // 10}")
    target.end()
    code, _, err = probe.wait()
    assert code == 0, err
    run = open_recorded(tmp_path / "x.sightline")
    facts = read_facts(tmp_path / "x.sightline")
    totals = facts["totals"]
    assert totals["cudaMemcpyAsync"]["entered"] == CALLS + CALLS // 10
    assert totals["cudaMemcpyAsync"]["returned"] == CALLS + CALLS // 10
    assert totals["cudaMemcpyAsync"]["bytes"] == 777 * (CALLS + CALLS // 10)
    assert totals["cuLaunchKernel"]["entered"] == CALLS // 10
    # Every call has its row, but for those that are said to be lost.
    lost = sum(sums["lost"] for sums in totals.values())
    returned = sum(sums["returned"] for sums in totals.values())
    assert run.rows("host_ops") + lost == returned
    said = run.table("quality").filter(pl.col("kind") == "calls_lost").get_column("count").sum()
    assert said == lost
    # Kernels are counted where they are launched, lost or not: a quarter is the other one.
    launches = {facts["kernels"][h]: n for h, n in facts["launches"].items()}
    assert launches == {"_Z5saxpyifPfS_": CALLS * 3 // 40, "_Z5scaleIfEvPT_S0_i": CALLS // 40}
    threads = run.table("host_ops").filter(pl.col("name") == "cudaMemcpyAsync")
    assert lost or threads.get_column("tid").n_unique() == 9
    assert not run.table("host_ops").filter(pl.col("end_ns") < pl.col("start_ns")).height


@pytest.mark.timing
def test_perf_says_how_much_it_lost(target: Target) -> None:
    """Faster than anybody reads: each sample is a half of a call that is seen, or counted."""
    needs("perf")
    samples = Samples()
    try:
        (library,) = [x for x in Targets().find(target.pid) if x.path.endswith("libcudart.so.13")]
        site = next(s for s in library.sites if s.function.name == "cudaMemcpyAsync")
        samples.tell_function(0, site.function)
        assert samples.attach(library.opened, [(site, 0)], target.pid) == []
        target.do("c20000")
        assert len(samples.read_calls()) == 20_000 and not samples.read_misses()
        target.do("c400000")
        samples.detach()
        seen = len(samples.read_calls())
        misses = samples.read_misses()
        assert misses["samples"] > 100_000
        still_open = 1  # the last entry that is in a ring, whose return is not
        found = 2 * seen + misses["samples"] + misses.get("halves", 0)
        assert 800_000 - still_open <= found <= 800_000
    finally:
        samples.close()


def read_facts(folder: Path) -> dict[str, object]:
    """What the last blocks of the only file say."""
    from sightline.core.model.source import Source
    from sightline.formats.own.sightline_probe.tables import read_blocks

    (path,) = folder.glob("*.probe")
    return read_blocks(Source(path, path.name)).facts


def test_bpftrace_sees_the_same(target: Target, tmp_path: Path) -> None:
    needs("bpf")
    if shutil.which("bpftrace") is None:
        pytest.skip("bpftrace is not installed")
    (library,) = [x for x in Targets().find(target.pid) if x.path.endswith("libcudart.so.13")]
    script = (
        f"uprobe:{library.path}:cudaMemcpyAsync {{ @copies[arg3] = count(); @b = sum(arg2); }}"
        f"uprobe:{library.path}:cudaLaunchKernel {{ @launches = count(); @x = sum(arg1); }}"
    )
    oracle = subprocess.Popen(
        ["bpftrace", "-f", "json", "-e", script, "-p", str(target.pid)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert oracle.stdout is not None and "attached_probes" in oracle.stdout.readline()
    probe = record(tmp_path / "x", target, "--no-report")
    target.do("c30001")
    target.do("l2007")
    target.end()
    maps = [json.loads(line) for line in oracle.communicate(timeout=60)[0].splitlines() if line]
    seen = {name: value for m in maps if m["type"] == "map" for name, value in m["data"].items()}
    code, _, err = probe.wait()
    assert code == 0, err
    asked = open_recorded(tmp_path / "x.sightline").table("requests")
    copies = asked.filter(pl.col("kind") == "memcpy")
    ours = dict(copies.get_column("copy_kind").value_counts().iter_rows())
    theirs = {k: seen["@copies"][n] for k, n in {"HtoD": "1", "DtoH": "2", "DtoD": "3"}.items()}
    assert ours == theirs
    assert copies.get_column("bytes").sum() == seen["@b"]
    kernels = asked.filter(pl.col("kind") == "kernel")
    assert kernels.height == seen["@launches"] == 2007
    first = kernels.select(pl.col("grid_x") + pl.col("grid_y") * (1 << 32)).to_series()
    assert first.sum() == seen["@x"]  # the register that holds both


@pytest.mark.timing
@pytest.mark.parametrize("backend", BACKENDS if CAMPAIGNS else BACKENDS[:1])
def test_probes_are_gone_afterwards(backend: str, target: Target, tmp_path: Path) -> None:
    """The program's code is as it was, after an end in order, and after the probe was killed."""
    needs(backend)
    (library,) = [x for x in Targets().find(target.pid) if x.path.endswith("libcudart.so.13")]
    with open_elf(library.opened) as elf:
        (symbol,) = elf.find_symbols(["cudaMemcpyAsync"])
    before = read_code(target.pid, "libcudart.so.13", symbol.offset)
    assert before[0] == 0x53
    for number, end in enumerate((signal.SIGINT, signal.SIGKILL)):
        folder = tmp_path / f"x{number}"
        probe = record(folder, target, "--backend", backend, "--no-report")
        assert read_code(target.pid, "libcudart.so.13", symbol.offset)[0] == 0xCC
        target.do("c1000")
        time.sleep(0.2)  # what is read is written at once
        probe.process.send_signal(end)
        probe.process.wait(30)
        wait_until(lambda: read_code(target.pid, "libcudart.so.13", symbol.offset) == before)
        probe.process.communicate()
        found = open_recorded(folder.with_suffix(".sightline"))
        # A second's facts may lack when it was killed, the calls' functions among them.
        if end == signal.SIGINT:
            assert found.rows("requests") == 1000
    assert 0 < min(target.do("c1000") for _ in range(10)) < 300  # 1 ns where nobody disturbs it


@pytest.mark.parametrize("together", [True, False])
def test_probes_are_gone_before_the_probe_is(together: bool, target: Target) -> None:
    """What was counted is read when they are: that takes time, of which the program has nothing."""
    needs("bpf")
    programs = Programs(together=together)
    try:
        (library,) = [x for x in Targets().find(target.pid) if x.path.endswith("libcudart.so.13")]
        site = next(s for s in library.sites if s.function.name == "cudaMemcpyAsync")
        before = read_code(target.pid, "libcudart.so.13", site.offset)
        programs.tell_function(0, site.function)
        assert programs.attach(library.opened, [(site, 0)], target.pid) == []
        assert read_code(target.pid, "libcudart.so.13", site.offset)[0] == 0xCC
        target.do("c10")
        programs.detach()
        assert read_code(target.pid, "libcudart.so.13", site.offset) == before
        target.do("c10")
        assert len(programs.read_calls()) == 10
    finally:
        programs.close()


def test_a_disk_that_is_full(target: Target, tmp_path: Path) -> None:
    """What was written is understood: which functions there are was written first."""
    needs("bpf")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted")
    try:
        probe = record(disk / "x", target, "--no-report")
        target.do("c10000")
        code, _, err = probe.wait()
        assert code == 2 and "no space left on device" in err and "Traceback" not in err
        run = open_recorded(disk / "x.sightline")
        assert 0 < run.rows("requests") < 10_000
        assert run.table("requests").get_column("bytes").unique().to_list() == [777]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_is_removed(target: Target, tmp_path: Path) -> None:
    needs("bpf")
    probe = record(tmp_path / "x", target)
    shutil.rmtree(tmp_path / "x.sightline")
    target.do("c100")
    target.end()
    code, _, err = probe.wait()
    assert code == 2
    assert "x.sightline was removed while it was written to" in " ".join(err.split())
    assert "nothing was seen" not in err


@pytest.mark.timing
def test_a_killed_probe_leaves_a_run(target: Target, tmp_path: Path) -> None:
    needs("bpf")
    probe = record(tmp_path / "x", target, "--no-report")
    target.do("c1000")
    (path,) = (tmp_path / "x.sightline").glob("*.probe")
    # Facts are written each second.
    wait_until(lambda: b'"functions"' in path.read_bytes() and path.stat().st_size > 1000 * 80)
    probe.process.kill()
    probe.process.communicate()
    run = open_recorded(tmp_path / "x.sightline")
    assert run.rows("requests") == 1000
    assert "process_killed" in run.table("quality").get_column("kind").to_list()


@pytest.mark.timing
@pytest.mark.parametrize("how", ["k", "SIGKILL"])
def test_the_programs_death_is_survived(how: str, target: Target, tmp_path: Path) -> None:
    """A segmentation fault, and a kill in the middle of calls: what was seen is there."""
    needs("bpf")
    probe = record(tmp_path / "x", target, "--no-report")
    target.do("c5000")
    target.tell("k" if how == "k" else "t100000000")
    if how != "k":
        time.sleep(0.3)
        target.process.kill()
    target.process.wait(30)
    code, _, err = probe.wait()
    assert code == 0, err
    run = open_recorded(tmp_path / "x.sightline")
    assert run.rows("requests") >= 5000
    facts = read_facts(tmp_path / "x.sightline")
    assert facts["finished"] == "the program ended" and facts["process_ended"]


def test_calls_that_are_left_by_a_jump_do_not_pile_up(target: Target, tmp_path: Path) -> None:
    """100 calls, of which 50 never return: what comes after them is seen, and in none of them."""
    needs("bpf")
    probe = record(tmp_path / "x", target, "--no-report")
    target.do("j100")
    target.do("c20")
    target.end()
    assert probe.wait()[0] == 0
    run = open_recorded(tmp_path / "x.sightline")
    counts = dict(run.table("host_ops").get_column("name").value_counts().iter_rows())
    assert counts == {"cudaDeviceSynchronize": 50, "cudaMemcpyAsync": 20}
    assert run.table("host_ops").get_column("depth").max() == 0
    facts = read_facts(tmp_path / "x.sightline")
    assert facts["misses"] == {}
    assert facts["totals"]["cudaDeviceSynchronize"]["entered"] == 100


def test_stacks(target: Target, tmp_path: Path) -> None:
    needs("bpf")
    probe = record(tmp_path / "x", target, "--stacks", "--no-report")
    target.do("a")
    target.end()
    assert probe.wait()[0] == 0
    run = open_recorded(tmp_path / "x.sightline")
    frames = dict(run.table("frames").select("frame_id", "function").iter_rows())
    stacks = {s["stack_id"]: s for s in run.table("stacks").to_dicts()}

    def path(stack: int | None) -> list[str]:
        found = []
        while stack is not None:
            found.append(frames[stacks[stack]["frame_id"]])
            stack = stacks[stack]["parent_id"]
        return found

    calls = run.table("host_ops").filter(pl.col("name") == "cudaMemcpy").to_dicts()
    assert path(calls[0]["stack_id"])[:2] == ["once", "main"]


def test_the_real_runtime_without_a_driver(tmp_path: Path) -> None:
    """NVIDIA's own library: each call fails with 35, and all are seen, with what they asked for."""
    needs("bpf")
    library = find_cudart()
    if library is None:
        pytest.skip("there is no libcudart (pip install nvidia-cuda-runtime)")
    script = (
        "import ctypes as c, sys\n"
        f"lib = c.CDLL({str(library)!r})\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "p = c.c_void_p()\n"
        "print([lib.cudaMalloc(c.byref(p), c.c_size_t(4096)),\n"
        "  lib.cudaMemcpy(c.c_void_p(16), c.c_void_p(32), c.c_size_t(777), 1),\n"
        "  lib.cudaDeviceSynchronize()], flush=True)\n"
    )
    target = Target(sys.executable, "-c", script)
    probe = record(tmp_path / "x", target, "--no-report")
    target.tell("go")
    assert target.read().strip() == "[35, 35, 35]"
    target.end()
    code, _, err = probe.wait()
    assert code == 0, err
    run = open_recorded(tmp_path / "x.sightline")
    rows = run.table("host_ops").select("name", "return_value").rows()
    assert rows == [("cudaMalloc", 35), ("cudaMemcpy", 35), ("cudaDeviceSynchronize", 35)]
    (copy,) = requests(run, "memcpy")
    assert (copy["bytes"], copy["copy_kind"], copy["address"]) == (777, "HtoD", 16)


# With perf_event the kernel takes 0.1 s to take a probe away, of 114.
_NVCC = [("bpf", "static"), ("bpf", "shared"), *([("perf", "static")] if CAMPAIGNS else [])]


@pytest.mark.parametrize(("backend", "linked"), _NVCC)
def test_kernels_of_nvcc_have_their_names(backend: str, linked: str, tmp_path: Path) -> None:
    """A program of nvcc's, launched before the probe came: names are in its own symbols."""
    needs(backend)
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("there is no nvcc")
    source = Path(__file__).with_name("kernels.cu")
    library = Path(nvcc).parents[1] / "lib64"
    run_path = ["-Xlinker", "-rpath", "-Xlinker", library]
    subprocess.run(
        [nvcc, "-cudart", linked, "-o", tmp_path / "kernels", source, *run_path], check=True
    )
    target = Target(tmp_path / "kernels")
    target.do("l1")
    probe = record(tmp_path / "x", target, "--backend", backend, "--no-report")
    target.do("l100")
    target.end()
    code, _, err = probe.wait()
    assert code == 0, err
    run = open_recorded(tmp_path / "x.sightline")
    kernels = run.ask("requested_kernels").select("name", "grid_x", "block_y", "failed").rows()
    assert sorted(kernels) == [
        ("deep::saxpy(int, float, float*, float*)", 7, 2, 100),
        ("void scale<float>(float*, float, int)", 3, 1, 100),
    ]


def test_metrics(target: Target) -> None:
    """The names that OBI's own integration test looks for, with the numbers of the program."""
    needs("bpf")
    probe = Probe("--pid", str(target.pid), "--prometheus", "0")
    target.do("a")
    target.do("c3000")
    (place,) = [line.split()[-1] for line in probe.said if "http://" in line]
    text = urllib.request.urlopen(place, timeout=10).read().decode()
    probe.process.send_signal(signal.SIGINT)
    assert probe.wait()[0] == 0
    values = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if not line.startswith("#")
    }
    who = f'process_pid="{target.pid}",service_name="program"'
    assert values[f"gpu_cuda_kernel_launch_calls_total{{{who}}}"] == 2
    assert values[f"gpu_cuda_memory_allocations_bytes_total{{{who}}}"] == 4096
    assert values[f"gpu_cuda_memset_bytes_total{{{who}}}"] == 640
    assert values[f"gpu_cuda_stream_synchronize_calls_total{{{who}}}"] == 1
    grid = f'gpu_cuda_kernel_grid_size_bucket{{le="%s",{who}}}'
    assert (values[grid % "64.0"], values[grid % "128.0"], values[grid % "2048.0"]) == (0, 1, 2)
    assert values[f"gpu_cuda_kernel_grid_size_sum{{{who}}}"] == 7 * 5 * 3 + 11 * 12 * 13
    assert values[f"gpu_cuda_kernel_block_size_sum{{{who}}}"] == 128 * 2 + 32 * 4 * 2
    copies = f'cuda_memcpy_kind="MemcpyHostToDevice",{who}'
    assert values[f"gpu_cuda_memory_copies_bytes_count{{{copies}}}"] == 1001
    assert values[f"gpu_cuda_memory_copies_bytes_sum{{{copies}}}"] == 1000 * 777 + 1000
    kernel = f'kernel="saxpy(int, float, float*, float*)",{who}'
    assert values[f"sightline_probe_kernel_launches_total{{{kernel}}}"] == 1
    failed = f'function="cudaMalloc",{who}'
    assert values[f"sightline_probe_call_errors_total{{{failed}}}"] == 1


@pytest.mark.timing
@pytest.mark.campaign  # Prometheus itself: tests/record/monitor/test_exporter.py
def test_prometheus_itself_has_the_numbers(target: Target, tmp_path: Path) -> None:
    needs("bpf")
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    probe = Probe("--pid", str(target.pid), "--prometheus", "0")
    target.do("l300")
    target.do("c90")
    (place,) = [line.split()[-1] for line in probe.said if "http://" in line]
    port = int(place.split(":")[2].partition("/")[0])
    with run_prometheus(port, tmp_path, "gpu_cuda_kernel_launch_calls_total > 0") as ask:
        (launches,) = ask("gpu_cuda_kernel_launch_calls_total")
        kernels = ask("sightline_probe_kernel_launches_total")
        (bytes_,) = ask("sum(gpu_cuda_memory_copies_bytes_sum)")
        (median,) = ask("histogram_quantile(0.5, gpu_cuda_kernel_block_size_bucket)")
    probe.process.send_signal(signal.SIGINT)
    assert probe.wait()[0] == 0
    assert launches["metric"]["process_pid"] == str(target.pid)
    assert float(launches["value"][1]) == 300
    assert {k["metric"]["kernel"]: float(k["value"][1]) for k in kernels} == {
        "saxpy(int, float, float*, float*)": 225, "void scale<float>(float*, float, int)": 75,
    }  # fmt: skip
    assert float(bytes_["value"][1]) == 90 * 777
    assert 32 < float(median["value"][1]) <= 64


def test_libraries_that_come_later_are_probed(program: Path, tmp_path: Path) -> None:
    needs("bpf")
    script = (
        "import ctypes as c, sys\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        f"c.CDLL({str(program.parent / 'libcuda.so.1')!r}, c.RTLD_GLOBAL)\n"
        f"lib = c.CDLL({str(program.parent / 'libcudart.so.13')!r})\n"
        "print(1, flush=True)\n"
        "sys.stdin.readline()\n"
        "print(lib.cudaFree(c.c_void_p(48)), flush=True)\n"
    )
    target = Target(sys.executable, "-c", script)
    probe = record(tmp_path / "x", target, "--no-report")
    target.do("load")
    sites = [site for library in Targets().find(target.pid) for site in library.sites]
    offset = next(site.offset for site in sites if site.function.name == "cudaFree")
    # It is looked once a second.
    wait_until(lambda: read_code(target.pid, "libcudart.so.13", offset)[0] == 0xCC)
    target.do("call")
    target.end()
    assert probe.wait()[0] == 0
    run = open_recorded(tmp_path / "x.sightline")
    assert run.table("host_ops").get_column("name").to_list() == ["cudaFree"]


@pytest.mark.campaign
def test_children_are_probed(program: Path, tmp_path: Path) -> None:
    """The process that was named is a launcher; its children have ranks."""
    needs("bpf")
    script = (
        "import os, subprocess, sys\n"
        f"all = [subprocess.Popen([{str(program)!r}], stdin=subprocess.PIPE,"
        " env={**os.environ, 'RANK': str(r), 'WORLD_SIZE': '2'}, text=True,"
        " stdout=subprocess.PIPE) for r in range(2)]\n"
        "[p.stdout.readline() for p in all]\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "for n, p in enumerate(all): p.communicate(f'c{100 * (n + 1)}\\n')\n"
    )
    target = Target(sys.executable, "-c", script)
    probe = record(tmp_path / "x", target, "--no-report")
    target.tell("go")
    target.end()
    code, _, err = probe.wait()
    assert code == 0, err
    calls = open_recorded(tmp_path / "x.sightline").table("host_ops")
    counts = dict(calls.get_column("rank").value_counts().iter_rows())
    assert counts == {0: 100, 1: 200}


def test_without_one_link_for_all(target: Target) -> None:
    """Kernels before 6.6 take a link for each function: the same calls are seen."""
    needs("bpf")
    programs = Programs(together=False)
    try:
        numbers = []
        for library in Targets().find(target.pid):
            for site in library.sites:
                if site.function.name in ("cudaMemcpyAsync", "cudaLaunchKernel"):
                    numbers.append(site.function.name)
                    programs.tell_function(len(numbers) - 1, site.function)
                    assert (
                        programs.attach(library.opened, [(site, len(numbers) - 1)], target.pid)
                        == []
                    )
        assert programs.attached == 4
        target.do("c500")
        target.do("l50")
        seen = programs.read_calls()
        counts = {numbers[n]: int((seen["function"] == n).sum()) for n in range(2)}
        assert counts == {"cudaMemcpyAsync": 500, "cudaLaunchKernel": 50}
    finally:
        programs.close()


def test_a_function_that_cannot_be_probed_spoils_no_other(target: Target) -> None:
    needs("bpf")
    from dataclasses import replace

    programs = Programs()
    try:
        (library,) = [x for x in Targets().find(target.pid) if x.path.endswith("libcudart.so.13")]
        good = next(s for s in library.sites if s.function.name == "cudaMemcpyAsync")
        bad = replace(good, offset=1 << 40)
        programs.tell_function(0, good.function)
        refused = programs.attach(library.opened, [(good, 0), (bad, 1)], target.pid)
        assert [site for site, _ in refused] == [bad]
        target.do("c10")
        assert len(programs.read_calls()) == 10
    finally:
        programs.close()


def test_a_stripped_program_of_nvcc_is_named(tmp_path: Path) -> None:
    """The runtime in it has no names: that is said. With the runtime in a library it is not."""
    needs("bpf")
    nvcc = find_nvcc()
    if nvcc is None or shutil.which("strip") is None:
        pytest.skip("there is no nvcc or no strip")
    source = Path(__file__).with_name("kernels.cu")
    hidden = {}
    for linked in ("static", "shared"):
        program = tmp_path / linked
        subprocess.run([nvcc, "-cudart", linked, "-o", program, source], check=True)
        with open_elf(str(program)) as elf:
            assert not elf.hides_runtime()
        subprocess.run(["strip", program], check=True)
        with open_elf(str(program)) as elf:
            hidden[linked] = elf.hides_runtime()
    assert hidden == {"static": True, "shared": False}
    target = Target(tmp_path / "static")
    probe = record(tmp_path / "x", target)
    target.end()
    _, _, err = probe.wait()
    assert "static was stripped: the CUDA runtime in it has no names to probe" in err
    assert "none of the processes" not in err


@pytest.mark.timing
def test_a_program_in_another_mount_namespace(program: Path, tmp_path: Path) -> None:
    """As in a container: its libraries lie where nobody outside can go by their paths."""
    needs("bpf")
    inside = tmp_path / "inside"
    inside.mkdir()
    script = (
        f"mount -t tmpfs none {inside} && cp {program.parent}/lib* {program} {inside} &&"
        f" exec env LD_LIBRARY_PATH={inside} {inside}/program"
    )
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made")
    target = Target(*command)
    assert not list(inside.iterdir())
    probe = record(tmp_path / "x", target, "--no-report")
    target.do("a")
    target.do("c100")
    time.sleep(1.5)  # names are looked up while it runs: once it has ended, its mounts are gone
    target.end()
    code, _, err = probe.wait()
    assert code == 0, err
    run = open_recorded(tmp_path / "x.sightline")
    assert len(requests(run, "memcpy")) == 102
    names = [row["name"] for row in requests(run, "kernel")]
    assert names == ["saxpy(int, float, float*, float*)", "triton_add(float*)"]


def test_a_program_that_ends_while_it_is_probed(target: Target, tmp_path: Path) -> None:
    """Between its libraries were found and probes were placed: no function is to blame."""
    needs("bpf")
    programs = Programs()

    class Ending:
        """The backend, of a program that ends first."""

        def __getattr__(self, name: str) -> object:
            return getattr(programs, name)

        def attach(self, path: str, sites: list, pid: int) -> list:
            target.process.kill()
            target.process.wait(10)
            return programs.attach(path, sites, pid)

    session = Session(Ending(), lambda: [target.pid], None, Cost(0, 0))  # type: ignore[arg-type]
    session.look()
    assert not {why for why in session.refused.values() if "single-stepped" not in why}
    session.finish("the program ended")
    assert session.seen == 0


def test_a_stripped_program_has_nothing_to_probe(tmp_path: Path) -> None:
    needs("bpf")
    source = tmp_path / "empty.c"
    source.write_text(
        '#include <stdio.h>\nint main(void) { char l[9]; puts("1"); fflush(stdout);'
        " return fgets(l, 9, stdin) == 0; }\n"
    )
    compile_c(tmp_path / "empty", source, "-s")
    target = Target(tmp_path / "empty")
    probe = record(tmp_path / "x", target)
    target.end()
    code, _, err = probe.wait()
    assert code == 2
    assert "none of the processes has loaded a GPU library yet" in err
    assert "nothing was seen" in err
