"""Names of the addresses in stacks: functions of files, of JITs, and of the kernel."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from pathlib import Path

import numpy as np

from sightline._native import Unwinder, UnwindTable
from sightline.core.model.stack_file import Row
from sightline.record.probe.compiled import CompiledFunctions
from sightline.record.probe.processes import Mapping, Memory, Root
from sightline.record.sampling.images import CodeImage, CodeImages
from sightline.record.sampling.spaces import AddressSpace

KERNEL_MODULE = "[kernel.kallsyms]"  # as perf calls it
_CODE_BYTES = 16  # enough of what follows a call in a trampoline: 5 bytes in CPython's
_PYTHON = "py::"  # CPython's trampolines: py::FUNCTION:FILE


class Process:
    """A sampled process: its code, and the stacks that are known already."""

    def __init__(self, pid: int, parent: Process | None = None) -> None:
        """A process that is there; with `parent`, one that this one has just started."""
        self.pid = pid
        self.name: str = parent.name if parent else ""
        self._root: Root | None = parent._root if parent else None
        with contextlib.suppress(OSError):
            self._root = Root(pid)
        self.space: AddressSpace = parent.space.copy() if parent else AddressSpace(_list_code(pid))
        self.compiled = CompiledFunctions(self.root, pid)
        self._memory, self.unwinder = Memory(pid), Unwinder()
        self.threads: set[int] = set()
        self.stacks: dict[tuple[bytes, bytes], int] = {}
        self.unnamed: dict[int, int] = {}  # addresses of compiled code, and their frames

    @property
    def root(self) -> str:
        """Its root folder, seen from here."""
        return "" if self._root is None else self._root.path

    def begin_program(self) -> None:
        """Forget the code of the program that it was before."""
        self.space = AddressSpace()
        self.compiled = CompiledFunctions(self.root, self.pid)
        self.unnamed.clear()
        self.forget()

    def forget(self) -> None:
        """Forget what was known of addresses, as other code lies there now."""
        self.stacks.clear()
        self.unwinder.forget()

    def follow(self, registers: bytes, stack: bytes, images: CodeImages) -> tuple[bytes, int]:
        """The addresses of a stack, and how it ended, as Unwinder.unwind has it."""

        def find(address: int) -> tuple[int, int, int, UnwindTable | None] | None:
            part = self.space.find(address)
            if part is None:
                return None
            image = self._find_image(part, images)
            first = None if image is None else image.find_address(part.offset)
            if image is None or first is None:
                return part.start, part.end, 0, None
            return part.start, part.end, part.start - first & (1 << 64) - 1, image.table

        return self.unwinder.unwind(
            registers, stack, find, lambda address: self._memory.read(address, _CODE_BYTES)
        )

    def _find_image(self, part: Mapping, images: CodeImages) -> CodeImage | None:
        return images.find(self.pid, part, self._root) if part.inode or part.path else None

    def name_address(self, address: int, images: CodeImages) -> list[Row] | None:
        """The frames of an address, the innermost first: functions may be inlined into another.

        None where it is in code that a JIT has not named yet.
        """
        part = self.space.find(address)
        if part is not None and (part.inode or part.path.startswith("[")):
            image = self._find_image(part, images)
            name = None
            if image is not None:
                place = image.find_address(address - part.start + part.offset)
                if place is not None and image.has_lines:
                    told = images.lines.find(f"{self.root}{part.path}", place)
                    if told:
                        return [("native", f, file, part.path, line) for f, file, line in told]
                name = None if place is None else image.symbols.name_around(place)
            return [("native", name, None, part.path, None)]
        row = make_compiled_frame(self.compiled.find(address))
        return None if row is None else [row]


def make_compiled_frame(name: str | None) -> Row | None:
    """The frame of a function in a JIT's map: a Python function, or one of whatever language."""
    if name is None:
        return None
    if not name.startswith(_PYTHON):
        return "native", name, None, "[compiled]", None
    function, _, file = name.removeprefix(_PYTHON).partition(":")
    return "python", function, file or None, None, None


def _list_code(pid: int) -> list[Mapping]:
    """All code of a process, also what is of no file: a JIT's, the kernel's (proc(5), maps)."""
    found = []
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines():
            words = line.split(None, 5)
            if "x" not in words[1]:
                continue
            start, _, end = words[0].partition("-")
            path = words[5] if len(words) > 5 else ""
            found.append(
                Mapping(int(start, 16), int(end, 16), int(words[2], 16), words[3], int(words[4]),
                        path, True)
            )  # fmt: skip
    return found


class KernelNames:
    """Functions of the kernel by address, where it tells them (kernel.kptr_restrict)."""

    def __init__(self) -> None:
        self._starts: np.ndarray | None = None
        self._names: list[str] = []

    def name_address(self, address: int) -> Row:
        """The frame of an address in the kernel."""
        if self._starts is None:
            self._read()
        at = bisect_right(self._starts, address) - 1  # type: ignore[arg-type]
        return "os", self._names[at] if at >= 0 else None, None, KERNEL_MODULE, None

    def _read(self) -> None:
        found = {}
        with contextlib.suppress(OSError):
            for line in Path("/proc/kallsyms").read_bytes().splitlines():
                start, kind, name = line.split(None, 3)[:3]
                if kind in b"tTwW" and (address := int(start, 16)):
                    found[address] = name
        starts = sorted(found)
        self._starts = np.array(starts, np.uint64)
        self._names = [os.fsdecode(found[start]) for start in starts]
