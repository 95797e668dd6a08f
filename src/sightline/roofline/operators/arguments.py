"""An operator's recorded arguments: shapes, element types, strides, and values of the rest."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

# Bytes of an element by the name that PyTorch's profiler writes (c10 and C++ names).
ELEMENT_BYTES = {
    "float": 4,
    "double": 8,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e5m2fnuz": 1,
    "long int": 8,
    "long": 8,
    "int": 4,
    "short": 2,
    "short int": 2,
    "signed char": 1,
    "unsigned char": 1,
    "bool": 1,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}


@dataclass(frozen=True)
class Tensor:
    """A tensor: its shape, the name of its element type, and its strides where recorded."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """Elements that it has."""
        return math.prod(self.shape)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def stored_bytes(self) -> int:
        """Bytes in memory: what is expanded (stride 0) is stored once."""
        if self.strides is None:
            return self.elements * self.element_bytes
        kept = (size for size, step in zip(self.shape, self.strides, strict=True) if step)
        return (math.prod(kept) if self.elements else 0) * self.element_bytes


@dataclass(frozen=True)
class Arguments:
    """Positional arguments: a tensor, a list of tensors, or None, and the values of the rest."""

    inputs: tuple[Tensor | tuple[Tensor, ...] | None, ...]
    values: tuple[str, ...]

    def tensor(self, index: int) -> Tensor | None:
        """The tensor in this place, if one is there."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return found if isinstance(found, Tensor) else None

    def tensors(self) -> list[Tensor]:
        """All tensors, those of lists too, in order."""
        found: list[Tensor] = []
        for item in self.inputs:
            if isinstance(item, Tensor):
                found.append(item)
            elif item is not None:
                found += item
        return found

    def value(self, index: int) -> str | None:
        """The text of a value that is not a tensor; None where it was not recorded."""
        return (self.values[index] or None) if index < len(self.values) else None

    def flag(self, index: int) -> bool | None:
        """A value that is a bool; None where it was not recorded."""
        return {"True": True, "False": False}.get(self.value(index) or "")

    def integers(self, index: int) -> tuple[int, ...] | None:
        """A value that is an integer or a list of them; None where it was not recorded."""
        text = self.value(index)
        found = None if text is None else read_json(text)
        found = [found] if type(found) is int else found
        if not isinstance(found, list) or any(type(n) is not int for n in found):
            return None
        return tuple(found)

    def flags(self, index: int) -> tuple[bool, ...] | None:
        """A value that is a list of bools; None where it was not recorded."""
        words = (self.value(index) or "").strip("[]").split(", ")
        return tuple(w == "True" for w in words) if set(words) <= {"True", "False"} else None


def parse_arguments(
    shapes: str | None, types: str | None, strides: str | None = None, values: str | None = None
) -> Arguments | None:
    """The arguments of a call, from the four texts of `host_ops`; None where they make no sense."""
    sizes, kinds = read_json(shapes), read_json(types)
    if not isinstance(sizes, list) or not isinstance(kinds, list) or len(kinds) < len(sizes):
        return None
    steps, texts = read_json(strides), read_json(values)
    steps = steps if isinstance(steps, list) and len(steps) == len(sizes) else [None] * len(sizes)
    texts = texts if isinstance(texts, list) else []
    inputs = tuple(_read_input(*item) for item in zip(sizes, kinds, steps, strict=False))
    return Arguments(inputs, tuple(t if isinstance(t, str) else "" for t in texts))


def read_json(text: str | None) -> Any:
    """What a recorded text holds as JSON; None where it is none."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_input(shape: Any, dtype: Any, strides: Any) -> Tensor | tuple[Tensor, ...] | None:
    """A tensor or a list of tensors; the elements of a list have no type of their own."""
    if not isinstance(dtype, str) or dtype not in ELEMENT_BYTES or not _is_shape(shape):
        return None
    known = _is_shape(strides) and len(strides) == len(shape)
    return Tensor(tuple(shape), dtype, tuple(strides) if known else None)


def _is_shape(value: Any) -> bool:
    # 2**40 elements in a direction are more than any memory holds: such a number is damage.
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**40 for n in value)
