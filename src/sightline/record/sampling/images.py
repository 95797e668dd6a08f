"""What files of code say of it: names of functions, and how to get from each to its caller."""

from __future__ import annotations

import contextlib
import os

from sightline._native import UnwindTable
from sightline.record.probe.elf import Elf
from sightline.record.probe.names import Image, SymbolFiles
from sightline.record.probe.processes import Mapping, Memory, Root
from sightline.record.sampling.lines import LineFinders

_MOST_BYTES = 256 << 20  # of call frame information: libtorch_cuda.so has 15 MB
# addr2line reads 64 MB in about a second, and meanwhile samples wait in the rings (ours).
_MOST_DEBUG_BYTES = 64 << 20
VDSO = "[vdso]"


class CodeImage(Image):
    """A mapped file's symbols and call frame information, kept when the file is closed.

    `has_lines`: it says which lines of the source its code is of.
    """

    def __init__(self, elf: Elf) -> None:
        super().__init__(elf)
        self.table: UnwindTable | None = None
        size = elf.measure_section(".debug_info") or 0
        self.has_lines = 0 < size <= _MOST_DEBUG_BYTES and bool(elf.measure_section(".debug_line"))
        index = elf.read_section(".eh_frame_hdr", _MOST_BYTES)
        frames = elf.read_section(".eh_frame", _MOST_BYTES)
        if index is not None and frames is not None:
            with contextlib.suppress(ValueError):
                self.table = UnwindTable(index[1], index[0], frames[1], frames[0])


class CodeImages:
    """The images that were read, each once for all processes."""

    def __init__(self) -> None:
        self._files = SymbolFiles(CodeImage)
        self.lines = LineFinders()
        self._vdso: CodeImage | None = None
        self._knows_vdso = False

    def find(self, pid: int, part: Mapping, root: Root | None) -> CodeImage | None:
        """The image that a part of a process's memory is of; None where none can be read."""
        if part.path == VDSO:
            return self._find_vdso()
        image = self._files.load(pid, part, root) if part.inode else None
        return image if isinstance(image, CodeImage) else None

    def _find_vdso(self) -> CodeImage | None:
        """The kernel's own code in all processes: that of this one is the same."""
        if not self._knows_vdso:
            self._knows_vdso = True
            with contextlib.suppress(OSError, ValueError), open("/proc/self/maps") as maps:  # noqa: PTH123
                line = next((line for line in maps if line.rstrip().endswith(VDSO)), "")
                start, _, end = line.partition(" ")[0].partition("-")
                size = int(end, 16) - int(start, 16)
                self._vdso = CodeImage(Elf(Memory(os.getpid()).read(int(start, 16), size)))
        return self._vdso
