"""Switches on the profiler of a running inference server over HTTP, and collects what it writes.

vLLM (https://docs.vllm.ai/en/latest/contributing/profiling.html): POST /start_profile and
/stop_profile; it writes into the VLLM_TORCH_PROFILER_DIR that it was started with.
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
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sightline.core.foreign_files import Descriptor, hold_folder, open_file, open_folder
from sightline.core.model import run_folder
from sightline.errors import InputError, RequestError
from sightline.record.inline.rank import make_host_mark

KINDS = ("vllm", "sglang", "trtllm")
SECONDS = 5.0
ANSWER_S = 30.0
STOP_S = 900.0  # a server answers /stop_profile when its workers have written: minutes
FILES_S = 300.0  # how long files are waited for after that
QUIET_S = 1.5  # a file that did not grow for so long is whole
_FOLDER_VARIABLE = {"vllm": "VLLM_TORCH_PROFILER_DIR", "sglang": "SGLANG_TORCH_PROFILER_DIR"}
_RANK = re.compile(r"(?:rank|TP-|tp)[_\-.]?(\d{1,5})", re.IGNORECASE)
_TRACE = (".json", ".json.gz")
_OWN_TRACES = "server"  # in the run folder, where a server is told to write

Seen = dict[str, tuple[int, int]]  # size and time by path, from the traces' folder on


def record_server(
    kind: str,
    url: str,
    folder: Path,
    seconds: float,
    traces: Path | None,
    say: Callable[[str], None],
    *,
    files_s: float = FILES_S,
) -> list[Path]:
    """Profile a server for some seconds; the traces, copied into the run folder.

    Raises RequestError for what cannot be done, InputError where the server does not play along.
    """
    place = _traces(kind, folder, traces)
    is_told = kind == "sglang" and traces is None  # where to write
    with hold_folder(folder) as held:
        opened, found, facts = _profile(kind, url, place, seconds, say, files_s, is_told=is_told)
        copies = [_copy(opened, path, held, number) for number, path in enumerate(found)]
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
    files_s: float,
    *,
    is_told: bool,
) -> tuple[Descriptor, list[str], dict[str, Any]]:
    """Switch the profiler on and off; the traces' folder, the new ones in it, and the facts."""
    opened = _open_folder(place)
    before = {} if opened is None else _list_traces(opened)
    body = {"output_dir": str(place)} if is_told else None
    told = time.time_ns()
    _post(kind, url, "start_profile", ANSWER_S, body)
    say(f"{kind} is recording for {seconds:g} s")
    problem = None
    try:
        time.sleep(seconds)
    finally:
        began = time.monotonic()
        try:
            _post(kind, url, "stop_profile", STOP_S, None)
        except InputError as error:
            problem = error  # it may have stopped all the same: the files will say
        say(f"{kind} took {time.monotonic() - began:.1f} s to stop")
    opened, found = _wait(place, opened, before, say, files_s)
    if opened is None or not found:
        if problem is not None:
            raise problem
        raise InputError(
            f"{kind} has written no trace",
            why=f"nothing new came into {place}",
            hint=f"Name the folder that the server writes to:  --traces FOLDER  (it is its "
            f"{_FOLDER_VARIABLE[kind]}; on another machine, copy it here)",
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


def list_trtllm_variables(steps: list[int] | None, folder: Path) -> dict[str, str]:
    """What TensorRT-LLM is started with: iterations from A to B, and where the trace goes."""
    wait, warm_up, active = steps or [100, 0, 50]
    first = wait + warm_up
    return {
        "TLLM_PROFILE_START_STOP": f"{first}-{first + active}",
        "TLLM_TORCH_PROFILE_TRACE": str(folder / "server-0.json"),
    }


def _traces(kind: str, folder: Path, traces: Path | None) -> Path:
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
        why="it is told when it starts, and the request cannot change it",
        hint="Start it with VLLM_TORCH_PROFILER_DIR=/folder, and add:  --traces /folder",
    )


def _post(kind: str, url: str, what: str, timeout_s: float, body: dict[str, str] | None) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise RequestError(f"{url} is no address", hint="Write it as  http://127.0.0.1:8000")
    data = b"" if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/{what}"
    request = urllib.request.Request(address, data, headers, method="POST")  # noqa: S310  # checked
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        hint = f"Start the server with {_FOLDER_VARIABLE[kind]}=/folder: it has no profiler else."
        raise InputError(
            f"{kind} refused /{what}", why=f"HTTP {error.code} {error.reason}", hint=hint
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
    """The traces in a folder and below it, with size and time; no links, which lead elsewhere."""
    found: Seen = {}
    for folder, _, names, opened in os.fwalk(".", dir_fd=place.number):
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


def _copy(place: Descriptor, path: str, folder: Path, number: int) -> Path:
    """The trace under a name without the host's, which the servers put into theirs."""
    inside, _, name = path.rpartition("/")
    rank = _RANK.search(name)
    ending = ".json.gz" if name.endswith(".gz") else ".json"
    mark = "" if rank is None else f".rank{int(rank[1])}"
    target = folder / f"server-{number}{mark}{ending}"
    trace = open_file(name, open_folder(inside, place))
    with open(trace.path, "rb") as source, target.open("wb") as copy:  # noqa: PTH123  # held
        shutil.copyfileobj(source, copy, 1 << 20)
    return target


def _remove_traces(place: Descriptor, found: Sequence[str], folder: Path) -> None:
    """Remove what was copied, of a server that was told to write into the run folder."""
    for path in found:
        inside, _, name = path.rpartition("/")
        within = open_folder(inside, place)
        os.unlink(name, dir_fd=within.number)
    with contextlib.suppress(OSError):
        (folder / _OWN_TRACES).rmdir()
