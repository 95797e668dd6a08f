"""AMD's and Intel's tools driven by `sightline run`: their command lines, and runs around fakes.

The fakes take the words that the tools' documentation has, refuse others, and leave what the tools
would: rocprofv3's rocpd and JSON by the second implementation of their schemas (synth_rocm), and
unitrace's CSV as its README shows it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import sightline as sl
from record.collect.test_plan import MACHINE
from sightline.errors import RequestError
from sightline.record.collect import commands, plan
from sightline.record.collect.machine import examine_machine, list_recordable
from sightline.record.collect.remedies import list_missing
from support import fakes, recording
from support.pages import ROOT

NONE = {**MACHINE, "cupti": None, "cupti_injection": False}
AMD = {**NONE, "gpus": ["card0,MI300X"], "amd_gpus": ["card0,MI300X"], "rocprofv3": "1.0.0",
       "amd_sampling": "stochastic"}  # fmt: skip
INTEL = {**NONE, "intel_gpus": ["card1 (driver xe)"], "unitrace": "2.3.0"}
FOLDER = Path("/runs/r.sightline")


@pytest.mark.parametrize(
    ("machine", "command", "question", "expected"),
    [
        (AMD, ["./a.out"], None, ["rocprofv3", "cpu"]),
        (AMD, ["./a.out"], "stalls", ["rocprofv3"]),
        (AMD, ["python", "t.py"], None, ["torch"]),
        (INTEL, ["./a.out"], None, ["unitrace", "cpu"]),
        (INTEL, ["./a.out"], "stalls", ["unitrace"]),
    ],
)
def test_the_vendors_tool_is_taken(machine, command, question, expected):
    made = plan.make_plan(command, machine, question=question)
    assert [b for b in made.backends if b != "nvml"] == expected


def words_of(machine, question="stalls", **options):
    made = plan.make_plan(["./a.out"], machine, question=question, options=options)
    return commands.wrap_command(["./a.out"], made.backends, FOLDER, "host-1", made.options)


AMD_STALLS = (
    "rocprofv3 --output-directory /runs/r.sightline --output-file host-1.rocprofv3.%pid% "
    "--kernel-trace --pc-sampling-beta-enabled --pc-sampling-method stochastic "
    "--pc-sampling-unit cycles --pc-sampling-interval 1048576 --output-format json -- ./a.out"
)
AMD_TIMELINE = (
    "--runtime-trace --output-format rocpd --collection-period 1500:2000:1 "
    "--collection-period-unit msec -- ./a.out"
)
INTEL_STALLS = (
    "unitrace --output-dir-path /runs/r.sightline --stall-sampling --output host-1.unitrace.csv "
    "./a.out"
)


def test_stalls_of_amd_as_its_documentation_has_them():
    # ROCprofiler-SDK, "Using PC sampling".
    assert words_of(AMD) == AMD_STALLS.split()
    assert "65536" in words_of(AMD, period=16)
    older = words_of({**AMD, "amd_sampling": "host_trap"})
    method, unit = (older[older.index(f"--pc-sampling-{w}") + 1] for w in ("method", "unit"))
    assert (method, unit) == ("host_trap", "time")


def test_a_timeline_of_amd_in_its_own_format_and_time():
    words = words_of(AMD, None, after_s=1.5, seconds=2.0)
    assert words[5:] == AMD_TIMELINE.split()


def test_intel_as_its_readme_has_it():
    assert words_of(INTEL) == INTEL_STALLS.split()
    logging = ["--chrome-kernel-logging", "--chrome-call-logging"]
    assert words_of(INTEL, None)[3:] == [*logging, "./a.out"]
    assert words_of(INTEL, None, no_calls=True)[3:] == [*logging[:1], "./a.out"]


@pytest.mark.parametrize("machine", [{**AMD, "amd_sampling": "host_trap"}, INTEL])
def test_a_period_in_cycles_needs_a_sampler_that_counts_them(machine):
    with pytest.raises(RequestError, match="stalls cannot be recorded here") as raised:
        plan.make_plan(["./a.out"], machine, question="stalls", options={"period": 16})
    assert "counts cycles" in str(raised.value)


def test_what_cannot_sample_is_said():
    with pytest.raises(RequestError, match="stalls cannot be recorded here") as raised:
        plan.make_plan(["./a.out"], {**AMD, "amd_sampling": None}, question="stalls")
    assert "MI200 and later" in str(raised.value)
    missing = list_missing("rocprofv3", {**AMD, "rocprofv3": None})
    assert any("rocprofv3 is not on the PATH" in m.what for m in missing)


def test_the_machine_says_which_gpus_and_how_they_are_sampled(tmp_path):
    card = tmp_path / "sys/class/drm/card1/device"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x8086\n")
    (tmp_path / "drivers/xe").mkdir(parents=True)
    (card / "driver").symlink_to(tmp_path / "drivers/xe")
    answers = {
        "rocm-smi": "device,Card Series\ncard0,AMD Instinct MI300X\n",
        "rocprofv3": "version: 1.0.0\nMethod: ROCPROFILER_PC_SAMPLING_METHOD_HOST_TRAP\n"
        "Method: ROCPROFILER_PC_SAMPLING_METHOD_STOCHASTIC\n",
    }
    nvml = {"gpus": [], "driver": None, "version": None, "problem": "none", "unreachable": []}
    facts = examine_machine(lambda words: answers.get(words[0]), tmp_path, lambda: nvml)
    assert facts["amd_gpus"] == ["card0,AMD Instinct MI300X"]
    assert facts["amd_sampling"] == "stochastic"
    assert facts["intel_gpus"] == ["card1 (driver xe)"]
    ways = {way.what: way.possible for way in list_recordable(facts)}
    assert ways["ROCm timeline (rocprofv3)"]
    assert not ways["Intel GPU timeline (unitrace)"]  # a GPU, but no tool


# -- runs around fakes ----------------------------------------------------------------------------

ROCPROFV3 = """\
import os, subprocess, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
words = sys.argv[1:]
if words == ["--version"]:
    print("    version: 1.0.0"); sys.exit(0)
