"""Programs that already run: told to record through Kineto's door, or by rocprofv3."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import sightline as sl
from sightline.core.foreign_files import find_owner
from sightline.errors import InputError, RequestError
from sightline.record.collect import attach, kineto_door
from sightline.record.collect.attach import explain_refusal
from sightline.record.collect.kineto_door import Door, Order
from sightline.record.probe.processes import Root
from support import fakes
from support.asking import Program, place_sockets
from support.command import sightline
from support.places import ROOT

pytestmark = pytest.mark.timing

Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Programs that ask for orders; they ask more often than Kineto, so that nothing waits."""
    monkeypatch.setattr(kineto_door, "POLL_S", 0.5)
    monkeypatch.setattr(kineto_door, "LATE_S", 0.5)
    monkeypatch.setattr(kineto_door, "QUIET_S", 0.2)
    running: list[Program] = []
    with place_sockets() as sockets:

        def run(**told: object) -> Program:
            running.append(Program(sockets, tmp_path, **told))
            return running[-1]

        yield run
        for program in running:
            with suppress(ProcessLookupError):  # it may have ended, with all that it forked
                os.killpg(program.pid, signal.SIGKILL)
            program.process.wait()
            assert program.process.stdout is not None
            program.process.stdout.close()


def client_of(program: Program) -> kineto_door.Client:
    found = kineto_door.find_client(program.pid)
    assert found is not None
    return found


def record(tmp_path: Path, *programs: Program, **options: object) -> attach.Outcome:
    folder = tmp_path / "a.sightline"
    folder.mkdir()
    openings = attach.list_openings([p.pid for p in programs])
    return attach.record_processes(
        openings, folder, 0.1, ("shapes",), lambda text: None, warm_up_s=0, **options
    )


def test_a_program_is_told_and_its_trace_taken(start: Start, tmp_path: Path) -> None:
    program = start(rank=3)
    outcome = record(tmp_path, program)
    assert outcome.problems == []
    (path,) = outcome.files
    assert path.name.startswith("rank3-")
    assert "node17" not in path.read_text()  # nor does a trace of sightline's say the host's name
    orders = program.read_orders()
    assert orders["PROFILE_REPORT_INPUT_SHAPES"] == "true"
    assert orders["PROFILE_WITH_STACK"] == "false"
    assert orders["ACTIVITIES_DURATION_MSECS"] == "100"
    left = [p.name for p in tmp_path.iterdir()]
    assert left == ["a.sightline"]  # nothing is left where the program wrote
    run = sl.open(str(path.parent))
    assert run.table("host_ops").get_column("name").to_list() == ["aten::mm"]
    facts = json.loads(next(path.parent.glob("*.recorded.json")).read_text())
    assert facts["backends"] == ["torch"]


def test_several_begin_at_the_same_moment(start: Start, tmp_path: Path) -> None:
    programs = [start(rank=rank) for rank in range(3)]
    outcome = record(tmp_path, *programs)
    assert [p.name.split("-")[0] for p in outcome.files] == ["rank0", "rank1", "rank2"]
    begins = {program.read_orders()["PROFILE_START_TIME"] for program in programs}
    assert len(begins) == 1
    assert abs(int(begins.pop()) / 1000 - time.time()) < 60


def test_a_busy_profiler_is_not_told(start: Start) -> None:
    """While a trace is being written it asks for events only."""
    program = start(busy=3)
    told, _ = kineto_door.tell_clients([client_of(program)], Order("x", 0.1, 0))
    assert [client.pid for client in told] == [program.pid]
    assert program.read_orders()["asked"] == 1


def test_who_was_not_chosen_is_told_nothing(start: Start) -> None:
    other, program = start(), start(busy=3)
    told, _ = kineto_door.tell_clients([client_of(program)], Order("x", 0.1, 0))
    assert [client.pid for client in told] == [program.pid]
    os.kill(other.pid, signal.SIGSTOP)
    program.read_orders()
    os.set_blocking(other.process.stdout.fileno(), False)
    assert not other.process.stdout.readline()


def test_messages_that_make_no_sense(start: Start) -> None:
    program = start(noise=["00", "ff" * 40, "04" + "00" * 7 + "63747874" + "00" * 32, "ab" * 9000])
    told, _ = kineto_door.tell_clients([client_of(program)], Order("x", 0.1, 0))
    assert len(told) == 1


def test_who_does_not_ask_is_not_waited_for_forever(start: Start) -> None:
    program = start()
    os.kill(program.pid, signal.SIGSTOP)
    told, _ = kineto_door.tell_clients([client_of(program)], Order("x", 0.1, 0), most_s=0.3)
    assert told == []


