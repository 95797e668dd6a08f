"""Records programs that already run, through the profilers that can be switched on in them.

PyTorch's, where a program asks for orders (kineto_door); JAX's, where it serves its profiler
(jax_door); and AMD's, which attaches to programs that were started with ROCP_TOOL_ATTACH=1. CUPTI
itself cannot be loaded into a running program in a way that NVIDIA describes; which GPU calls it
makes, the kernel shows (sightline probe).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from sightline.core.model import run_folder
from sightline.core.model.stack_file import SUFFIX as STACKS
from sightline.core.redaction import redact_text, show_command
from sightline.errors import InputError, SightlineError
from sightline.record.collect import conditions, finishing, jax_door
from sightline.record.collect.backends import rocprofv3
from sightline.record.collect.kineto_door import (
    WARM_UP_S,
    Client,
    Order,
    find_client,
    find_obstacle,
    take_trace,
    tell_clients,
)
from sightline.record.collect.look import find_program
from sightline.record.collect.watchers import Gpus
from sightline.record.inline.rank import find_identity, make_host_mark
from sightline.record.inline.torch_profiler import without_names
from sightline.record.nvml.library import Unavailable
from sightline.record.probe.processes import Root, list_descendants, read_environment, read_mappings
from sightline.record.sampling.sampler import StackSampler

SECONDS = 5.0
BACKENDS = ("torch", "rocprofv3")
_AMD_VARIABLE = "ROCP_TOOL_ATTACH"
_TORCH = re.compile(r"/libtorch_cpu[.-][^/]*$")
_HIP = re.compile(r"/libamdhip64\.so[^/]*$")
_DETACH_S = 300.0  # rocprofv3 writes its file as it detaches


@dataclass(frozen=True)
class Opening:
    """One process, and how it can be recorded; `backend` None: it cannot, and `why`."""

    pid: int
    command: list[str]
    backend: str | None
    why: str
    client: Client | None = None
    port: int | None = None  # of JAX's profiler server


@dataclass
class Outcome:
    """What came of it: the recordings, and the processes that gave none, each with the reason."""

    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def list_openings(pids: Sequence[int], backend: str | None = None) -> list[Opening]:
    """How these processes and all that they started can be recorded.

    Of those that were only started, what uses neither PyTorch nor HIP is left out.
    """
    found: dict[int, Opening] = {}
    sockets: set[str] = set()
    for pid in pids:
        attached = False
        for process in list_descendants(pid):  # it first, then what it started
            if process in found:
                continue
            opening = _find_opening(process, backend)
            forked = opening.client is not None and opening.client.socket in sockets
            # What a program of HIP forks to load data has HIP in its memory as well.
            if forked or (attached and opening.backend == "rocprofv3"):
                continue
            if opening.client is not None:
                sockets.add(opening.client.socket)
            attached = attached or opening.backend == "rocprofv3"
            if process == pid or opening.why:
                found[process] = opening
    return list(found.values())


def open_servers(ports: Sequence[int]) -> list[Opening]:
    """The processes whose JAX serves its profiler at these ports. Raises RequestError."""
    jax_door.find_library()
    found = []
    for port in ports:
        pid = jax_door.find_server(port)
        why = f"JAX's profiler server at port {port}"
        found.append(Opening(pid, _read_command(pid), "jax", why, port=port))
    return found


def explain_refusal(process: str, *, is_root: bool | None = None) -> str:
    """Why a process may not be looked at, in words that begin with what it is called."""
    if os.geteuid() == 0 if is_root is None else is_root:
        return (
            f"{process} may not be inspected, even by root here: in a container that needs "
            "CAP_SYS_PTRACE, and the process's own PID namespace"
        )
    return f"{process} belongs to another user: run as root"


def _find_opening(pid: int, backend: str | None) -> Opening:
    command = _read_command(pid)
    try:
        paths = {mapping.path for mapping in read_mappings(pid)}
        client = find_client(pid)
    except (PermissionError, psutil.AccessDenied):
        return Opening(pid, command, None, explain_refusal("it"))
    whys = []
    if backend != "rocprofv3":
        if client is not None:
            obstacle = find_obstacle(client)
            if obstacle is None:
                why = "PyTorch's own profiler, on request"
                return Opening(pid, command, "torch", why, client)
            whys.append(obstacle)
        elif any(map(_TORCH.search, paths)):
            whys.append("PyTorch was not started with KINETO_USE_DAEMON=1")
    if backend != "torch" and any(map(_HIP.search, paths)):
        obstacle = _find_amd_obstacle(pid)
        if obstacle is None:
            return Opening(pid, command, "rocprofv3", "rocprofv3 attaches to it")
        whys.append(obstacle)
    return Opening(pid, command, None, "; ".join(whys))


def _find_amd_obstacle(pid: int) -> str | None:
    if find_program("rocprofv3") is None:
        return "rocprofv3 is not on the PATH"
    if read_environment(pid).get(_AMD_VARIABLE) != "1":
        return f"ROCm was not started with {_AMD_VARIABLE}=1"
    return None


def _read_command(pid: int) -> list[str]:
    try:
        return show_command(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []


def record_processes(
    openings: Sequence[Opening],
    folder: Path,
    seconds: float,
    wanted: Sequence[str],
    say: Callable[[str], None],
    *,
    hz: int | None = None,
    warm_up_s: float = WARM_UP_S,
) -> Outcome:
    """Record those that can be, over the same time; their files are then in the run folder.

    `wanted`: of shapes, memory, stacks (PyTorch). `hz`: sample the threads' CPU stacks meanwhile,
    so often in a second of CPU time. Raises RequestError where another daemon is there.
    """
    outcome = Outcome()
    mark, began_ns = make_host_mark(), time.time_ns()
    order = Order(f"sightline-{secrets.token_hex(8)}", seconds, warm_up_s, wanted)
    clients = [o.client for o in openings if o.client is not None]
    amd = [o.pid for o in openings if o.backend == "rocprofv3"]
    work: list[Callable[[], Path]] = []
    left_s = 0.0
    if clients:
        work, left_s = _tell_torch(clients, order, (folder, mark), outcome, say)
    if amd:
        say(f"rocprofv3 is recording for {seconds:g} s")
        work += [partial(_attach_rocprofv3, pid, folder, mark, seconds) for pid in amd]
    if served := [o for o in openings if o.port is not None]:
        left_s = max(left_s, jax_door.LEAD_S)
        say(f"JAX's profiler is recording {seconds:g} s in {left_s:.0f} s")
        start_ns = time.time_ns() + round(left_s * 1e9)
        work += [
            partial(_record_jax, o, (folder, mark), start_ns, seconds, wanted, left_s)
            for o in served
        ]
    if work:
        pids = [o.pid for o in openings if o.backend is not None]
        watch = partial(_watch, pids, (folder, mark), left_s, seconds, hz, outcome)
        _run_all([watch, *(partial(_keep, outcome, record) for record in work)])
    try:
        if work:
            finishing.finish_files(folder, mark, pids[0])
        outcome.files.sort()
        _write_facts(folder, mark, openings, outcome, began_ns, seconds)
    except OSError as error:
        why = "; ".join([*outcome.problems, str(error.strerror or error)])
        raise InputError("the recording's folder is gone, or cannot be written", why=why) from error
    return outcome


def _tell_torch(
    clients: Sequence[Client],
    order: Order,
    place: tuple[Path, str],
    outcome: Outcome,
    say: Callable[[str], None],
) -> tuple[list[Callable[[], Path]], float]:
    """Tell PyTorch's profilers to record: how to take each trace, and in how many s they begin."""
    roots: dict[int, Root] = {}
    for client in clients:
        with contextlib.suppress(OSError):  # it has ended
            roots[client.pid] = Root(client.pid)
    asked = [client for client in clients if client.pid in roots]
    say("waiting for PyTorch's profiler, which contacts sightline every 5 s")
    told, start_ms = tell_clients(asked, order)
    outcome.problems += [
        f"process {client.pid} did not contact sightline in time"
        for client in clients
        if client not in told
    ]
    if not told:
        return [], 0.0
    left_s = max(start_ms / 1000 - time.time(), 0.0)
    say(f"recording {order.seconds:g} s in {left_s:.0f} s, when PyTorch has warmed up")
    return [partial(_take_torch, c, roots[c.pid], order, place) for c in told], left_s


