"""Samples as rows of a stack file: stacks named, each once, while the program is there."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from sightline.core.model.stack_file import CUT, IN_KERNEL, LOST_WAY, RECORD, Row, StackWriter
from sightline.record.sampling.images import CodeImages
from sightline.record.sampling.naming import KernelNames, Process
from sightline.record.sampling.records import Ended, Forked, Mapped, Missed, Named, Record, Sample

# 8 MB of a file, and 200 MB here; a program has some 10,000.
MOST_NODES = 1_000_000
_MOST_KNOWN = 50_000  # of a process: chains of addresses that were seen, at some 500 bytes each
_MOST_UNNAMED = 10_000  # of a process: places in compiled code that has no name yet
_HOW = (0, CUT, LOST_WAY)
_NOWHERE: Row = ("native", None, None, None, None)


class StackBuilder:
    """Takes records in order of time, and writes what they say."""

    def __init__(self, writer: StackWriter) -> None:
        self._writer = writer
        self.processes: dict[int, Process] = {}
        self._kernel, self._images = KernelNames(), CodeImages()
        self._frames: dict[Row, int] = {}
        self._frame_count = self._saved_frames = 0
        self._rows: list[Row] = []  # frames that are to be written
        self._nodes: dict[tuple[int, int], int] = {}
        self._new_nodes: list[tuple[int, int]] = []
        self._names: dict[tuple[int, int], str] = {}
        self._new_names: set[tuple[int, int]] = set()
        self._samples: list[tuple[int, int, int, int, int, int]] = []
        self.taken = self.lost = self.throttled = self.stacks_left_out = 0
        self.seen: set[int] = set()  # processes
        self.inherited: set[int] = set()  # threads that are sampled because their parents are

    def add_process(self, pid: int) -> None:
        """Note a process that already runs, with the names of its threads."""
        if pid in self.processes:
            return
        process = self.processes[pid] = Process(pid)
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(OSError):
                self._name(pid, int(task.name), (task / "comm").read_text().rstrip("\n"))
                process.threads.add(int(task.name))

    def take(self, record: Record) -> None:
        """One record; those of all rings come in order of time."""
        match record:
            case Sample():
                self._take_sample(record)
            case Mapped(pid=pid, part=part):
                process = self._find(pid)
                if process.space.add(part):
                    process.forget()
            case Named(pid=pid, tid=tid, name=name, is_exec=is_exec):
                process = self._find(pid)
                if is_exec:
                    process.begin_program()
                    process.threads = {tid}
                self._name(pid, tid, name)
            case Forked():
                self._take_fork(record)
            case Ended(pid=pid, tid=tid):
                process = self._find(pid)
                process.threads.discard(tid)
                self.inherited.discard(tid)
                if not process.threads:
                    self._name_compiled(process)
                    del self.processes[pid]
            case Missed(lost=lost, is_throttled=is_throttled):
                self.lost += lost
                self.throttled += is_throttled

    def _find(self, pid: int) -> Process:
        if pid not in self.processes:
            self.processes[pid] = Process(pid)
        return self.processes[pid]

    def _take_fork(self, record: Forked) -> None:
        self.inherited.add(record.tid)
        if record.pid != record.parent:
            parent = self._find(record.parent)
            self.processes[record.pid] = Process(record.pid, parent)
        self._find(record.pid).threads.add(record.tid)
        name = self._names.get((record.parent, record.parent))
        if name is not None:
            self._name(record.pid, record.tid, name)

    def _name(self, pid: int, tid: int, name: str) -> None:
        self._names[pid, tid] = name
        self._new_names.add((pid, tid))
        if pid == tid:
            self._find(pid).name = name

    # -- stacks ----------------------------------------------------------------------------------

    def _take_sample(self, sample: Sample) -> None:
        process = self._find(sample.pid)
        process.threads.add(sample.tid)
        self.seen.add(sample.pid)
        user, how = sample.user, 0
        if sample.registers:
            user, how = process.follow(sample.registers, sample.stack, self._images)
        node = process.stacks.get((sample.kernel, user))
        if node is None:
            node = self._add_stack(process, sample.kernel, user)
            if len(process.stacks) >= _MOST_KNOWN:
                process.stacks.clear()
            process.stacks[sample.kernel, user] = node
        flags = (IN_KERNEL if sample.kernel else 0) | _HOW[how]
        self._samples.append((sample.time, sample.pid, sample.tid, node, sample.cpu, flags))
        self.taken += 1

    def _add_stack(self, process: Process, kernel: bytes, user: bytes) -> int:
        # A call lies before the address where it returns to, which may be the next function's.
        frames = [
            self._intern(self._kernel.name_address(address))
            for address in np.frombuffer(kernel, "<u8").tolist()
        ]
        for depth, address in enumerate(np.frombuffer(user, "<u8").tolist()):
            frames += self._number(process, address - (depth > 0))
        node = -1
        for frame in reversed(frames):
            known = self._nodes.get((node, frame))
            if known is None:
                if len(self._nodes) >= MOST_NODES:
                    self.stacks_left_out += 1
                    return -1
                known = self._nodes[node, frame] = len(self._nodes)
                self._new_nodes.append((node, frame))
            node = known
        return node

    def _number(self, process: Process, address: int) -> list[int]:
        """The frames of an address, the innermost first."""
        if address in process.unnamed:
            return [process.unnamed[address]]
        rows = process.name_address(address, self._images)
        if rows is not None:
            return [self._intern(row) for row in rows]
        if len(process.unnamed) >= _MOST_UNNAMED:
            return [self._intern(_NOWHERE)]
        # A frame of its own, which gets its name when the program has written it down.
        process.unnamed[address] = self._frame_count
        self._rows.append(_NOWHERE)
        self._frame_count += 1
        return [process.unnamed[address]]

    def _intern(self, row: Row) -> int:
        number = self._frames.get(row)
        if number is None:
            number = self._frames[row] = self._frame_count
            self._rows.append(row)
            self._frame_count += 1
        return number

    def _name_compiled(self, process: Process) -> None:
        """Look once more for names that a program's map did not have when they were needed."""
        for address, frame in list(process.unnamed.items()):
            rows = process.name_address(address, self._images)
            if rows is not None:
                self._save_frames()
                self._writer.write_frames(frame, rows[:1])
                process.stacks.clear()
                del process.unnamed[address]

    def close(self) -> None:
        """End what was started to name code."""
        self._images.lines.close()

    # -- the file --------------------------------------------------------------------------------

    def save(self) -> None:
        """Write what is new. Raises OSError where it cannot be written."""
        for process in self.processes.values():
            if process.unnamed:
                self._name_compiled(process)
        self._save_frames()
        self._writer.write_nodes(self._new_nodes)
        self._writer.write_threads(
            [(pid, tid, self._names.get((pid, pid)), self._names[pid, tid])
             for pid, tid in sorted(self._new_names)]
        )  # fmt: skip
        self._writer.write_samples(np.array(self._samples, RECORD))
        self._new_nodes, self._samples, self._new_names = [], [], set()

    def _save_frames(self) -> None:
        self._writer.write_frames(self._saved_frames, self._rows)
        self._saved_frames, self._rows = self._frame_count, []
