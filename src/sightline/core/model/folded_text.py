"""Folded stacks as text: 'root;...;leaf count', one line per stack.

A layer is written as the suffix that perf and iaprof made customary: `_[k]` for the operating
system's kernel, `_[G]` for device source and kernel names, `_[g]` for instructions and stalls. A
frame '-' stands between the CPU's and the device's frames.

The format has no way to write ';' or a line break inside a name, and C++ names hold both: they
are percent-encoded as UTF-8 (%3B, %0A, and %25 for a '%' that could be read so), which other tools
show as it is and which `parse_frames` undoes.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

BOUNDARY = "-"
SUFFIXES = {
    "os": "_[k]",
    "device": "_[G]",
    "gpu_file": "_[G]",
    "kernel": "_[G]",
    "gpu_line": "_[g]",
    "instruction": "_[g]",
    "stall_class": "_[g]",
    "stall_reason": "_[g]",
}
# Encoded: what ends a frame or a line in any reader, a name that could be taken for the boundary
# or a comment, an ending that could be taken for a suffix, and '%' before two hex digits.
_ENCODED = re.compile(
    "[;\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"
    r"|^-$|^#|\[(?=[kGg]\]$)|%(?=[0-9A-F]{2})"
)
_DECODED = re.compile(r"(?:%[0-9A-F]{2})+")


def format_line(frames: list[tuple[str, str, bool]], count: int) -> str:
    """A line from (layer, name, on the device) root first, and a count."""
    texts = []
    was_cpu = False
    for layer, name, on_device in frames:
        if on_device and was_cpu:
            texts.append(BOUNDARY)
        texts.append(_encode(name) + SUFFIXES.get(layer, ""))
        was_cpu = not on_device
    return f"{';'.join(texts)} {count}"


def split_line(line: str) -> tuple[str, int] | None:
    """Stack and count of a line; None where it is not a folded line."""
    stack, blank, count = line.rstrip().rpartition(" ")
    if not blank or not count.isascii() or not count.isdecimal() or len(count) > 18:
        return None
    return stack, int(count)


def parse_frames(stack: str) -> list[tuple[str, str]]:
    """(layer, name) root first; frames without a suffix are native."""
    texts = stack.split(";")
    # iaprof ends each frame with ';', the last one too.
    if len(texts) > 1 and texts[-1] == "":
        texts.pop()
    has_device = any(t.endswith(("_[G]", "_[g]")) for t in texts)
    # iaprof writes the file, then the symbol: the last is the kernel.
    last = max((n for n, t in enumerate(texts) if t.endswith("_[G]")), default=-1)
    frames = []
    inside = 0
    for place, text in enumerate(texts):
        if text == BOUNDARY and has_device:
            continue
        layer = "native"
        for suffix, of_suffix in (("_[k]", "os"), ("_[G]", "kernel"), ("_[g]", "instruction")):
            if text.endswith(suffix):
                text, layer = text[: -len(suffix)], of_suffix
        if layer == "kernel" and place < last:
            layer = "gpu_file"
        elif layer == "instruction":
            layer = ("instruction", "stall_class", "stall_reason")[min(inside, 2)]
            inside += 1
        frames.append((layer, _decode(text)))
    return frames


def _encode(name: str) -> str:
    return _ENCODED.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), name)


def _decode(text: str) -> str:
    return _DECODED.sub(lambda m: unquote(m[0]), text)