if words == ["--list-avail"]:
    print("Method: ROCPROFILER_PC_SAMPLING_METHOD_STOCHASTIC"); sys.exit(0)
own, command = words[:words.index("--")], words[words.index("--") + 1:]
process = subprocess.Popen(command)
code = process.wait()
folder = Path(own[own.index("--output-directory") + 1])
name = own[own.index("--output-file") + 1].replace("%pid%", str(process.pid))
import synth_rocm
if own[own.index("--output-format") + 1] == "rocpd":
    synth_rocm.write_rocpd(folder / f"{{name}}_results.db")
else:
    assert "--pc-sampling-beta-enabled" in own and "--kernel-trace" in own
    synth_rocm.write_json(folder / f"{{name}}_results.json")
sys.exit(code)
"""
STALLS = """\
 === Device #0 Stall Sampling ===
Kernel, IP[Address], Active[Events], ControlStall[Events], SendStall[Events], SbidStall[Events]
"gemm", 0x00000010, 12, 0, 5, 30
"gemm", 0x00000020, 3, 1, 0, 2
"""
UNITRACE = """\
import subprocess, sys
from pathlib import Path
words = sys.argv[1:]
if words == ["--version"]:
    print("2.3.0 (abc)"); sys.exit(0)
folder = Path(words[words.index("--output-dir-path") + 1])
assert "--stall-sampling" in words
name = words[words.index("--output") + 1]
code = subprocess.call(words[words.index(name) + 1:])
stem = Path(name).stem
(folder / f"{{stem}}.metrics.7.csv").write_text({stalls!r})
sys.exit(code)
"""
ROCM_SMI = "#!/bin/sh\necho 'device,Card Series'\necho 'card0,AMD Instinct MI300X'\n"


@pytest.fixture
def machine(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    known = {"tests": str(ROOT / "tests"), "stalls": STALLS}
    fakes.python_program(tools, "rocprofv3", ROCPROFV3.format(**known))
    fakes.python_program(tools, "unitrace", UNITRACE.format(**known))
    fakes.program(tools, "rocm-smi", ROCM_SMI)
    return recording.clean(PATH=f"{tools}{os.pathsep}{os.environ['PATH']}")


def test_a_timeline_of_amd_is_recorded_and_read(tmp_path, machine):
    done = recording.run("--backend", "rocprofv3", "-o", "r", "--", "sh", "-c", "exit 4",
                         cwd=tmp_path, env=machine)  # fmt: skip
    assert done.returncode == 4, done.stderr
    run = sl.open(str(tmp_path / "r.sightline"))
    names = run.table("device_ops").get_column("name").to_list()
    assert "gemm(float*)" in names
    assert "rocprofv3" in done.stderr


def test_stalls_of_amd_are_asked_for_as_of_nvidia(tmp_path, machine):
    done = recording.run("--for", "stalls", "-o", "r", "--", "sh", "-c", "exit 0",
                         cwd=tmp_path, env=machine)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "where waves stall, by PC sampling, which AMD calls beta" in done.stderr
    facts = json.loads(next((tmp_path / "r.sightline").glob("*.recorded.json")).read_text())
    assert facts["backends"] == ["rocprofv3"]
    assert sl.open(str(tmp_path / "r.sightline")).rows("device_ops") > 0


def test_stalls_of_intel_are_recorded_and_read(tmp_path, machine):
    done = recording.run("--backend", "unitrace", "--for", "stalls", "-o", "r", "--",
                         "sh", "-c", "exit 0", cwd=tmp_path, env=machine)  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = sl.open(str(tmp_path / "r.sightline"))
    weights = run.table("stack_weights")
    # 12 + 5 + 30 and 3 + 1 + 2 samples, as the file has them.
    assert weights.get_column("value").sum() == 53


def test_iaprof_records_beside_the_program(tmp_path):
    """Its stream is written while the program runs, and ends with an interrupt."""
    lines = ["string 1 sh", "kernel 0x1 1 7 1 1 1", "eustall 0x10 1 5 0 0 0 0 2 0 0 0 0"]
    text = "".join(line.replace(" ", "\\t") + "\\n" for line in lines)
    fakes.program(
        tmp_path,
        "iaprof",
        f"#!/bin/sh\ntrap 'exit 0' INT\nprintf '{text}'\nwhile :; do sleep 0.05; done\n",
    )
    env = recording.clean(PATH=f"{tmp_path}:{os.environ['PATH']}")
    words = ["--backend", "iaprof", "--no-report", "-o", "r", "--", "sh", "-c", "sleep 0.3; exit 3"]
    done = recording.run(*words, cwd=tmp_path, env=env)
    if os.geteuid() != 0:
        assert "iaprof needs root" in done.stderr
        return
    assert done.returncode == 3, done.stderr
    (stream,) = (tmp_path / "r.sightline").glob("*.iaprof")
    assert stream.read_bytes().startswith(b"string\t1\tsh\n")
