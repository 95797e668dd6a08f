"""What an instruction does and how much of it: the operation with the size in its modifiers.

The bits were found with instructions that ptxas 13.5 made for compute capability 7.5 to 9.0, one
modifier changed at a time, and what nvdisasm says of each; the test beside compares all of them.
Bit numbers count from the lowest of the 128.
"""

from __future__ import annotations

from sightline.importers._cubin import read_opcode

# Bits 73 to 75 of a load or store: the bytes of one thread. 32 bits have no name in SASS.
_ACCESSES = ("LDG", "STG", "LD", "ST", "LDL", "STL", "LDS", "STS", "LDGSTS")
_WIDTHS = (".U8", ".S8", ".U16", ".S16", "", ".64", ".128", None)
_HMMA = ("1688", "16816", "1684", None)
_IMMA = {0: "8816", 2: "8832", 4: "16816", 5: "16832", 6: "16864"}
_DMMA = ("8x8x4", "16x8x4", "16x8x8", "16x8x16")
_HGMMA_DEPTH = (16, 8, 32, None)
_ALWAYS = 7  # bits 12 to 15: the predicate PT, not negated
_SOURCES = ("", ".BF16", ".TF32", None)


def read_operation(low: int, high: int, capability: int) -> str | None:
    """The operation with its size, as LDG.128 or HMMA.16816.F32.BF16; null where not known.

    `low` and `high` are the instruction's halves, `capability` is 10 × major + minor. Modifiers
    that change no size are left out. A size that cannot be read is left out, too: HMMA alone.
    Products of sparse matrices are marked SP and have none, as it would not say what is computed.
    With @ before it where a predicate chooses the lanes, be it the one that chooses none.
    """
    name = read_opcode(low, capability)
    if name is None:
        return None
    operation = _read_size(name, low, high, capability)
    return operation if _bits(low, 12, 4) == _ALWAYS else f"@{operation}"


def _read_size(name: str, low: int, high: int, capability: int) -> str:
    word = low | high << 64
    if name in _ACCESSES:
        width = _WIDTHS[_bits(word, 73, 3)]
        return name if width is None else name + width
    if name in ("HMMA", "IMMA", "DMMA", "HGMMA", "QGMMA") and capability >= 75:
        return _read_product(name, word)
    return name


def _read_product(name: str, word: int) -> str:
    """A matrix product with its shape and types."""
    if _bits(word, 72 if name == "IMMA" else 73, 1) and name != "DMMA":
        return f"{name}.SP"
    if name == "DMMA":
        return f"{name}.{_DMMA[_bits(word, 76, 2)]}"
    if name == "IMMA":
        shape = _IMMA.get(_bits(word, 75, 1) | _bits(word, 85, 2) << 1)
        kind = "4" if _bits(word, 83, 1) else "8"
        return name if shape is None else f"{name}.{shape}.S{kind}"
    if name == "HMMA":
        source = _SOURCES[_bits(word, 82, 2)]
        shape = _HMMA[_bits(word, 75, 1) | _bits(word, 78, 1) << 1]
        result = _bits(word, 76, 1)
    else:
        depth = 32 if name == "QGMMA" else _HGMMA_DEPTH[_bits(word, 58, 2)]
        source = "" if name == "QGMMA" else _SOURCES[_bits(word, 76, 2)]
        shape = None if depth is None else f"64x{8 * (1 + _bits(word, 53, 5))}x{depth}"
        result = _bits(word, 75, 1)
    if shape is None or source is None:
        return name
    return f"{name}.{shape}.F{32 if result else 16}{source}"


def _bits(word: int, first: int, count: int) -> int:
    return word >> first & ((1 << count) - 1)
