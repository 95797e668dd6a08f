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
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

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

Seen = dict[Path, tuple[int, int]]


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
    before = _files(place)
    body = {"output_dir": str(place)} if kind == "sglang" and traces is None else None
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
    found = _wait(place, before, say, files_s)
    if not found:
        if problem is not None:
            raise problem
        raise InputError(
            f"{kind} has written no trace",
            why=f"nothing new came into {place}",
            hint=f"Name the folder that the server writes to:  --traces FOLDER  (it is its "
            f"{_FOLDER_VARIABLE[kind]}; on another machine, copy it here)",
        )
    copies = [_copy(path, folder, number) for number, path in enumerate(found)]
    run_folder.write_facts(
        folder,
        f"{make_host_mark()}-{os.getpid()}",
        {
            "command": [f"--server {kind}"],
            "question": "timeline",
            "backends": [kind],
            "host_mark": make_host_mark(),
            "state": "ended",
            "began_ns": told,
            "seconds": seconds,
            "notes": []
            if problem is None
            else [
                {"kind": "server", "severity": "warning", "text": f"{problem.what}: {problem.why}"}
            ],
        },
    )
    return copies


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
        place = folder / "server"
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


def _files(place: Path) -> Seen:
    """The traces in a folder and below it, with size and time."""
    found: Seen = {}
    for path in place.rglob("*") if place.is_dir() else ():
        with contextlib.suppress(OSError):
            if path.is_file() and path.name.endswith(_TRACE):
                stat = path.stat()
                found[path] = (stat.st_size, stat.st_mtime_ns)
    return found


def _wait(place: Path, before: Seen, say: Callable[[str], None], files_s: float) -> list[Path]:
    """New or changed traces, once none has grown for a while: they appear late, and bit by bit."""
    limit = time.monotonic() + files_s
    last: Seen = {}
    quiet = time.monotonic()
    said = False
    while time.monotonic() < limit:
        fresh = {p: s for p, s in _files(place).items() if before.get(p) != s}
        if fresh != last:
            last, quiet = fresh, time.monotonic()
        whole = bool(fresh) and all(size for size, _ in fresh.values())
        if whole and time.monotonic() - quiet >= QUIET_S:
            break
        if not fresh and not said and time.monotonic() - quiet > 5:
            say(f"waiting for its traces in {place}")
            said = True
        time.sleep(0.1)
    return sorted(last)


def _copy(path: Path, folder: Path, number: int) -> Path:
    """The trace under a name without the host's, which the servers put into theirs."""
    rank = _RANK.search(path.name)
    ending = ".json.gz" if path.name.endswith(".gz") else ".json"
    mark = "" if rank is None else f".rank{int(rank[1])}"
    target = folder / f"server-{number}{mark}{ending}"
    shutil.copyfile(path, target)
    if folder in path.parents:
        path.unlink()
        with contextlib.suppress(OSError):
            path.parent.rmdir()
    return target