def _take_torch(client: Client, root: Root, order: Order, place: tuple[Path, str]) -> Path:
    folder, mark = place
    target = folder / f"{_name_file(client.pid, mark)}.torch-0.json"
    take_trace(client, root, order.name, target)
    without_names(target)
    if target.stat().st_size <= finishing.COMPRESS_ABOVE:
        return target
    finishing.compress_trace(target)
    return target.with_name(f"{target.name}.gz")


def _record_jax(
    opening: Opening,
    place: tuple[Path, str],
    start_ns: int,
    seconds: float,
    wanted: Sequence[str],
    wait_s: float,
) -> Path:
    folder, mark = place
    target = folder / f"{_name_file(opening.pid, mark)}.jax-0.xplane.pb"
    assert opening.port is not None
    return jax_door.record_server(opening.port, target, start_ns, seconds, wanted, wait_s=wait_s)


def _keep(outcome: Outcome, record: Callable[[], Path]) -> None:
    """What became of one recording; lists are appended to by several threads."""
    try:
        outcome.files.append(record())
    except SightlineError as error:
        outcome.problems.append(f"{error.what}: {error.why}" if error.why else error.what)
    except OSError as error:  # the folder is gone, or the disk is full
        outcome.problems.append(f"the recording was not kept: {error.strerror or error}")


