"""Switches on the profiler of a running inference server over HTTP, and collects what it writes.

vLLM (https://docs.vllm.ai/en/latest/contributing/profiling.html): POST /start_profile and
/stop_profile; it writes into the folder that it was started with (--profiler-config since 0.13,
VLLM_TORCH_PROFILER_DIR before), and has neither without.
SGLang (https://docs.sglang.ai/developer_guide/benchmark_and_profiling.html): the same, and the
request names the folder. TensorRT-LLM has no such request: it reads TLLM_PROFILE_START_STOP when
it starts (https://nvidia.github.io/TensorRT-LLM/developer-guide/perf-analysis.html).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.core.foreign_files import Descriptor, hold_folder, open_file, open_folder
from sightline.core.model import run_folder
from sightline.errors import InputError, RequestError
from sightline.record.collect.server_api import (
    TELL_S,
    explain_profiler,
    fetch_text,
    find_version,
    is_there,
    join_url,
    stamp_metrics,
    tell_waiting,
)
from sightline.record.collect.server_load import Load, send_load
from sightline.record.collect.server_log import ServerLog, tells_load, tells_steps
from sightline.record.inline.rank import make_host_mark

KINDS = ("vllm", "sglang", "trtllm")
SECONDS = 5.0
ANSWER_S = 30.0
STOP_S = 900.0  # a server answers /stop_profile when its workers have written: minutes
FILES_S = 300.0  # how long files are waited for after that
GONE_S = 10.0  # and of a server that has ended
QUIET_S = 1.5  # a file that did not grow for so long is whole
_FOLDER_VARIABLE = {"vllm": "VLLM_TORCH_PROFILER_DIR", "sglang": "SGLANG_TORCH_PROFILER_DIR"}
_RANK = re.compile(r"(?:rank|TP-|tp)[_\-.]?(\d{1,5})", re.IGNORECASE)
MERGED = -1
# The order in which SGLang's replicas are numbered: of pipeline and data, then of tensors.
_REPLICA = tuple(re.compile(rf"(?:^|-){part}-(\d{{1,5}})") for part in ("PP", "DP", "TP"))
_MOST_BYTES = 1 << 20  # of an answer that says nothing
_FRONTEND = "async_llm"  # as vLLM calls its API server's own trace
_TRACE = (".json", ".json.gz")
_OWN_TRACES = "server"  # in the run folder, where a server is told to write

Seen = dict[str, tuple[int, int]]  # size and time by path, from the traces' folder on


@dataclass(frozen=True)
class Patience:
    """For how long files are waited for, how often waiting is told, and by which clock."""

    files_s: float = FILES_S
    gone_s: float = GONE_S
    tell_s: float = TELL_S
    clock: Callable[[], float] = time.monotonic


def record_server(
    kind: str,
    url: str,
    folder: Path,
    seconds: float,
    traces: Path | None,
    say: Callable[[str], None],
    *,
    patience: Patience = Patience(),
    load: Load | None = None,
    steps: int | None = None,
    log: Path | None = None,
) -> list[Path]:
    """Profile a server for some seconds, or while a load is sent; the traces, in the run folder.

    Beside them lie the client's log of that load, the server's metrics before and behind, where
    it has them, and what came into its `log`; they are kept, too, where no trace comes. With
    `steps` the server itself stops after so many. An interrupt ends the recording early; one more
    leaves the traces to the server. Raises RequestError for what cannot be done, InputError where
    the server does not play along.
    """
    place = _traces(kind, url, folder, traces)
    server_log = None if log is None else ServerLog(log)
    is_told = kind == "sglang" and traces is None  # where to write
    with hold_folder(folder) as held:
        body: dict[str, Any] = {"output_dir": str(place)} if is_told else {}
        if steps is not None:  # vLLM since 0.13 (others ignore it); SGLang stops by itself
            body |= {"max_iterations": steps} if kind == "vllm" else {"num_steps": steps}
        before = fetch_text(url, "metrics")
        began_ms = time.time_ns() // 10**6
        clients: list[dict[str, Any]] = []

        def wait() -> None:
            if load is None:
                time.sleep(seconds)
                return
            try:
                send_load(url, load, say, clients)
            finally:
                if clients:
                    (held / "client.json").write_text(json.dumps(clients), encoding="utf-8")

        try:
            opened, found, facts = _profile(kind, url, place, seconds, say, patience, body, wait)
        except BaseException:
            if clients:
                say("no trace came; the client's log is kept")
            raise
        finally:
            _write_metrics(held, before, began_ms, url)
            if server_log is not None:
                _write_log(held, server_log, kind, say)
        ranks = name_ranks([path.rpartition("/")[2] for path in found])
        copies = [
            _copy(place, opened, path, held, number, rank)
            for number, (path, rank) in enumerate(zip(found, ranks, strict=True))
            if rank != MERGED
        ]
        if place == folder / _OWN_TRACES:
            _remove_traces(opened, found, held)
        run_folder.write_facts(held, f"{make_host_mark()}-{os.getpid()}", facts)
    return copies


def _profile(
    kind: str,
    url: str,
    place: Path,
    seconds: float,
    say: Callable[[str], None],
    patience: Patience,
    body: dict[str, Any],
    wait: Callable[[], None],
) -> tuple[Descriptor, list[str], dict[str, Any]]:
    """Switch the profiler on and off; the traces' folder, the new ones in it, and the facts."""
    opened = _open_folder(place)
    before = {} if opened is None else _list_traces(opened)
    told = time.time_ns()
    tell_profiler(kind, url, "start_profile", ANSWER_S, body or None)
    problem: InputError | None = None
    try:
        say(f"{kind} is recording" + (f" for {seconds:g} s" if seconds else ""))
        wait()
    except KeyboardInterrupt:
        say("ended early: collecting what was recorded so far (Ctrl-C again stops that)")
    finally:
        problem = _stop(kind, url, place, say, patience)
    # A server that has ended writes nothing more.
    is_gone = problem is not None and not is_there(url)
    files_s = patience.gone_s if is_gone else patience.files_s
    opened, found = _wait(place, opened, before, say, files_s)
    if opened is None or not found:
        if problem is not None:
            raise problem
        raise InputError(
            f"{kind} has written no trace",
            why=f"nothing new came into {place}",
            hint="Name the folder that the server writes to:  --traces FOLDER  (its "
            "torch_profiler_dir; on another machine, copy it here)",
        )
    facts: dict[str, Any] = {
        "command": [f"--server {kind}"],
        "question": "timeline",
        "backends": [kind],
        "host_mark": make_host_mark(),
        "state": "ended",
        "began_ns": told,
        "seconds": seconds,
        "notes": []
        if problem is None
        else [{"kind": "server", "severity": "warning", "text": f"{problem.what}: {problem.why}"}],
    }
    return opened, found, facts


