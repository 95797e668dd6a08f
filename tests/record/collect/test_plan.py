"""What is chosen to record with, the vendors' command lines, the remedies for what is missing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from sightline.doors.cli.run import _say_plan
from sightline.errors import RequestError
from sightline.record.collect import conditions, plan
from sightline.record.collect.backends import ncu, nsys
from sightline.record.collect.remedies import list_missing, list_needs
from support import fake_nvml, fakes, recording
from support.command import sightline
from synth_ncu import Kernel, report
from synth_nsys import Export

MACHINE = {
    "gpus": [],
    "nvidia_driver": None,
    "nsys": None,
    "ncu": None,
    "rocprofv3": None,
    "unitrace": None,
    "amd_gpus": [],
    "intel_gpus": [],
    "amd_sampling": None,
    "perf": "6.1",
    "py_spy": "0.4.3",
    "lttng": None,
    "lttng_kernel": False,
    "torch": "2.13.0",
    "cupti": None,
    "cupti_injection": False,
    "counters_need_admin": None,
    "perf_event_problem": None,
    "perf_event_paranoid": 2,
    "ptrace_scope": 1,
}
WITH_GPU = {
    **MACHINE,
    "gpus": ["H100"],
    "nsys": "2026.2",
    "ncu": "2026.1",
    "counters_need_admin": False,
}


@pytest.mark.parametrize(
    ("machine", "command", "question", "expected"),
    [
        (MACHINE, ["python", "t.py"], None, ["torch", "cpu"]),
        (MACHINE, ["torchrun", "t.py"], None, ["torch"]),
        (MACHINE, ["./a.out"], None, ["cpu"]),
        (WITH_GPU, ["python", "t.py"], None, ["torch", "nvml"]),
        (WITH_GPU, ["./a.out"], None, ["nsys", "nvml"]),
        ({**WITH_GPU, "nsys": None}, ["./a.out"], None, ["cpu", "nvml"]),
        (WITH_GPU, ["python", "t.py"], "kernels", ["ncu", "nvml"]),
        (WITH_GPU, ["python", "t.py"], "memory", ["torch", "nvml"]),
        (WITH_GPU, ["./a.out"], "memory", ["nsys", "nvml"]),
        (WITH_GPU, ["./a.out"], "energy", ["nvml"]),
        (WITH_GPU, ["python", "t.py"], "stalls", ["ncu", "nvml"]),
        ({**WITH_GPU, "cupti_injection": True}, ["python", "t.py"], "stalls", ["cupti", "nvml"]),
        ({**WITH_GPU, "cupti_injection": True}, ["./a.out"], None, ["nsys", "nvml"]),
        (
            {**WITH_GPU, "cupti_injection": True, "nsys": None},
            ["./a.out"],
            None,
            ["cupti", "cpu", "nvml"],
        ),
    ],
)
def test_what_is_recorded_with(machine, command, question, expected):
    made = plan.make_plan(command, machine, question=question)
    assert made.backends == expected
    assert all(choice.why for choice in made.choices)


def test_allocations_are_recorded_with_the_lines_that_make_them():
    asked = plan.make_plan(["python", "t.py"], MACHINE, question="memory").torch
    assert (asked["memory"], asked["stacks"]) == (True, True)
    plain = plan.make_plan(["python", "t.py"], MACHINE).torch
    assert (plain["memory"], plain["stacks"]) == (False, False)


def test_only_one_tool_traces_a_gpu():
    made = plan.make_plan(["python", "t.py"], WITH_GPU, backends=["nsys"])
    assert (made.backends, made.torch) == (["nsys"], None)
    with pytest.raises(RequestError, match="torch cannot record here"):
        plan.make_plan(["python", "t.py"], WITH_GPU, backends=["nsys", "torch"])


@pytest.mark.parametrize(
    ("machine", "question", "text"),
    [
        (MACHINE, "kernels", "ncu is not on the PATH"),
        (MACHINE, "energy", "no NVIDIA GPU was found"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(machine, question, text):
    with pytest.raises(RequestError) as raised:
        plan.make_plan(["./a.out"], machine, question=question)
    assert text in str(raised.value)
    assert f"sightline doctor --for {question}" in str(raised.value)


def test_the_command_line_of_nsys():
    words = nsys.build_command(["./a.out", "-x"], Path("/r"), "n", {"capture": True, "mpi": True})
    text = " ".join(words)
    assert text.startswith("nsys profile --output /r/n --force-overwrite true --export sqlite")
    assert "--trace cuda,nvtx,osrt,cublas,cudnn,mpi" in text
    assert "--capture-range cudaProfilerApi --capture-range-end stop" in text
    assert "python-gil" not in text
    served = " ".join(nsys.build_command(["trtllm-serve"], Path("/r"), "n", {"server": True}))
    assert "--trace cuda,nvtx,osrt,cublas,cudnn,python-gil" in served
    assert "--trace-fork-before-exec true" in served
    assert "--cuda-graph-trace node" in text
    assert words[-2:] == ["./a.out", "-x"]


def test_the_command_line_of_ncu_changes_no_clock_unless_asked():
    base = ncu.build_command(["./a.out"], Path("/r"), "k", {})
    assert base[base.index("--clock-control") + 1] == "none"
    assert base[base.index("--launch-count") + 1] == "50"
    asked = ncu.build_command(
        ["./a.out"],
        Path("/r"),
        "k",
        {
            "lock_clocks": True,
            "kernel": "gemm",
            "launch_skip": 10,
            "launch_count": 3,
            "replay": "application",
            "set": "roofline",
            "graph": "graph",
            "capture": True,
        },
    )
    text = " ".join(asked)
    for part in (
        "--clock-control base",
        "--kernel-name regex:gemm",
        "--launch-skip 10",
        "--launch-count 3",
        "--replay-mode application",
        "--set roofline",
        "--graph-profiling graph",
        "--profile-from-start off",
    ):
        assert part in text


# -- remedies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("question", list_needs())
def test_on_a_bare_machine_each_remedy_has_a_command_and_a_document(question):
    bare = {**MACHINE, "perf": None, "py_spy": None, "torch": None, "ptrace_scope": 3}
    found = list_missing(question, bare, root=False)
    assert found
    for item in found:
        assert item.remedy
        assert item.document.startswith("https://")
        assert max(map(len, item.remedy)) <= 92


def test_counters_that_are_for_root_only():
    locked = {**WITH_GPU, "counters_need_admin": True}
    (item,) = list_missing("kernels", locked, root=False)
    assert "ERR_NVGPUCTRPERM" in item.document
    assert any("NVreg_RestrictProfilingToAdminUsers=0" in line for line in item.remedy)
    assert list_missing("kernels", locked, root=True) == []
    assert list_missing("kernels", WITH_GPU, root=False) == []


def test_one_of_two_ways_is_enough():
    assert list_missing("cpu", {**MACHINE, "perf": None}, root=False) == []
    strict = {**MACHINE, "perf_event_problem": "the level is 4", "ptrace_scope": 3}
    texts = [item.what for item in list_missing("cpu", strict, root=False)]
    assert len(texts) == 2
    assert "ptrace_scope is 3" in texts[0]
    assert "the level is 4" in texts[1]


def test_the_doctor_for_a_question():
    outcome = sightline("doctor", "--for", "nonsense")
    assert outcome.code == 2
    told = json.loads(sightline("doctor", "--for", "kernels", "--json").out)
    assert told["for"] == "kernels"


# -- conditions ---------------------------------------------------------------------------------


def test_only_known_settings_of_the_environment_are_kept():
    kept = conditions.read_environment({"CUDA_VISIBLE_DEVICES": "0", "AWS_SECRET_ACCESS_KEY": "x"})
    assert kept == {"CUDA_VISIBLE_DEVICES": "0"}


def test_what_was_fixed_is_said(tmp_path):
    base = tmp_path / "sys/devices/system/cpu"
    (base / "cpu0/cpufreq").mkdir(parents=True)
    (base / "cpu0/cpufreq/scaling_governor").write_text("performance\n")
    (base / "intel_pstate").mkdir()
    (base / "intel_pstate/no_turbo").write_text("1\n")
    gpu = {
        "name": "x",
        "persistence": True,
        "power_cap_w": 500.0,
        "power_cap_default_w": 700.0,
        "application_clock_mhz": 1410,
        "default_application_clock_mhz": 1980,
    }
    (note,) = conditions.list_notes(conditions.read_host(tmp_path), [gpu])
    assert "GPU 0: persistence on, power cap 500 W (default 700 W)" in note["text"]
    assert "application clock set to 1410 MHz" in note["text"]
    assert "governor performance, boost off" in note["text"]
    assert note["text"].startswith("sightline changed no clock and no limit")


# -- the vendors' tools, faked ------------------------------------------------------------------


@pytest.fixture
def gpu_machine(tmp_path, nvml_library):
    """A PATH with nvidia-smi, nsys and ncu on it, and an NVML with two GPUs."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fakes.program(tools, "nvidia-smi", fakes.SMI)
    fakes.nsys(tools)
    fakes.ncu(tools)
    gpus = [fake_nvml.make_h200(0), fake_nvml.make_h200(1)]
    gpus[1].values["EnforcedPowerLimit"] = 500_000
    variables = fake_nvml.list_variables(fake_nvml.Scenario(gpus), nvml_library, tmp_path)
    libraries = os.pathsep.join((str(tools), variables.pop("LD_LIBRARY_PATH")))
    fakes.library(tools, "libnvToolsExt.so.1", fakes.NVTX)
    return recording.clean(
        PATH=f"{tools}{os.pathsep}{os.environ['PATH']}",
        LD_LIBRARY_PATH=libraries,
        **variables,
        CALLS=str(tmp_path / "calls"),
    )