def _run_all(work: Sequence[Callable[[], None]]) -> None:
    # Of an interrupted sightline none may stay behind to wait for files.
    threads = [threading.Thread(target=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _watch(
    pids: Sequence[int],
    place: tuple[Path, str],
    left_s: float,
    seconds: float,
    hz: int | None,
    outcome: Outcome,
) -> None:
    """What is read from outside while the profilers record: the GPUs' power, and CPU stacks."""
    time.sleep(left_s)
    folder, mark = place
    stem = f"host-{mark}.{pids[0]}"
    gpus = sampler = None
    with contextlib.suppress(Unavailable, OSError):
        gpus = Gpus(folder / f"{stem}.nvml")
    try:
        if hz is not None:
            sampler = StackSampler(folder / f"{stem}.cpu{STACKS}", hz)
            sampler.attach(pids)
            sampler.start()
    except (SightlineError, OSError) as error:
        outcome.problems.append(f"no CPU stacks: {error}")
        sampler = None
    time.sleep(seconds)
    problem = None if sampler is None else sampler.stop()
    if problem is not None:
        outcome.problems.append(problem)
    if gpus is not None:
        gpus.stop()


def _attach_rocprofv3(pid: int, folder: Path, mark: str, seconds: float) -> Path:
    name = f"{_name_file(pid, mark)}.rocprofv3"
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        try:
            code = subprocess.run(  # noqa: S603  # fixed arguments, no shell
                rocprofv3.attach_to(pid, folder, name, seconds),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                timeout=seconds + _DETACH_S,
                check=False,
            ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"rocprofv3 cannot attach to {pid}", why=str(error)) from error
    # It may write as it detaches, and a moment after it has ended.
    limit = time.monotonic() + (_DETACH_S if code == 0 else 0)
    while not (found := sorted(folder.glob(f"{name}*_results.db"))):
        if time.monotonic() >= limit:
            lines = log.read_text(errors="replace").strip().splitlines()
            why = redact_text(lines[-1])[:200] if lines else f"it ended with {code}"
            raise InputError(f"rocprofv3 recorded nothing of {pid}", why=why)
        time.sleep(0.2)
    _wait_until_quiet(found[0])
    return found[0]


def _wait_until_quiet(path: Path) -> None:
    """A database that is still written has a journal beside it, or grows."""
    seen, quiet = -1, time.monotonic()
    limit = time.monotonic() + _DETACH_S
    while time.monotonic() < limit:
        size = path.stat().st_size
        busy = path.with_name(f"{path.name}-journal").exists()
        if size != seen or busy:
            seen, quiet = size, time.monotonic()
        elif time.monotonic() - quiet >= 1.5:
            return
        time.sleep(0.1)


def _name_file(pid: int, mark: str) -> str:
    rank = find_identity(read_environment(pid)).rank
    return f"{'proc' if rank is None else f'rank{rank}'}-{mark}-{pid}"


def _write_facts(
    folder: Path,
    mark: str,
    openings: Sequence[Opening],
    outcome: Outcome,
    began_ns: int,
    seconds: float,
) -> None:
    machine, devices = conditions.read_host(), conditions.list_gpus()
    facts: dict[str, Any] = {
        "command": openings[0].command if openings else [],
        "question": "timeline",
        "backends": sorted({o.backend for o in openings if o.backend}),
        "host_mark": mark,
        "machine": machine,
        "gpus": devices,
        "state": "ended",
        "began_ns": began_ns,
        "seconds": seconds,
        "notes": [
            *conditions.list_notes(machine, devices),
            *({"kind": "attach", "severity": "warning", "text": p} for p in outcome.problems),
        ],
    }
    run_folder.write_facts(folder, f"{mark}-{os.getpid()}", facts)
