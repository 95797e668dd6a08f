"""A tiny 64-bit ELF file: one function's code, its symbol, and a DWARF 2 line table."""

from __future__ import annotations

import struct


def cubin(function: str, opcodes: list[int], lines: list[tuple[int, int]], file: str) -> bytes:
    """Instructions with these low 12 bits; (offset, line) pairs in ascending order."""
    code = b"".join(struct.pack("<QQ", op, 0) for op in opcodes)
    line, patch = _line_table(lines, file)
    strtab = b"\0" + function.encode() + b"\0"
    symtab = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, len(code))
    reloc = struct.pack("<QQ", patch, 1 << 32 | 2)
    names = [
        "",
        f".text.{function}",
        ".debug_line",
        ".rel.debug_line",
        ".symtab",
        ".strtab",
        ".shstrtab",
    ]
    shstr = b""
    at = []
    for name in names:
        at.append(len(shstr))
        shstr += name.encode() + b"\0"
    bodies = [b"", code, line, reloc, symtab, strtab, shstr]
    kinds = [0, 1, 1, 9, 2, 3, 3]
    links = [0, 0, 0, 4, 5, 0, 0]
    offset = 64
    headers, data = b"", b""
    for n, (body, kind, link) in enumerate(zip(bodies, kinds, links, strict=True)):
        headers += struct.pack(
            "<IIQQQQIIQQ", at[n], kind, 0, 0, offset + len(data), len(body), link, 0, 1, 0
        )
        data += body
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, offset + len(data), 0, 64, 0, 0, 64, 7, 6
    )
    return head + data + headers


def _line_table(lines: list[tuple[int, int]], file: str) -> tuple[bytes, int]:
    prologue = bytes([1, 1]) + struct.pack("b", -5) + bytes([14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1])
    prologue += b"src\0\0" + file.encode() + b"\0" + bytes([1, 0, 0]) + b"\0"
    program = b"\0\x09\x02" + bytes(8)
    patch = 4 + 2 + 4 + len(prologue) + 3
    where, line = 0, 1
    for offset, wanted in lines:
        program += (
            b"\x02" + bytes([offset - where]) + b"\x03" + struct.pack("b", wanted - line) + b"\x01"
        )
        where, line = offset, wanted
    program += b"\0\x01\x01"
    body = struct.pack("<HI", 2, len(prologue)) + prologue + program
    return struct.pack("<I", len(body)) + body, patch