def test_the_late_one_is_left_out(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks when the others have warmed up would record another time."""
    monkeypatch.setattr(kineto_door, "POLL_S", -0.1)
    monkeypatch.setattr(kineto_door, "LATE_S", 0.0)
    programs = [start(), start()]
    clients = [client_of(program) for program in programs]
    told, _ = kineto_door.tell_clients(clients, Order("x", 0.1, 1.0), most_s=5)
    assert told == []


def test_a_second_daemon_is_named(start: Start) -> None:
    client = client_of(start())
    another = Door(client.address, client.owner)
    with another, pytest.raises(RequestError, match="another daemon") as caught:
        kineto_door.tell_clients([client], Order("x", 0.1, 0))
    assert "dyno gputrace" in str(caught.value.hint)
    assert not Path(client.address).exists()  # the socket's file is gone with the door


@pytest.mark.parametrize(
    ("told", "expected"),
    [({"dies": True}, "ended before it wrote"), ({"link": True}, "wrote no trace")],
)
def test_no_trace(start: Start, tmp_path: Path, told: dict[str, bool], expected: str) -> None:
    """A link that the program put there could lead to somebody else's file."""
    program = start(**told)
    client, root = client_of(program), Root(program.pid)
    kineto_door.tell_clients([client], Order("x", 0.1, 0))
    with pytest.raises(InputError, match=expected):
        kineto_door.take_trace(client, root, "x", tmp_path / "t.json", most_s=2)
    assert not (tmp_path / "t.json").exists()


def test_a_trace_of_holes_is_not_copied(tmp_path: Path) -> None:
    """It takes no room where it is, and would fill the disk that it is copied to."""
    trace = tmp_path / "sparse.json"
    with trace.open("wb") as file:
        file.truncate(3 << 30)
        file.seek(-1, os.SEEK_END)
        file.write(b"}")
    with pytest.raises(InputError, match="not a profiler's"):
        kineto_door._check_length(trace.stat(), tmp_path)
    whole = tmp_path / "whole.json"
    whole.write_bytes(b"[" + b"1," * (1 << 20) + b"2]")
    kineto_door._check_length(whole.stat(), tmp_path)


def test_a_folder_that_vanishes_is_an_error_of_the_input(start: Start, tmp_path: Path) -> None:
    program = start()
    gone = tmp_path / "removed"
    openings = attach.list_openings([program.pid])
    with pytest.raises(InputError, match="folder is gone") as caught:
        attach.record_processes(openings, gone, 0.1, (), lambda _: None, warm_up_s=0)
    assert "No such file" in str(caught.value.why)


def test_the_trace_of_a_program_that_ended(start: Start, tmp_path: Path) -> None:
    program = start(ends=True)
    client, root = client_of(program), Root(program.pid)
    kineto_door.tell_clients([client], Order("x", 0.1, 0))
    program.process.wait()
    kineto_door.take_trace(client, root, "x", tmp_path / "t.json", most_s=10)
    assert json.loads((tmp_path / "t.json").read_text())["schemaVersion"] == 1


def test_what_was_forked_is_not_asked(start: Start) -> None:
    """A DataLoader's worker holds the same socket, and nobody serves it there."""
    program = start(forks=True)
    openings = attach.list_openings([program.pid])
    assert [(o.pid, o.backend) for o in openings] == [(program.pid, "torch")]


def test_a_program_with_no_door(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        done = sightline("attach", str(process.pid), "-o", str(tmp_path / "a"))
        assert done.code == 2
        assert "it uses neither PyTorch's profiler nor ROCm" in " ".join(done.err.split())
        assert f"sightline probe --pid {process.pid}" in done.err
        assert not (tmp_path / "a.sightline").exists()
    finally:
        process.kill()
        process.wait()


def test_the_list_of_programs(start: Start, hip: subprocess.Popen[str]) -> None:
    program = start()
    done = sightline("attach")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert [str(program.pid), "torch"] in [line[:2] for line in lines]
    at = next(at for at, line in enumerate(lines) if line[0] == str(hip.pid))
    assert lines[at][1] == "no"
    assert " ".join(lines[at + 1]) == "rocprofv3 is not on the PATH"


def test_a_process_that_is_not_there() -> None:
    done = sightline("attach", "4194305")
    assert done.code == 2
    assert "there is no process 4194305" in done.err


def test_a_length_that_memory_would_not_hold() -> None:
    done = sightline("attach", str(os.getpid()), "--for", "10min")
    assert done.code == 2
    assert "100ms to 60s" in done.err


ROCPROFV3 = """\
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
import synth_rocm
own = sys.argv[1:]
assert "--" not in own and own[own.index("--attach") + 1].isdigit()
time.sleep(int(own[own.index("--attach-duration-msec") + 1]) / 1000)
assert own[own.index("--output-format") + 1] == "rocpd"
name = own[own.index("--output-file") + 1]
if {works}:
    synth_rocm.write_rocpd(Path(own[own.index("--output-directory") + 1]) / f"{{name}}_results.db")
else:
    print("Failed to attach: Operation not permitted"); sys.exit(1)
"""


@pytest.fixture
def hip(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that has HIP in its memory and can be attached to."""
    library = fakes.library(tmp_path, "libamdhip64.so.6", "int hipInit(void) { return 0; }")
    code = (
        f"import ctypes, time; ctypes.CDLL({str(library)!r}); print(1, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "ROCP_TOOL_ATTACH": "1"},
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("works", [True, False])
def test_rocprofv3_attaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hip: subprocess.Popen[str], *, works: bool
) -> None:
    """Command line: ROCprofiler-SDK, "Dynamic process attachment using rocprofv3"."""
    tools = tmp_path / "tools"
    tools.mkdir()
    known = {"tests": str(ROOT / "tests"), "works": works}
    fakes.python_program(tools, "rocprofv3", ROCPROFV3.format(**known))
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    out = str(tmp_path / "a")
    done = sightline("attach", str(hip.pid), "--for", "100ms", "-o", out)
    if not works:
        assert done.code == 2
        assert "Failed to attach: Operation not permitted" in " ".join(done.err.split())
        return
    assert done.code == 0, done.err
    run = sl.open(out + ".sightline")
    assert "gemm(float*)" in run.table("device_ops").get_column("name").to_list()


def test_rocprofv3_attaches_though_nobody_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hip: subprocess.Popen[str]
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    known = {"tests": str(ROOT / "tests"), "works": True}
    fakes.python_program(tools, "rocprofv3", ROCPROFV3.format(**known))
    words = ["attach", str(hip.pid), "--for", "100ms", "-o", str(tmp_path / "a"), "--no-report"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>/dev/full', "sh", sys.executable, "-m", "sightline", *words],
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 0
    (log,) = (tmp_path / "a.sightline").glob("sightline-*.log")
    assert "rocprofv3 is recording for 0.1 s" in log.read_text()


def test_rocm_that_was_not_started_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hip: subprocess.Popen[str]
) -> None:
    monkeypatch.setattr(attach, "find_program", lambda name: None)
    (opening,) = attach.list_openings([hip.pid])
    assert (opening.backend, opening.why) == (None, "rocprofv3 is not on the PATH")
    monkeypatch.setattr(attach, "find_program", lambda name: name)
    monkeypatch.setattr(attach, "read_environment", lambda pid: {})
    (opening,) = attach.list_openings([hip.pid])
    assert opening.why == "ROCm was not started with ROCP_TOOL_ATTACH=1"


LOOP = """\
import os, time, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("ready", flush=True)
while True:
    optimizer.zero_grad(); model(torch.randn(16, 64)).sum().backward(); optimizer.step()
    time.sleep(0.005)
"""


@pytest.mark.xdist_group("kineto")
def test_pytorch_itself(tmp_path: Path) -> None:
    """The real profiler, at the door's real address: a network's namespace has one."""
    pytest.importorskip("torch")
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "KINETO_USE_DAEMON": "1", "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        openings = attach.list_openings([process.pid])
        assert [o.backend for o in openings] == ["torch"]
        outcome = attach.record_processes(
            openings, tmp_path, 0.5, ("shapes", "stacks"), lambda text: None, warm_up_s=1
        )
        assert outcome.problems == []
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    run = sl.open(str(tmp_path))
    names = run.table("host_ops").get_column("name")
    # Two layers: two products forward, three backward, as the first needs no gradient of its input.
    forward, backward = (names == "aten::addmm").sum(), (names == "aten::mm").sum()
    assert forward > 6
    assert abs(forward / 2 - backward / 3) <= 1
    assert "Optimizer.step#SGD.step" in names.unique().to_list()


def test_the_socket_of_a_daemon_that_was_killed_is_taken_over(tmp_path):
    address = str(tmp_path / "dynolog")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
        killed.bind(address)
        with pytest.raises(RequestError, match="another daemon"):
            Door(address, find_owner(os.getpid()))
    door = Door(address, find_owner(os.getpid()))  # its file is still there
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", address)
    with pytest.raises(RequestError, match="another daemon"):
        Door(address, find_owner(os.getpid()))
    door.__exit__(None, None, None)
    Path(address).write_text("no socket")
    with pytest.raises(RequestError, match="another daemon"):
        Door(address, find_owner(os.getpid()))
    assert Path(address).read_text() == "no socket"


def test_root_is_not_told_to_run_as_root() -> None:
    assert explain_refusal("it", is_root=False) == "it belongs to another user: run as root"
    refused = explain_refusal("it", is_root=True)
    assert "CAP_SYS_PTRACE" in refused and "run as root" not in refused
