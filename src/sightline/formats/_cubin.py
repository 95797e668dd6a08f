"""What a GPU binary says of each instruction: its opcode, and its source line.

A cubin is a 64-bit ELF file. Code lies in `.text.<mangled kernel name>`, 16 bytes an instruction
since Volta; lines lie in `.debug_line` (DWARF 2 to 4; nvcc 13.0 writes 2) where the program was
built with -lineinfo.
Everything is optional: what cannot be read gives no opcode or no line, never an error.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

INSTRUCTION_BYTES = 16
_MOST_LINES = 1 << 31  # a higher line number is damage
_SHT_SYMTAB = 2

# The low 9 bits of an instruction name the operation, the 3 above them the form of its operands.
# Each entry was checked against executed-instruction counts per opcode that Nsight Compute wrote
# for the same code on compute capability 8.0 and 8.6; the importer repeats that check for every
# kernel whose report has these counts. FMUL, FADD and FFMA: maxas/turingas (public assemblers).
# Those of floating point, memory and matrix products also, and some only, against nvdisasm 13.5 for
# code of 7.5 to 9.0 (tests/formats/test_sass.py).
_OPCODES = {
    0x002: "MOV", 0x003: "P2R", 0x005: "CS2R", 0x006: "VOTE", 0x007: "SEL", 0x008: "FSEL",
    0x009: "FMNMX", 0x00B: "FSETP", 0x00C: "ISETP",
    0x010: "IADD3", 0x011: "LEA", 0x012: "LOP3", 0x013: "IABS", 0x017: "IMNMX", 0x019: "SHF",
    0x01C: "PLOP3", 0x020: "FMUL", 0x021: "FADD", 0x023: "FFMA", 0x024: "IMAD", 0x025: "IMAD",
    0x027: "IMAD", 0x028: "DMUL", 0x029: "DADD", 0x02A: "DSETP", 0x02B: "DFMA", 0x030: "HADD2",
    0x031: "HFMA2", 0x032: "HMUL2", 0x034: "HSETP2", 0x035: "HFMA2", 0x037: "IMMA", 0x03B: "LDSM",
    0x03C: "HMMA", 0x03E: "F2FP", 0x03F: "DMMA", 0x07A: "QMMA", 0x090: "UIADD3",
    0x0B9: "ULDC", 0x105: "F2I", 0x106: "I2F", 0x108: "MUFU", 0x109: "POPC", 0x111: "F2I",
    0x112: "I2F", 0x118: "NOP", 0x119: "S2R", 0x11A: "DEPBAR", 0x11D: "BAR", 0x141: "BSYNC",
    0x144: "CALL", 0x145: "BSSY", 0x146: "YIELD", 0x147: "BRA", 0x148: "WARPSYNC", 0x14D: "EXIT",
    0x150: "RET", 0x180: "LD", 0x181: "LDG", 0x182: "LDC", 0x183: "LDL", 0x184: "LDS", 0x185: "ST",
    0x186: "STG", 0x187: "STL", 0x188: "STS", 0x189: "SHFL",
    0x1A8: "ATOMG", 0x1AE: "LDGSTS", 0x1AF: "LDGDEPBAR", 0x1C3: "S2UR", 0x1F0: "HGMMA",
    0x1F1: "IGMMA", 0x1F3: "QGMMA",
}  # fmt: skip


# Blackwell kept the numbers of these, and has new ones, some of which mean other operations on 10.x
# and 11.x than on 12.x. Each was met in code for 10.0, 11.0 and 12.0 (kernels of NCCL 2.31 and of
# tests/formats/recorded: 2.9 million instructions), and always was what nvdisasm 13.5 says.
_GONE = (0x035, 0x0B9, 0x1F0, 0x1F1, 0x1F3)
_BLACKWELL = {number: name for number, name in _OPCODES.items() if number not in _GONE} | {
    0x016: "PRMT", 0x02E: "ACQBULK", 0x02F: "ELECT", 0x045: "I2FP", 0x048: "VIMNMX", 0x082: "UMOV",
    0x086: "VOTEU", 0x087: "USEL", 0x08C: "UISETP", 0x091: "ULEA", 0x092: "ULOP3", 0x099: "USHF",
    0x09C: "UPLOP3", 0x0A4: "UIMAD", 0x0A5: "UIMAD", 0x0BD: "UFLO", 0x0CA: "R2UR", 0x100: "FLO",
    0x101: "BREV", 0x110: "F2F", 0x11B: "ENDCOLLECTIVE", 0x142: "BREAK", 0x143: "CALL",
    0x14E: "LEPC", 0x155: "BMOV", 0x156: "BMOV", 0x15D: "NANOSLEEP", 0x17E: "LDG", 0x17F: "STG",
    0x18A: "ATOM", 0x18B: "ATOM", 0x18D: "ATOMS", 0x18E: "REDG", 0x18F: "CCTL", 0x192: "MEMBAR",
    0x1A1: "MATCH", 0x1A5: "LDGMC", 0x1A6: "REDG", 0x1A7: "SYNCS", 0x1AA: "QSPC", 0x1AC: "LDCU",
    0x1B1: "SYNCS", 0x1B7: "UTMACMDFLUSH", 0x1BA: "UBLKCP", 0x1C4: "REDUX", 0x1C6: "FENCE",
}  # fmt: skip
_DATA_CENTER = _BLACKWELL | {
    0x036: "VIADD", 0x046: "VIADDMNMX", 0x049: "FFMA2", 0x04A: "FMUL2", 0x04B: "FADD2",
}  # fmt: skip
_GRAPHICS = _BLACKWELL | {
    0x035: "IADD", 0x04A: "UVIMNMX", 0x054: "UFADD", 0x055: "UFFMA", 0x056: "UFMUL",
    0x05A: "UI2F", 0x05C: "UF2I", 0x07F: "OMMA", 0x085: "UIMNMX", 0x097: "UIADD3", 0x0A6: "UIMAD",
}  # fmt: skip
# Products in the tensor cores' own memory (PTX: tcgen05.mma) share a number; bits 72 and 73 say
# what is multiplied, and bit 63 that it is 4 bits wide.
_TENSOR_MEMORY = 0x1EA
_TENSOR_NAMES = ("UTCHMMA", "UTCIMMA", None, "UTCQMMA")


def read_opcode(low: int, capability: int, high: int | None = None) -> str | None:
    """The mnemonic of an instruction, from its halves of 64 bits; None where it is not known.

    `capability` is 10 × major + minor, from Volta to Blackwell. Without the upper half a few are
    not known.
    """
    if 70 <= capability < 100:
        return _OPCODES.get(low & 0x1FF)
    if not 100 <= capability < 130:
        return None
    if capability >= 120:
        return _GRAPHICS.get(low & 0x1FF)
    if low & 0x1FF != _TENSOR_MEMORY:
        return _DATA_CENTER.get(low & 0x1FF)
    if high is None:
        return None
    return "UTCOMMA" if low >> 63 else _TENSOR_NAMES[high >> 8 & 3]


# ptxas writes it for a debugger (-G); line tables alone (-lineinfo) are `.nv_debug_line_sass`.
_REGISTERS_OF_VARIABLES = ".nv_debug_info_reg_sass"


@dataclass(frozen=True)
class Section:
    """An ELF section."""

    name: str
    kind: int
    link: int
    start: int
    end: int


@dataclass
class Cubin:
    """A GPU binary: where its functions' code lies, and the source lines of their offsets."""

    data: bytes
    capability: int = 0  # 10 × major + minor that it was compiled for; 0 where that is not known
    code: dict[str, tuple[int, int]] = field(default_factory=dict)
    lines: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)
    is_debug: bool = False  # built for a debugger (nvcc -G): without optimization
    note: str | None = None  # why it could not be read in full

    def words(self, function: str) -> list[int]:
        """The lower 64 bits of each instruction of a function."""
        start, end = self.code.get(function, (0, 0))
        count = (end - start) // INSTRUCTION_BYTES
        return [w for w, _ in struct.iter_unpack("<QQ", self.data[start : start + 16 * count])]

    def read_instruction(self, function: str, offset: int) -> tuple[int, int] | None:
        """The lower and the upper 64 bits of an instruction; None outside of the function."""
        start, end = self.code.get(function, (0, 0))
        if not 0 <= offset <= end - start - INSTRUCTION_BYTES:
            return None
        low, high = struct.unpack_from("<QQ", self.data, start + offset)
        return low, high

    def find_line(self, function: str, offset: int) -> tuple[str | None, int | None]:
        """The source file and line of an instruction; null where the line table has none."""
        rows = self.lines.get(function, [])
        at = bisect.bisect_right(rows, offset, key=lambda row: row[0]) - 1
        return (rows[at][1], rows[at][2]) if at >= 0 and offset >= 0 else (None, None)


