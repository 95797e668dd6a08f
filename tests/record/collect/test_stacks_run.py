"""`sightline run` with sightline's own samples of CPU stacks."""

from __future__ import annotations

import ctypes
import os
import re
import time
from pathlib import Path

import pytest

import sightline as sl
from record.sampling.programs import build_known, needs_sampling
from sightline.errors import RequestError
from sightline.record.collect import finishing, plan
from sightline.record.collect.machine import list_recordable
from sightline.record.probe import perf_event
from sightline.record.sampling import events
from support import recording
from support.command import sightline

pytestmark = pytest.mark.xdist_group("sampling")

MACHINE = {
    "gpus": [], "amd_gpus": [], "intel_gpus": [], "nsys": None, "ncu": None, "rocprofv3": None,
    "unitrace": None, "amd_sampling": None, "perf": None, "py_spy": None, "lttng": None,
    "lttng_kernel": False, "torch": None, "cupti": None, "cupti_injection": False,
    "counters_need_admin": None, "perf_event_problem": None, "perf_event_paranoid": 2,
    "ptrace_scope": 0, "nvidia_driver": None, "nvml": None, "nvml_problem": "no library",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "changed", "options", "tool"),
    [
        (["./a.out"], {}, {}, "perf_event"),
        (["./a.out"], {"perf": "6.1"}, {}, "perf_event"),
        (["./a.out"], {"perf": "6.1"}, {"cpu_stacks": "perf"}, "perf"),
        (["./a.out"], {"perf": "6.1", "perf_event_problem": "no"}, {}, "perf"),
        (["python", "t.py"], {}, {}, "perf_event"),
        (["python", "t.py"], {"py_spy": "0.4"}, {}, "py-spy"),
        (["python", "t.py"], {"py_spy": "0.4"}, {"cpu_stacks": "perf_event"}, "perf_event"),
    ],
)
def test_which_tool_samples(command, changed, options, tool):
    made = plan.make_plan(command, {**MACHINE, **changed}, options=options)
    assert made.cpu_tool == tool
    assert "cpu" in made.backends


def test_stacks_come_beside_what_a_question_needs():
    """`--cpu-stacks` asks for them whatever else is recorded."""
    facts = {**MACHINE, "gpus": ["H100"], "cupti_injection": True, "counters_need_admin": False}
    options = {"cpu_stacks": "perf_event"}
    made = plan.make_plan(["./a.out"], facts, question="stalls", options=options)
    assert made.backends == ["cupti", "cpu", "nvml"]


def test_what_is_missing_is_said():
    facts = {**MACHINE, "perf_event_problem": "the level is 4"}
    with pytest.raises(RequestError, match="cpu cannot record here") as raised:
        plan.make_plan(["./a.out"], facts, backends=["cpu"])
    assert raised.value.why == ("stacks cannot be sampled: the level is 4; perf is not installed")
    (way,) = [w for w in list_recordable(facts) if "sightline's own" in w.what]
    assert (way.possible, way.why) == (False, "the level is 4")


@pytest.mark.parametrize(
    ("code", "words"),
    [("EACCES", "perf_event_paranoid"), ("EMFILE", "file descriptor"), ("ENOSYS", "not impl")],
)
def test_refusals_of_the_kernel_are_explained(code, words):
    import errno

    number = getattr(errno, code)
    refusal = events.explain_refusal(OSError(number, os.strerror(number)))
    assert words in refusal.why


def test_why_nothing_can_be_sampled_is_found_by_trying(monkeypatch):
    """As in a container whose seccomp profile forbids the call, or with too few open files."""

    class Refusing:
        code = 13

        def syscall(self, *_: object) -> int:
            ctypes.set_errno(self.code)
            return -1

    monkeypatch.setattr(perf_event, "find_library", Refusing)
    why = events.find_obstacle()
    assert "perf_event_paranoid is" in why and "seccomp" in why
    monkeypatch.setattr(Refusing, "code", 24)
    assert "file descriptor" in events.find_obstacle()


@pytest.mark.parametrize(
    "option", [("--cpu-stacks", "gdb"), ("--cpu-rate", "0"), ("--cpu-stack-bytes", "100000")]
)
def test_options_that_cannot_be(option, tmp_path):
    done = sightline("run", *option, "-o", tmp_path / "r", "--", "true")
    assert done.code == 2
    assert f"{option[0]} {option[1]} is not a valid value" in done.err


@pytest.mark.timing
def test_a_program_is_recorded_and_its_functions_are_named(tmp_path):
    needs_sampling()
    known = build_known(tmp_path)
    began = time.time_ns()
    done = recording.run(
        "--backend", "cpu", "--cpu-stacks", "perf_event", "--cpu-rate", "997", "-o", "r",
        "--", str(known), "shares", "0.3", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"^sixty +\d", done.stderr, re.MULTILINE)
    folder = tmp_path / "r.sightline"
    assert [p.name.endswith(".cpu.stacks") for p in folder.glob("host-*")] == [True]
    drawn = sightline("flame", folder, "-o", tmp_path / "f.folded")
    assert drawn.code == 0, drawn.err
    assert "main;run_shares;one_round;sixty" in (tmp_path / "f.folded").read_text()
    # On the run's clock, which is the wall clock.
    times = sl.open(str(folder)).scan("cpu_samples").select("time_ns").collect().to_series()
    assert began <= times.min() <= times.max() <= time.time_ns()


def test_python_is_told_to_name_its_functions_and_leaves_nothing_behind(tmp_path):
    """The variable is set, and maps that Python wrote because of it are removed."""
    needs_sampling()
    script = tmp_path / "t.py"
    script.write_text(
        "import os, time\n"
        "open(f'/tmp/perf-{os.getpid()}.map', 'a').close()\n"
        "open('said', 'w').write(f\"{os.environ.get('PYTHONPERFSUPPORT')} {os.getpid()}\")\n"
        "end = time.process_time() + 0.2\n"
        "while time.process_time() < end: pass\n"
    )
    words = ["--backend", "cpu", "--cpu-stacks", "perf_event", "--no-report", "-o", "r", "--"]
    done = recording.run(*words, "python3", "t.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    value, pid = (tmp_path / "said").read_text().split()
    assert value == "1"
    assert not Path(f"/tmp/perf-{pid}.map").exists()


def test_only_own_files_are_removed(tmp_path):
    (tmp_path / "kept").write_text("")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "kept")
    finishing.remove_maps([link, tmp_path / "missing", tmp_path])
    assert link.is_symlink() and (tmp_path / "kept").exists()
    finishing.remove_maps([tmp_path / "kept"])
    assert not (tmp_path / "kept").exists()
