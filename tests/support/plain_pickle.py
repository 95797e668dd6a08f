"""An independent reading of a pickle of plain data, with the standard library's opcode names."""

from __future__ import annotations

import pickletools
from typing import Any

_VALUES = {
    "NONE": lambda _: None, "NEWTRUE": lambda _: True, "NEWFALSE": lambda _: False,
    "EMPTY_DICT": lambda _: {}, "EMPTY_LIST": lambda _: [], "EMPTY_TUPLE": lambda _: (),
}  # fmt: skip


def load_plain(data: bytes) -> Any:
    """The value; KeyError where the pickle is more than plain data."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    for opcode, argument, _ in pickletools.genops(data):
        name = opcode.name
        if name in ("PROTO", "FRAME", "STOP"):
            continue
        if name == "MARK":
            marks.append(len(stack))
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name.endswith("PUT"):
            memo[argument] = stack[-1]
        elif name.endswith("GET"):
            stack.append(memo[argument])
        elif name.startswith("TUPLE"):
            at = marks.pop() if name == "TUPLE" else len(stack) - int(name[-1])
            stack[at:] = [tuple(stack[at:])]
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            at = marks.pop() if name.endswith("S") else len(stack) - (1 if name == "APPEND" else 2)
            items, target = stack[at:], stack[at - 1]
            del stack[at:]
            if name.startswith("APPEND"):
                target.extend(items)
            else:
                target.update(zip(items[::2], items[1::2], strict=True))
        elif name.startswith(("BININT", "LONG", "BINUNI", "SHORT_BINUNI", "BINFLOAT")):
            stack.append(argument)
        else:
            stack.append(_VALUES[name](None))
    return stack.pop()