def read_cubin(data: bytes) -> Cubin:
    """A cubin's functions and line tables, as far as they can be read."""
    cubin = Cubin(data)
    try:
        names = _Names(data)
        sections = _sections(data, names)
        cubin.capability = _read_capability(data)
        for s in sections:
            if s.name.startswith(".text."):
                cubin.code[s.name.removeprefix(".text.")] = (s.start, s.end)
                if (s.end - s.start) % INSTRUCTION_BYTES:
                    cubin.note = "its code is not a whole number of instructions"
        cubin.is_debug = any(s.name == _REGISTERS_OF_VARIABLES for s in sections)
        debug = next((s for s in sections if s.name == ".debug_line"), None)
        if debug is not None:
            cubin.lines = _lines(data, debug, _relocate(data, names, sections, ".debug_line"))
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        cubin.note = str(error) or type(error).__name__
    return cubin


def _read_capability(data: bytes) -> int:
    """What a cubin was compiled for, from its flags.

    The low byte until CUDA 12 (version 7 of the ABI), the next one since CUDA 13: LLVM's ELF.h,
    EF_CUDA_SM and EF_CUDA_SM_MASK.
    """
    (flags,) = struct.unpack_from("<I", data, 0x30)
    return int(flags >> 8 & 0xFF if data[8] >= 8 else flags & 0xFF)


