"""Kernels' names by what launches call them, and functions by addresses of stacks.

A launch of the CUDA runtime names a kernel by the address of its host stub, whose symbol is the
kernel's own mangled name (nvcc, "device stub"); HIP by a variable of that name. So a program that
has run for days says its kernels' names as long as its symbols are there. Where they are not, and
for handles (CUfunction, cudaKernel_t), a name is known if the program asked for it while it was
probed, or if the stub keeps its handle in a variable (CUDA 13: crt/host_runtime.h, `__handle`).
"""

from __future__ import annotations

import contextlib
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator

from sightline.record.probe.compiled import CompiledFunctions
from sightline.record.probe.elf import Elf, SymbolIndex, open_elf
from sightline.record.probe.processes import Mapping, Memory, Root, find_file, read_mappings

# _ZZ28__device_stub__Z5saxpyifPfS_ifPfS_E8__handle: a variable in the stub of _Z5saxpyifPfS_.
_HANDLE = re.compile(r"^_ZZL?(\d+)(__device_stub_\w+)E8__handle$")
_HANDLE_END = b"E8__handle"
_STUB = "__device_stub_"
# What hipcc puts before a kernel's name in its host stub: _Z20__device_stub__saxpyifPfS_.
_HIP_STUB = re.compile(r"^_Z(\d+)__device_stub__(\w+)$")


class Image:
    """A mapped file's symbols, kept when the file is closed."""

    def __init__(self, elf: Elf) -> None:
        self.segments = elf.segments.copy()
        self.symbols: SymbolIndex = elf.index_symbols()
        self.handles = elf.list_objects(_HANDLE_END)

    def find_address(self, offset: int) -> int | None:
        """The address in the image of a byte of the file."""
        for segment in self.segments:
            inside = offset - int(segment["offset"])
            if 0 <= inside < int(segment["file_size"]):
                return inside + int(segment["address"])
        return None


class SymbolFiles:
    """The files whose symbols were read, each once for all processes."""

    def __init__(self, make: Callable[[Elf], Image] = Image) -> None:
        self._make = make
        self._images: dict[tuple[str, int], Image | None] = {}

    def load(self, pid: int, mapping: Mapping, root: Root | None) -> Image | None:
        """The symbols of a mapped file; None where it has none or cannot be read."""
        if mapping.file not in self._images:
            image = None
            file = find_file(pid, mapping, root)
            if file is not None:
                with contextlib.suppress(OSError, ValueError), open_elf(file.path) as elf:
                    image = self._make(elf)
            self._images[mapping.file] = image
        return self._images[mapping.file]


class ProcessNames:
    """The names that are known in one process."""

    def __init__(self, pid: int, files: SymbolFiles) -> None:
        self._pid, self._files = pid, files
        self._root: Root | None = None
        with contextlib.suppress(OSError):
            self._root = Root(pid)
        self._memory = Memory(pid)
        self._mappings: list[Mapping] = []
        self._starts: list[int] = []  # of the mappings, which the kernel lists by address
        self._stubs_due = 0.0  # when the stubs' variables may be read again
        self._told: dict[int, str] = {}  # by handle or host function, as the program asked for it
        self._same: dict[int, int] = {}  # a handle, and the one that it was made from
        self._compiled = CompiledFunctions(self._root.path if self._root else "", pid)

    def refresh(self) -> None:
        """Look again at what is mapped; what was known of a process that has ended is kept."""
        with contextlib.suppress(PermissionError):
            self._mappings = read_mappings(self._pid) or self._mappings
        self._starts = [mapping.start for mapping in self._mappings]

    def tell(self, handle: int, name: str) -> None:
        """Note the name of a kernel that the program was given a handle for."""
        self._told[handle] = name

    def tell_same(self, handle: int, origin: int) -> None:
        """Note that a handle stands for what another handle or host function stands for."""
        if handle != origin:
            self._same[handle] = origin

    def read_text(self, address: int) -> str | None:
        """A text in the program's memory."""
        return self._memory.read_text(address)

    def find_kernel(self, handle: int) -> str | None:
        """The kernel's mangled name; None where nothing says it."""
        for _ in range(3):  # a CUfunction of a cudaKernel_t of a host function
            if handle in self._told:
                return self._told[handle]
            if handle not in self._same:
                break
            handle = self._same[handle]
        mapping = self._find_mapping(handle)
        if mapping is None:
            return self._find_stub_handle(handle)
        image = self._files.load(self._pid, mapping, self._root)
        if image is None:
            return None
        address = image.find_address(handle - mapping.start + mapping.offset)
        name = None if address is None else image.symbols.name_exact(address)
        return strip_stub(name) if name else None

    def _find_stub_handle(self, handle: int) -> str | None:
        """Look for the handle in the variables where stubs keep theirs.

        A library has ten thousand of them, and a kernel that is in none is asked for with each of
        its launches: so reading them takes a twentieth of the time at most.
        """
        if time.monotonic() >= self._stubs_due:
            places = list(self._list_stubs())
            began = time.monotonic()
            words = self._memory.read_words([address for _, address in places])
            for (kernel, _), word in zip(places, words, strict=True):
                if word:
                    self._told.setdefault(word, kernel)
            ended = time.monotonic()
            self._stubs_due = ended + 20 * (ended - began)
        return self._told.get(handle)

    def _list_stubs(self) -> Iterator[tuple[str, int]]:
        """Each kernel that has a variable for its handle, and where that lies."""
        for mapping in self._mappings:
            if mapping.offset or not (image := self._files.load(self._pid, mapping, self._root)):
                continue
            base = mapping.start - (image.find_address(0) or 0)
            for name, address in image.handles:
                if (kernel := name_of_stub(name)) is not None:
                    yield kernel, base + address

    def find_function(self, address: int) -> tuple[str, str | None]:
        """The module and the function that a return address lies in."""
        mapping = self._find_mapping(address)
        if mapping is None:
            return "", self._compiled.find(address)
        module = mapping.path.rsplit("/", 1)[-1]
        image = self._files.load(self._pid, mapping, self._root)
        # The call is before the address where it returns to, which may belong to the next function.
        if image is None:
            return module, None
        place = image.find_address(address - 1 - mapping.start + mapping.offset)
        return module, None if place is None else image.symbols.name_around(place)

    def _find_mapping(self, address: int) -> Mapping | None:
        at = bisect_right(self._starts, address) - 1
        return self._mappings[at] if at >= 0 and address < self._mappings[at].end else None


def strip_stub(name: str) -> str:
    """A host function's symbol as the kernel's: of HIP's stubs without what marks them."""
    found = _HIP_STUB.match(name)
    if found is None:
        return name
    length = int(found[1]) - len("__device_stub__")
    return f"_Z{length}{found[2]}"


def name_of_stub(variable: str) -> str | None:
    """The kernel in whose stub a variable lies: the stub's name is as long as its number says."""
    found = _HANDLE.match(variable)
    if found is None:
        return None
    stub = found[2][: int(found[1])]
    return stub.removeprefix(_STUB) or None