def _stop(
    kind: str, url: str, place: Path, say: Callable[[str], None], patience: Patience
) -> InputError | None:
    """Switch the profiler off, which takes as long as it writes; what the server said against it.

    It may have stopped all the same: the files will say.
    """
    began = patience.clock()
    try:
        words = f"{kind} stops its profiler and writes its traces"
        with tell_waiting(say, words, patience.tell_s, patience.clock):
            tell_profiler(kind, url, "stop_profile", STOP_S, None)
    except InputError as error:
        return error
    except KeyboardInterrupt:
        say(f"{kind} goes on writing: its traces come into {place}, and sightline reads them there")
        raise
    say(f"{kind} took {patience.clock() - began:.1f} s to stop")
    return None


def list_trtllm_variables(steps: list[int] | None, folder: Path) -> dict[str, str]:
    """What TensorRT-LLM is started with: iterations from A to B, and where the trace goes.

    NVTX ranges of its steps and of garbage collections show in Nsight Systems.
    """
    wait, warm_up, active = steps or [100, 0, 50]
    first = wait + warm_up
    return {
        "TLLM_PROFILE_START_STOP": f"{first}-{first + active}",
        "TLLM_TORCH_PROFILE_TRACE": str(folder / "server-0.json"),
        "TLLM_LLMAPI_ENABLE_NVTX": "1",
        "TLLM_PROFILE_RECORD_GC": "1",
    }


def _write_metrics(folder: Path, before: str | None, began_ms: int, url: str) -> None:
    """The server's metrics before and behind, each with its moment."""
    after = None if before is None else fetch_text(url, "metrics")
    if before is not None and after is not None:
        both = stamp_metrics(before, began_ms) + stamp_metrics(after, time.time_ns() // 10**6)
        (folder / "metrics.prom").write_text(both, encoding="utf-8")


def _write_log(folder: Path, log: ServerLog, kind: str, say: Callable[[str], None]) -> None:
    """What came into the server's log; what it lacks is said."""
    try:
        text = log.read()
    except InputError as error:
        say(f"{error.what}: {error.why}")
        return
    if tells_load(text):
        (folder / "server.txt").write_text(text, encoding="utf-8")
    if not tells_steps(text):
        remedy = {"vllm": ": start it with --enable-logging-iteration-details"}.get(kind, "")
        say(f"the server's log has no line of a step{remedy}")


def _traces(kind: str, url: str, folder: Path, traces: Path | None) -> Path:
    if kind not in KINDS:
        raise RequestError(f"there is no server kind '{kind}'", why=f"there are {', '.join(KINDS)}")
    if kind == "trtllm":
        raise RequestError(
            "a running TensorRT-LLM cannot be switched on over HTTP",
            why="it reads TLLM_PROFILE_START_STOP when it starts",
            hint="Let sightline start it:  sightline run --server trtllm - -- trtllm-serve ...",
        )
    known = os.environ.get(_FOLDER_VARIABLE[kind])
    if traces is not None or known:
        return traces or Path(str(known))
    if kind == "sglang":
        place = folder / _OWN_TRACES
        place.mkdir(exist_ok=True)
        return place
    raise RequestError(
        "where vLLM writes its traces is not known",
        why="the folder is set when the server starts, and a request cannot change it",
        hint=explain_profiler(kind, find_version(kind, url)),
    )


def tell_profiler(
    kind: str, url: str, what: str, timeout_s: float, body: dict[str, Any] | None
) -> None:
    """Start or stop a server's profiler, and wait for its answer. Raises InputError."""
    address = join_url(url, what)
    data = b"" if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(address, data, headers, method="POST")  # noqa: S310  # checked
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            answer.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        error.close()
        why = f"HTTP {error.code} {error.reason}"
        if error.code == 404:  # vLLM adds the endpoint only where a profiler is configured
            why += ": it was started without a profiler"
        raise InputError(
            f"{kind} refused /{what}",
            why=why,
            hint=explain_profiler(kind, find_version(kind, url)),
        ) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{kind} does not answer at {address}",
            why=str(reason),
            hint="Check the address, and that the server has started.",
        ) from error


