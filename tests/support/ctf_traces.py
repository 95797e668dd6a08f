"""CTF traces written bit by bit, from the format's description alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

HEADER = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace { major = 1; minor = 8; byte_order = BYTE_ORDER; ENV };
clock { name = clk; freq = 1000000000; offset = 1000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.clk.value; } := stamp;
stream { event.header := struct { uint8_t id; stamp timestamp; }; CONTEXT };
"""


class Bits:
    """Bits one behind another, as CTF 1.8.3, 4.1 lays them out. A text of 0 and 1 of each byte."""

    def __init__(self, *, is_big: bool = False) -> None:
        self.is_big = is_big
        self._bits: list[int] = []  # in the order of the byte order

    def align(self, to: int) -> Bits:
        self._bits += [0] * (-len(self._bits) % to)
        return self

    def integer(self, value: int, size: int, alignment: int = 1) -> Bits:
        self.align(alignment)
        digits = [value >> i & 1 for i in range(size)]
        self._bits += digits[::-1] if self.is_big else digits
        return self

    def swapped(self, value: int, size: int) -> Bits:
        """A number of whole bytes, of the other byte order."""
        order = "little" if self.is_big else "big"
        return self.raw(value.to_bytes(size // 8, order))

    def raw(self, data: bytes) -> Bits:
        self.align(8)
        for byte in data:
            self.integer(byte, 8)
        return self

    def text(self, text: str) -> Bits:
        return self.raw(text.encode() + b"\0")

    def bytes(self) -> bytes:
        self.align(8)
        whole = [self._bits[i : i + 8] for i in range(0, len(self._bits), 8)]
        if not self.is_big:
            whole = [bits[::-1] for bits in whole]
        return bytes(int("".join(map(str, bits)), 2) for bits in whole)


def write_trace(folder: Path, metadata: str, *streams: bytes) -> Path:
    """A trace folder with this metadata and these streams."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(metadata, encoding="utf-8")
    for number, data in enumerate(streams):
        (folder / f"stream_{number}").write_bytes(data)
    return folder


def declare_events(
    events: Sequence[tuple[str, str]], *, is_big: bool = False, env: str = "", context: str = ""
) -> str:
    """TSDL of a stream with events: their names and the fields of each."""
    start = HEADER.replace("BYTE_ORDER", "be" if is_big else "le").replace("ENV }", "}")
    start = start.replace("CONTEXT", context)
    declared = [
        f'event {{ name = "{name}"; id = {number}; fields := struct {{ {fields} }}; }};'
        for number, (name, fields) in enumerate(events)
    ]
    return "\n".join([start, f"env {{ {env} }};" if env else "", *declared])