def nsys_export(folder: Path) -> Path:
    export = Export()
    export.api("cudaLaunchKernel", 1_000, 2_000, 1)
    export.kernel("sgemm", 2_500, 9_000, 1)
    path = folder / "export.sqlite"
    export.write(path)
    return path


def ncu_report(folder: Path) -> Path:
    path = folder / "kernels.ncu-rep"
    path.write_bytes(report([Kernel("sgemm")]))
    return path


def called(env: dict[str, str]) -> list[str]:
    (line,) = (t for t in Path(env["CALLS"]).read_text().splitlines() if t.startswith("["))
    words: list[str] = json.loads(line)
    return words


MARKED = """
import sys, time, sightline as sl
with sl.annotate("work"):
    time.sleep(0.2)
sl.step()
sys.exit(9)
"""


def test_a_run_with_nsys_and_nvml(tmp_path, gpu_machine):
    gpu_machine |= {"LAST_OPTION": "--wait", "RECORDING": str(nsys_export(tmp_path))}
    done = recording.run(
        "--backend",
        "nsys,nvml",
        "-o",
        "r",
        "--",
        sys.executable,
        "-c",
        MARKED,
        cwd=tmp_path,
        env=gpu_machine,
    )
    assert done.returncode == 9, done.stderr
    words = called(gpu_machine)
    assert words[:2] == ["nsys", "profile"]
    assert words[-3:] == [sys.executable, "-c", MARKED]
    assert "push work" in Path(gpu_machine["CALLS"]).read_text()
    run = sl.open(str(tmp_path / "r.sightline"))
    assert run.rows("device_ops") > 0
    power = run.table("counters").filter(metric="power")
    assert sorted(power.get_column("device_id").unique()) == [0, 1]
    texts = run.table("quality").filter(kind="repeatability").get_column("text").item()
    assert "GPU 1: persistence on, power cap 500 W (default 700 W)" in texts
    assert "whether clocks are locked: NVML does not say" in texts
    assert "GPU       smi     SM" in done.stderr
    facts = json.loads(next((tmp_path / "r.sightline").glob("*.recorded.json")).read_text())
    assert facts["gpu_summary"][0]["energy_j"] > 0
    # The range went to nsys, whose report counts; without the report it is there all the same.
    names = ["ProfilerStep#0"]
    own = run.table("host_ops").filter(pl.col("layer").is_in(["annotation", "step"]))
    assert own.get_column("name").to_list() == names
    next((tmp_path / "r.sightline").glob("*.sqlite")).unlink()
    again = sl.open(str(tmp_path / "r.sightline")).table("host_ops")
    assert sorted(again.get_column("name")) == [*names, "work"]


def test_a_run_with_ncu(tmp_path, gpu_machine):
    gpu_machine |= {"LAST_OPTION": "--launch-count", "RECORDING": str(ncu_report(tmp_path))}
    done = recording.run(
        "--for",
        "kernels",
        "--kernel",
        "sgemm",
        "-o",
        "k",
        "--",
        "sh",
        "-c",
        "exit 4",
        cwd=tmp_path,
        env=gpu_machine,
    )
    assert done.returncode == 4, done.stderr
    words = called(gpu_machine)
    assert words[0] == "ncu"
    assert words[words.index("--kernel-name") + 1] == "regex:sgemm"
    assert words[words.index("--clock-control") + 1] == "none"
    assert sl.open(str(tmp_path / "k.sightline")).rows("profiled_kernels") > 0


@pytest.mark.parametrize(("question", "is_told"), [("memory", True), ("timeline", False)])
def test_what_stacks_cost_is_said_before_the_program_starts(capsys, tmp_path, question, is_told):
    made = plan.make_plan(["python", "t.py"], MACHINE, question=question)
    _say_plan(made, tmp_path / "t.sightline")
    assert ("--seconds 5 bounds both" in capsys.readouterr().err) is is_told