def _open_folder(place: Path) -> Descriptor | None:
    """The traces' folder, held: its owner is the server's user, who may swap it. None: none yet."""
    with contextlib.suppress(OSError):
        return Descriptor(os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    return None


def _list_traces(place: Descriptor) -> Seen:
    """The traces in a folder and below it, with size and time; no links, which lead elsewhere.

    Folders of runs are ours, and what lies in them was not written by a server.
    """
    found: Seen = {}
    for folder, inside, names, opened in os.fwalk(".", dir_fd=place.number):
        inside[:] = [name for name in inside if not name.endswith(run_folder.FOLDER_ENDING)]
        for name in names:
            with contextlib.suppress(OSError):
                state = os.stat(name, dir_fd=opened, follow_symlinks=False)
                if stat.S_ISREG(state.st_mode) and name.endswith(_TRACE):
                    found[f"{folder}/{name}"] = (state.st_size, state.st_mtime_ns)
    return found


def _wait(
    place: Path, opened: Descriptor | None, before: Seen, say: Callable[[str], None], files_s: float
) -> tuple[Descriptor | None, list[str]]:
    """New or changed traces, once none has grown for a while: they appear late, and bit by bit."""
    limit = time.monotonic() + files_s
    last: Seen = {}
    quiet = time.monotonic()
    said = False
    while time.monotonic() < limit:
        opened = opened or _open_folder(place)
        now = {} if opened is None else _list_traces(opened)
        fresh = {p: s for p, s in now.items() if before.get(p) != s}
        if fresh != last:
            last, quiet = fresh, time.monotonic()
        whole = bool(fresh) and all(size for size, _ in fresh.values())
        if whole and time.monotonic() - quiet >= QUIET_S:
            break
        if not fresh and not said and time.monotonic() - quiet > 5:
            say(f"waiting for its traces in {place}")
            said = True
        time.sleep(0.1)
    return opened, sorted(last)


def name_ranks(names: Sequence[str]) -> list[int | None]:
    """The rank of each trace by its file's name; None where it says none, or of a front end.

    SGLang's replicas (-TP-0-DP-1-) begin their ranks anew, and are numbered in order. What it has
    merged is MERGED where the parts are there, too.
    """
    places = [
        tuple(int(found[1]) if (found := part.search(name)) else 0 for part in _REPLICA)
        for name in names
    ]
    ranks: list[int | None] = [
        int(found[1]) if _FRONTEND not in name and (found := _RANK.search(name)) else None
        for name in names
    ]
    own = sorted({place for place, rank in zip(places, ranks, strict=True) if rank is not None})
    if any(place[:-1] != own[0][:-1] for place in own):
        ranks = [
            rank if rank is None else own.index(place)
            for place, rank in zip(places, ranks, strict=True)
        ]
    is_merged = [name.startswith("merged-") for name in names]
    return [
        MERGED if merged and not all(is_merged) else rank
        for merged, rank in zip(is_merged, ranks, strict=True)
    ]


def _copy(
    place: Path, opened: Descriptor, path: str, folder: Path, number: int, rank: int | None
) -> Path:
    """The trace under a name without the host's, which the servers put into theirs.

    Raises InputError where there is no room for it: then it stays where it is.
    """
    inside, _, name = path.rpartition("/")
    ending = ".json.gz" if name.endswith(".gz") else ".json"
    mark = "" if rank is None else f".rank{rank}"
    if _FRONTEND in name:
        mark = ".frontend"
    target = folder / f"server-{number}{mark}{ending}"
    trace = open_file(name, open_folder(inside, opened))
    try:
        with open(trace.path, "rb") as source, target.open("wb") as copy:  # noqa: PTH123  # held
            shutil.copyfileobj(source, copy, 1 << 20)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise InputError(
            "a trace could not be copied",
            why=(error.strerror or str(error)).lower(),
            hint=f"It is whole where the server wrote it:  sightline {place / path}",
        ) from error
    return target


def _remove_traces(place: Descriptor, found: Sequence[str], folder: Path) -> None:
    """Remove what was copied, of a server that was told to write into the run folder."""
    for path in found:
        inside, _, name = path.rpartition("/")
        within = open_folder(inside, place)
        os.unlink(name, dir_fd=within.number)
    with contextlib.suppress(OSError):
        (folder / _OWN_TRACES).rmdir()