def _sections(data: bytes, names: _Names) -> list[Section]:
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("it is not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    width, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * width) for i in range(count)]
    base = raw[names_at][4]
    return [
        Section(
            names.at(base + r[0]), r[1], r[6], min(r[4], len(data)), min(r[4] + r[5], len(data))
        )
        for r in raw
    ]


class _Names:
    """Names in a string table. All that are given out together are no longer than the file."""

    def __init__(self, data: bytes) -> None:
        self.data, self.left = data, len(data)
        self.known: dict[int, str] = {}

    def at(self, start: int) -> str:
        if start not in self.known:
            end = self.data.find(b"\0", start, start + self.left)
            if end < 0:
                raise ValueError("a name of the ELF file has no end")
            self.left -= end - start
            self.known[start] = self.data[start:end].decode("utf-8", "replace")
        return self.known[start]


def _relocate(data: bytes, names: _Names, sections: list[Section], target: str) -> dict[int, str]:
    """Offset in a section, and the function whose address belongs there."""
    symbols = next((s for s in sections if s.kind == _SHT_SYMTAB), None)
    if symbols is None or symbols.link >= len(sections):
        return {}
    base = sections[symbols.link].start
    found = {}
    for table in sections:
        if table.name not in (f".rel{target}", f".rela{target}"):
            continue
        width = 24 if table.name.startswith(".rela") else 16
        for at in range(table.start, table.end - width + 1, width):
            offset, info = struct.unpack_from("<QQ", data, at)
            entry = symbols.start + 24 * (info >> 32)
            name, _, _, section = struct.unpack_from("<IBBH", data, entry)
            text = names.at(base + name)
            if not text and section < len(sections):
                text = sections[section].name
            found[offset] = text.removeprefix(".text.")
    return found


class _Reader:
    """Little-endian numbers of a line program, within its bounds."""

    def __init__(self, data: bytes, pos: int, end: int) -> None:
        self.data, self.pos, self.end = data, pos, end

    def number(self, width: int, *, signed: bool = False) -> int:
        self.pos += width
        if self.pos > self.end:
            raise ValueError("a line table is cut off")
        return int.from_bytes(self.data[self.pos - width : self.pos], "little", signed=signed)

    def leb(self, *, signed: bool = False) -> int:
        result = shift = 0
        while True:
            byte = self.number(1)
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result - (1 << shift) if signed and byte & 0x40 else result
            if shift > 63:
                raise ValueError("a number of a line table is too long")

    def text(self) -> str:
        stop = self.data.find(b"\0", self.pos, self.end)
        if stop < 0:
            raise ValueError("a name of a line table is cut off")
        found = self.data[self.pos : stop].decode("utf-8", "replace")
        self.pos = stop + 1
        return found


def _lines(
    data: bytes, section: Section, functions: dict[int, str]
) -> dict[str, list[tuple[int, str, int]]]:
    """(offset, file, line) of each function's rows, sorted by offset."""
    found: dict[str, list[tuple[int, str, int]]] = {}
    pos = section.start
    while pos + 4 <= section.end:
        length = int.from_bytes(data[pos : pos + 4], "little")
        end = pos + 4 + length
        if length < 10 or end > section.end:
            break
        for function, offset, file, line in _program(data, pos, end, section.start, functions):
            if not 0 < line < _MOST_LINES:
                raise ValueError("a line number is out of bounds")
            found.setdefault(function, []).append((offset, file, line))
        pos = end
    return {name: sorted(rows, key=lambda row: row[0]) for name, rows in found.items()}


def _program(
    data: bytes, start: int, end: int, section: int, functions: dict[int, str]
) -> Iterator[tuple[str, int, str, int]]:
    """Run one line program (DWARF 4, section 6.2)."""
    read = _Reader(data, start + 4, end)
    version = read.number(2)
    if not 2 <= version <= 4:
        return
    program = read.number(4)
    program += read.pos
    step = read.number(1)
    if version == 4:
        read.number(1)
    read.number(1)
    base, span, first = read.number(1, signed=True), read.number(1) or 1, read.number(1)
    lengths = [read.number(1) for _ in range(first - 1)]
    files = _files(read)
    read.pos = min(program, end)
    function, address, file, line = "", 0, 1, 1
    while read.pos < end:
        op = read.number(1)
        if op >= first:
            address += (op - first) // span * step
            line += base + (op - first) % span
            yield function, address, files.get(file, ""), line
        elif op == 0:  # extended
            size = read.leb()
            at = read.pos
            kind = read.number(1) if size else 0
            if kind == 1:
                function, address, file, line = "", 0, 1, 1
            elif kind == 2:
                function = functions.get(read.pos - section, function)
                address = read.number(8)
            read.pos = at + size
        elif op == 1:
            yield function, address, files.get(file, ""), line
        elif op == 2:
            address += read.leb() * step
        elif op == 3:
            line += read.leb(signed=True)
        elif op == 4:
            file = read.leb()
        elif op == 8:
            address += (255 - first) // span * step
        elif op == 9:
            address += read.number(2)
        else:
            for _ in range(lengths[op - 1]):
                read.leb()


def _files(read: _Reader) -> dict[int, str]:
    """The file names of a line program, by number."""
    folders = [""]
    while folder := read.text():
        folders.append(folder)
    files: dict[int, str] = {}
    while name := read.text():
        number = read.leb()
        read.leb(), read.leb()
        inside = folders[number] if number < len(folders) else ""
        files[len(files) + 1] = f"{inside}/{name}" if inside else name
    return files
