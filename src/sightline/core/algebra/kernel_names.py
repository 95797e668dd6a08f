"""Kernel names as different tools write them, made comparable."""

from __future__ import annotations

import re


def normalize_kernel_name(name: str) -> str:
    """A kernel's name as all tools would write it: without return type, arguments and casts."""
    text = re.sub(r"\(anonymous namespace\)::|<unnamed>::|\[clone [^\]]*\]", "", name)
    # Template values: ncu writes (int)32 and (bool)1 where others write 32 and true.
    text = re.sub(r"\((?:[\w:]|\s)+\)(?=[-\d])", "", text)
    text = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", text))
    text = re.sub(r"(?<=\d)(?:ull|ul|u|ll|l)\b", "", text)
    depth = 0
    for at, char in enumerate(text):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "(" and depth <= 0:
            text = text[:at]
            break
    text = re.sub(r"^(?:static\s+)?void\s+", "", text.strip())
    return re.sub(r"\s+", "", text)
