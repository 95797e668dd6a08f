"""What an instruction does and how much of it: the operation with the size in its modifiers.

The bits were found with instructions that ptxas 13.5 made for compute capability 7.5 to 9.0, and
ptxas 13.0 for 10.0 and 12.0, one modifier changed at a time, and what nvdisasm says of each; the
test beside compares all of them.
Bit numbers count from the lowest of the 128.
"""

from __future__ import annotations

from sightline.formats._cubin import read_opcode

# Bits 73 to 75 of a load or store: the bytes of one thread. 32 bits have no name in SASS.
_ACCESSES = ("LDG", "STG", "LD", "ST", "LDL", "STL", "LDS", "STS", "LDGSTS")
_WIDTHS = (".U8", ".S8", ".U16", ".S16", "", ".64", ".128", None)
# From Blackwell on: bits 74 and 75 of a copy from global to shared memory, and loads and stores of
# 32 bytes, which have numbers of their own.
_COPIED = ("", ".64", ".128", None)
_LONG, _LONG_CODE = (0x17E, 0x17F), 4
_HMMA = ("1688", "16816", "1684", None)
_IMMA = {0: "8816", 2: "8832", 4: "16816", 5: "16832", 6: "16864"}
_QMMA = {0: "16816", 1: "16832"}  # bit 75
_SCALED_FORM = 2  # with a scale for each block: these have one shape and result
_DMMA = ("8x8x4", "16x8x4", "16x8x8", "16x8x16")
_HGMMA_DEPTH = (16, 8, 32, None)
_ALWAYS = 7  # bits 12 to 15: the predicate PT, not negated
_SOURCES = ("", ".BF16", ".TF32", None)


def read_operation(low: int, high: int, capability: int) -> str | None:
    """The operation with its size, as LDG.128 or HMMA.16816.F32.BF16; null where not known.

    `low` and `high` are the instruction's halves, `capability` is 10 × major + minor. Modifiers
    that change no size are left out. A size that cannot be read is left out, too: HMMA alone.
    Products of sparse matrices are marked SP and have none, as it would not say what is computed;
    nor have those in the tensor cores' own memory (UTCHMMA), whose size a descriptor holds.
    With @ before it where a predicate chooses the lanes, be it the one that chooses none.
    """
    name = read_opcode(low, capability, high)
    if name is None:
        return None
    operation = _read_size(name, low, high, capability)
    return operation if _bits(low, 12, 4) == _ALWAYS else f"@{operation}"


def _read_size(name: str, low: int, high: int, capability: int) -> str:
    word = low | high << 64
    if low & 0x1FF in _LONG:
        return f"{name}.256" if _bits(word, 73, 3) == _LONG_CODE else name
    if name in _ACCESSES:
        is_new_copy = name == "LDGSTS" and capability >= 100
        width = _COPIED[_bits(word, 74, 2)] if is_new_copy else _WIDTHS[_bits(word, 73, 3)]
        return name if width is None else name + width
    if name in ("QMMA", "OMMA") and capability >= 89:
        return _read_narrow_product(name, word)
    if name in ("HMMA", "IMMA", "DMMA", "HGMMA", "QGMMA") and capability >= 75:
        return _read_product(name, word)
    return name


def _read_narrow_product(name: str, word: int) -> str:
    """A product of 8 bits and less (Ada, Blackwell but 10.x): its shape, and what it adds to."""
    if _bits(word, 80, 1):
        return f"{name}.SP"
    if name == "OMMA":
        return "OMMA.16864.F32"
    if _bits(word, 9, 3) == _SCALED_FORM:
        return "QMMA.16832.F32"
    return f"QMMA.{_QMMA[_bits(word, 75, 1)]}.F{32 if _bits(word, 77, 1) else 16}"


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
