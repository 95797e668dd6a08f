"""What watches a program from outside while it runs: perf, py-spy, NVML."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path

from sightline.core.model.event_file import SUFFIX
from sightline.core.model.perf_text import BEGIN, END
from sightline.core.model.run_folder import WALL_TIME
from sightline.core.redaction import redact_frame, redact_text
from sightline.record.collect.backends import _perf, cpu
from sightline.record.collect.look import find_program, read_output
from sightline.record.inline.recorder import Recorder
from sightline.record.nvml.sampling import Sampler
from sightline.record.nvml.summary import summarize_samples

READY_S = 5.0  # perf answers within 0.3 s; a machine in trouble must not hold the program up
END_S = 60.0  # writing the samples of a long run
_PY_SPY_TRIES = 20
_EMPTY_BYTES = 65536  # a file without samples holds a few hundred


class Perf:
    """perf record: of a process that waits at its gate, or (`pid` None) of the whole system."""

    def __init__(self, pid: int | None, data: Path, log: Path) -> None:
        self.data = data
        self._is_trace = pid is None
        control, mine = os.pipe()
        theirs, answer = os.pipe()
        with log.open("wb") as out:
            self._process = subprocess.Popen(  # noqa: S603  # fixed arguments, no shell
                _perf.trace_system(data, (control, answer), *list_system_events())
                if pid is None
                else _perf.sample_process(pid, data, (control, answer)),
                pass_fds=(control, answer),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=restore_signals,
            )
        self.pid = self._process.pid
        os.close(control)
        os.close(answer)
        os.write(mine, b"enable\n")
        ready, *_ = select.select([theirs], [], [], READY_S)
        self.ready = bool(ready and os.read(theirs, 16))
        self._open = (mine, theirs)  # perf ends when nobody can tell it anything any more

    def stop(self) -> str | None:
        """End it and turn its samples into text beside it; what went wrong, or None."""
        _end(self._process)
        for end in self._open:
            os.close(end)
        target = self.data.with_name(self.data.name.removesuffix(".data") + ".txt")
        if not self.data.exists():
            return "perf wrote no samples"
        part = target.with_name(f".{target.name}.part")
        try:
            with part.open("wb") as out:
                out.write(f"{BEGIN}\n".encode())
                out.flush()
                empty = out.tell()
                done = subprocess.run(  # noqa: S603  # fixed arguments, no shell
                    _perf.print_samples(self.data, is_trace=self._is_trace),
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    timeout=END_S,
                    check=False,
                )
            if done.returncode != 0 or part.stat().st_size <= empty:
                return "perf has no sample of the program: it slept, or ran for too short a time"
            with part.open("ab") as out:
                out.write(f"{END}\n".encode())
            part.replace(target)
            self.data.unlink(missing_ok=True)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"perf's samples could not be read: {error}"
        finally:
            part.unlink(missing_ok=True)
            with contextlib.suppress(OSError, ValueError, struct.error):
                hide_host(self.data)
        return None


def list_system_events() -> tuple[list[str], list[str]]:
    """The events of `backends._perf` that this kernel has; all where perf does not list them."""
    listed = read_output(["perf", "list", "--raw-dump", "tracepoint"])
    known = set((listed or "").split())
    system, calls = (
        [e for e in events if not known or e in known]
        for events in (_perf.SYSTEM_EVENTS, _perf.CALL_EVENTS)
    )
    return system, calls


def hide_host(data: Path) -> None:
    """Overwrite the host's name in perf's own file, where one is left.

    Layout: Linux, tools/perf/Documentation/perf.data-file-format.txt. After the samples stand
    offset and size of each feature that the header's bits name, in order; the host's is bit 3.
    """
    if not data.exists():
        return
    with data.open("r+b") as file:
        head = file.read(104)
        if head[:8] != b"PERFILE2":
            return
        start, size = struct.unpack_from("<QQ", head, 40)
        bits = int.from_bytes(head[72:104], "little")
        if not bits >> 3 & 1:
            return
        file.seek(start + size + 16 * (bits & 0b111).bit_count())
        offset, length = struct.unpack("<QQ", file.read(16))
        if length > 4096:
            raise ValueError("a host name cannot be that long")
        file.seek(offset + 4)  # after the text's own length
        file.write(b"\0" * (length - 4))


class PySpy:
    """py-spy record, attached to a Python process as soon as it is one.

    Two of them: of threads that run, and with `idle` of all, so that what a thread waits in is
    what the second one has beyond the first.
    """

    def __init__(
        self,
        pid: int,
        output: Path,
        log: Path,
        watchers: set[int],
        keep_identity: bool = False,
        *,
        idle: bool = False,
    ) -> None:
        self._output, self._log, self._pid, self._watchers = output, log, pid, watchers
        self._keep_identity, self._idle = keep_identity, idle
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._attach, daemon=True)
        self._thread.start()

    def _attach(self) -> None:
        program = find_program("py-spy")
        if program is None:
            return
        for _ in range(_PY_SPY_TRIES):  # a program is not Python before its first 20 ms
            if self._ended.is_set():
                return
            with self._log.open("wb") as out:
                self._process = subprocess.Popen(  # noqa: S603  # fixed arguments, no shell
                    cpu.run_py_spy(program, self._pid, self._output, idle=self._idle),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    preexec_fn=restore_signals,
                )
            self._watchers.add(self._process.pid)
            began = time.monotonic()
            code = self._process.wait()
            if self._output.exists() or code == 0 or time.monotonic() - began > 2:
                return
            self._ended.wait(0.05)

    def stop(self) -> str | None:
        """End it; it writes its file when the program has ended, or when it is told to."""
        self._ended.set()
        process = self._process
        if process is not None:
            _end(process)
        self._thread.join(END_S)
        if self._output.exists() and self._output.stat().st_size:
            if not _holds_nothing(self._output):
                return _prepare(self._output, hide=not self._keep_identity, idle=self._idle)
            self._output.unlink(missing_ok=True)
            return "py-spy took no samples: the program slept or waited whenever it looked"
        with contextlib.suppress(OSError):
            reason = find_reason(self._log.read_text(errors="replace"))
            if reason and _NO_PROCESS not in reason:
                return f"py-spy took no samples: {redact_text(reason)[:200]}"
        return "py-spy took no samples: the program ran for too short a time"


# What py-spy says of a program that ended before it had looked.
_NO_PROCESS = "No python processes found"
_SAID = re.compile(r"(?im)^\s*(?:error|fatal)\b:?\s*(?P<text>\S.*)$")


def find_reason(log: str) -> str | None:
    """Why a program failed, by what it wrote: its last error, and not the backtrace below it."""
    said = [match["text"].strip() for match in _SAID.finditer(log)]
    lines = log.strip().splitlines()
    return said[-1] if said else lines[-1].strip() if lines else None


def _prepare(speedscope: Path, *, hide: bool, idle: bool) -> str | None:
    """Say what the samples are of, and take command lines out; what went wrong, or None.

    py-spy puts each process's whole command line, secrets and all, at the root of its stacks.
    """
    if not (hide or idle):
        return None
    part = speedscope.with_name(f".{speedscope.name}.part")
    try:
        document = json.loads(speedscope.read_bytes())
        named = [*document["shared"]["frames"], *document["profiles"]]
        for each in named if hide else ():
            each["name"] = redact_frame(str(each["name"]))
        if idle:
            document["name"] = WALL_TIME
        part.write_text(json.dumps(document), encoding="utf-8")
        part.replace(speedscope)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        part.unlink(missing_ok=True)
        speedscope.unlink(missing_ok=True)  # rather no samples than somebody's password
        return f"py-spy's samples could not be read: {type(error).__name__}"
    return None


def _holds_nothing(speedscope: Path) -> bool:
    """Whether py-spy wrote a file without a stack: it leaves out threads that do not run."""
    if speedscope.stat().st_size > _EMPTY_BYTES:
        return False
    try:
        profiles = json.loads(speedscope.read_bytes())["profiles"]
        return not any(profile["samples"] for profile in profiles)
    except (OSError, ValueError, KeyError, TypeError):
        return False  # the importer says what is wrong with it


class Gpus:
    """NVML, sampled by a thread of sightline into an event file for each GPU: STEM-0.events, ..."""

    def __init__(self, stem: Path) -> None:
        self._files: list[Recorder] = []
        self._sampler = Sampler(lambda index: self._open(f"{stem}-{index}{SUFFIX}"))
        self._sampler.start()

    def _open(self, path: str) -> Recorder:
        self._files.append(Recorder(Path(path)))
        return self._files[-1]

    def stop(self) -> tuple[int, list[dict[str, object]]]:
        """End it; the time that the readings took, and the summary of each device."""
        self._sampler.stop()
        for file in self._files:
            file.close()
        return self._sampler.cost_ns, summarize_samples(self._sampler)


class Iaprof:
    """iaprof, from before the program starts until it has ended."""

    def __init__(self, output: Path) -> None:
        self._output, self._log = output, output.with_suffix(".log")
        with output.open("wb") as out, self._log.open("wb") as err:
            self._process = subprocess.Popen(  # noqa: S603  # no shell
                [find_program("iaprof") or "iaprof"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=restore_signals,
            )
        self.pid = self._process.pid

    def stop(self) -> str | None:
        """End it; what went wrong, or None."""
        _end(self._process)
        if self._output.exists() and self._output.stat().st_size:
            return None
        self._output.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            reason = find_reason(self._log.read_text(errors="replace"))
            if reason:
                return f"iaprof recorded nothing: {redact_text(reason)[:200]}"
        return "iaprof recorded nothing: no kernel of an Intel GPU ran"


def restore_signals() -> None:
    """In the tool's process: sightline blocks signals for itself, and the tool is ended by one."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a tool that writes its file then; kill it where it does not end."""
    try:
        # Most have ended with the program; the others get a moment to see that it has gone.
        process.wait(1.0)
        return
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
