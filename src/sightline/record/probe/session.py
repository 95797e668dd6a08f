"""A probe from its beginning to its end: whom to probe, what was read, and what is left.

Processes and libraries are looked for once a second, so that what is started or loaded meanwhile is
probed, too. All that is needed to understand a file is in it by then: whatever ends the probe or
the program leaves a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sightline.core.model.probe_file import KINDS, SUFFIX, ProbeWriter
from sightline.record.inline.rank import find_identity, make_host_mark
from sightline.record.probe.backend import Backend
from sightline.record.probe.cost import Cost, has_cheap_steps
from sightline.record.probe.functions import RETURNS_NOTHING, Function
from sightline.record.probe.names import ProcessNames, SymbolFiles
from sightline.record.probe.processes import is_running, read_environment
from sightline.record.probe.targets import Library, Targets
from sightline.version import __version__

POLL_S = 0.02  # the ring of 380,000 calls is full after 0.4 s of the fastest program
LOOK_S = 1.0
_LAUNCH, _NAME = KINDS.index("launch"), KINDS.index("name")
_MOST_STACKS = 20_000


@dataclass
class Process:
    """One probed process."""

    pid: int
    names: ProcessNames
    name: str = ""
    writer: ProbeWriter | None = None
    handles: dict[int, str | None] = field(default_factory=dict)
    stacks: dict[str, list[list[str | None]]] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    ended: bool = False
    _saved: set[int | str] = field(default_factory=set)

    def take_new_kernels(self) -> dict[str, str]:
        """Names by handle that were not taken before."""
        found = {h: n for h, n in self.handles.items() if n and h not in self._saved}
        self._saved.update(found)
        return {f"{handle:#x}": name for handle, name in found.items()}

    def take_new_stacks(self) -> dict[str, list[list[str | None]]]:
        """Frames by stack that were not taken before."""
        found = {key: frames for key, frames in self.stacks.items() if key not in self._saved}
        self._saved.update(found)
        return found


class Session:
    """The probes of several processes, and their files in a folder (or none)."""

    def __init__(
        self,
        backend: Backend,
        select: Callable[[], list[int]],
        folder: Path | None,
        cost: Cost,
        *,
        stacks: bool = False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._backend, self._select, self._folder = backend, select, folder
        self._cost, self._takes_stacks, self._say = cost, stacks, say
        self._targets = Targets(cheap_steps=has_cheap_steps(cost))
        self._symbols = SymbolFiles()
        self._numbers: dict[str, int] = {}
        self.functions: list[Function] = []
        self.processes: dict[int, Process] = {}
        self.refused: dict[tuple[str, str], str] = {}
        self._attached: set[tuple[int, tuple[str, int]]] = set()
        self._launches = np.zeros(0, bool)  # by number of the function
        self._selected: list[int] = []
        self.seen = 0
        self.started_ns = time.monotonic_ns()
        self._clock = (time.monotonic_ns(), time.time_ns())

    # -- whom ------------------------------------------------------------------------------------

    def look(self) -> int:
        """Probe what is new: processes, and libraries that they loaded. How many probes are new."""
        before = self._backend.attached
        self._selected = self._select()
        for pid in self._selected:
            try:
                libraries = self._targets.find(pid)
            except PermissionError:
                continue  # a kernel's thread, or one that hides
            for library in libraries:
                self._attach(library, pid)
        for process in self.processes.values():
            if not process.ended:
                process.names.refresh()
                process.ended = not is_running(process.pid)
        return self._backend.attached - before

    def _attach(self, library: Library, pid: int) -> None:
        key = (pid, library.sites[0].file)
        if key in self._attached:
            return
        self._attached.add(key)
        process = self._open_process(pid)
        process.modules.add(library.sites[0].module)
        wanted = []
        for site in library.sites:
            if site.refused is None:
                wanted.append((site, self._number(site.function)))
            else:
                self.refused[site.module, site.function.name] = site.refused
        for site, error in self._backend.attach(library.opened, wanted, pid) if wanted else ():
            if is_running(pid):  # else it ended meanwhile, which is not a fault of the function
                self.refused[site.module, site.function.name] = error.strerror or str(error)

    @property
    def hidden(self) -> list[str]:
        """Files that hold a CUDA runtime without the names of its functions."""
        return sorted(self._targets.hidden)

    def _number(self, function: Function) -> int:
        number = self._numbers.get(function.name)
        if number is None:
            number = self._numbers[function.name] = len(self.functions)
            self.functions.append(function)
            self._backend.tell_function(number, function)
            self._launches = np.array([f.kind == "launch" for f in self.functions])
        return number

    def _open_process(self, pid: int) -> Process:
        process = self.processes.get(pid)
        if process is not None:
            return process
        process = self.processes[pid] = Process(pid, ProcessNames(pid, self._symbols))
        process.names.refresh()
        try:
            process.name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            process.ended = True
        if self._folder is not None:
            identity = find_identity(read_environment(pid))
            who = "proc" if identity.rank is None else f"rank{identity.rank}"
            path = self._folder / f"{who}-{make_host_mark()}-{pid}{SUFFIX}"
            process.writer = ProbeWriter(path, self.started_ns)
            process.writer.write_facts(
                {
                    "sightline": __version__,
                    "backend": self._backend.name,
                    "pid": pid,
                    "process": process.name,
                    "rank": identity.rank,
                    "local_rank": identity.local_rank,
                    "world_size": identity.world_size,
                    "clock": [self._clock],
                    "stacks": self._takes_stacks,
                    "call_cost_ns": round(self._cost.call_ns),
                }
            )
        return process

    def has_ended(self) -> bool:
        """Whether all that was to be probed has ended."""
        return not self._selected and all(process.ended for process in self.processes.values())

    # -- what ------------------------------------------------------------------------------------

    def poll(self) -> int:
        """Take what the kernel has; how many calls. Raises OSError where they cannot be written."""
        for name in self._backend.read_names():
            process = self._open_process(name.pid)
            function = self.functions[name.function]
            text: str | None = name.text
            if name.address and not name.is_whole:  # too long, or not yet in memory
                text = process.names.read_text(name.address)
            if (
                function.flags & RETURNS_NOTHING
            ):  # registration: the host function, and what is behind it
                if text:
                    process.names.tell(name.other, text)
            elif text:
                process.names.tell(name.handle, text)
            else:
                process.names.tell_same(name.handle, name.other)
        records = self._backend.read_calls()
        records = records[records["function"] < len(self.functions)]
        for pid in np.unique(records["pid"]).tolist():
            mine = records[records["pid"] == pid]
            process = self._open_process(pid)
            self._note_handles(process, mine)
            if process.writer is not None:
                process.writer.write_calls(mine)
        self.seen += len(records)
        return len(records)

    def _note_handles(self, process: Process, records: np.ndarray[Any, Any]) -> None:
        launched = records[self._launches[records["function"]]]
        for handle in np.unique(launched["words"][:, 0]).tolist():
            if process.handles.get(handle) is None:
                process.handles[handle] = process.names.find_kernel(handle)
        if self._takes_stacks:
            self._note_stacks(process, records)

    def _note_stacks(self, process: Process, records: np.ndarray[Any, Any]) -> None:
        """Name the frames of stacks that are new, while the program's memory is there."""
        held = records[records["stack"] >= 0][["stack", "caller"]]
        for number, caller in np.unique(held).tolist():
            key = f"{number}:{caller:x}"
            if key in process.stacks or len(process.stacks) >= _MOST_STACKS:
                continue
            addresses = self._backend.read_stack(number)[1:]  # without the function itself
            if addresses[:1] != [caller]:  # the kernel adds it where it knows a function's start
                addresses = [caller, *addresses]
            frames = [process.names.find_function(address) for address in addresses]
            process.stacks[key] = [[module, name] for module, name in frames if module or name]

    def count_kernels(self) -> dict[tuple[int, str], int]:
        """Launches by process and kernel, as the kernel's part counted them."""
        found: dict[tuple[int, str], int] = {}
        for (pid, handle), count in self._backend.read_kernels().items():
            process = self._open_process(pid)
            if process.handles.get(handle) is None:
                process.handles[handle] = process.names.find_kernel(handle)
            key = pid, process.handles[handle] or f"{handle:#x}"
            found[key] = found.get(key, 0) + count
        return found

    # -- the end ---------------------------------------------------------------------------------

    def save_facts(self, **more: Any) -> None:
        """Write down what is known now, for each process; of names and stacks what is new."""
        totals = self._backend.read_totals()
        kernels = self._backend.read_kernels()
        for pid, process in self.processes.items():
            if process.writer is None:
                continue
            for handle in [h for p, h in kernels if p == pid]:
                if process.handles.get(handle) is None:
                    process.handles[handle] = process.names.find_kernel(handle)
            process.writer.write_facts(
                {
                    "functions": [[f.name, f.layer, f.kind] for f in self.functions],
                    "kernels": process.take_new_kernels(),
                    "launches": {f"{h:#x}": n for (p, h), n in kernels.items() if p == pid},
                    "totals": {
                        self.functions[number].name: sums
                        for (owner, number), sums in totals.items()
                        if owner == pid and number < len(self.functions)
                    },
                    "call_stacks": process.take_new_stacks(),
                    "modules": sorted(process.modules),
                    "refused": [[m, n, why] for (m, n), why in sorted(self.refused.items())],
                    "misses": self._backend.read_misses(),
                    "clock": [self._clock, (time.monotonic_ns(), time.time_ns())],
                    "span_ns": [self.started_ns, time.monotonic_ns()],
                    "process_ended": process.ended,
                    **more,
                }
            )

    def finish(self, why: str) -> None:
        """Take the probes away, read the rest, and close the files. Raises OSError as `poll`."""
        try:
            self.poll()
            for process in self.processes.values():
                process.ended = process.ended or not is_running(process.pid)
            self._backend.detach()
            while self.poll():
                pass
            self.save_facts(finished=why)
        finally:
            for process in self.processes.values():
                if process.writer is not None:
                    process.writer.close()
            self._backend.close()


def run_session(session: Session, length_s: float | None, stop: Callable[[], bool]) -> str:
    """Probe until the time is over, all processes have ended, or `stop`; why it ended."""
    end = None if length_s is None else time.monotonic() + length_s
    looked = time.monotonic()
    session.save_facts()  # calls are known by the numbers of functions: those come first
    while True:
        session.poll()
        now = time.monotonic()
        if now - looked >= LOOK_S:
            looked = now
            session.look()
            session.save_facts()
            if session.has_ended():
                return "the program ended"
        if stop():
            return "stopped"
        if end is not None and now >= end:
            return "the time was up"
        time.sleep(POLL_S if end is None else min(POLL_S, max(end - now, 0)))
