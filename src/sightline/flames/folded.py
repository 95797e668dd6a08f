"""Folded stacks: one line per stack, 'root;...;leaf count', as flamegraph.pl and others read them.

A layer is written as the suffix that perf and iaprof made customary: `_[k]` for the operating
system's kernel, `_[G]` for device source and kernel names, `_[g]` for instructions and stalls. A
frame '-' stands between the CPU's and the device's frames.

The format has no way to write ';' or a line break inside a name, and C++ names hold both: they
are percent-encoded as UTF-8 (%3B, %0A, and %25 for a '%' that could be read so), which other tools
show as it is and which `parse` undoes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from sightline.flames.layers import SIDE
from sightline.flames.stacks import Stacks, from_paths

BOUNDARY = "-"
_SUFFIX = {
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


def write(stacks: Stacks, weight: str) -> str:
    """All stacks of a weight. Whole layers that the suffixes cannot tell apart become one."""
    frames = stacks.frames.sort("frame_id")
    names = [
        (_encode(name) + _SUFFIX.get(layer, ""), SIDE[layer] in ("gpu", "leaf"))
        for layer, name in frames.select("layer", "name").rows()
    ]
    lines: dict[str, int] = {}
    for ids, value in stacks.rows.select("frames", weight).rows():
        if value:
            line = ";".join(_with_boundary([names[i] for i in ids]))
            lines[line] = lines.get(line, 0) + value
    return "".join(f"{line} {value}\n" for line, value in sorted(lines.items()))


def _with_boundary(frames: list[tuple[str, bool]]) -> Iterator[str]:
    was_cpu = False
    for name, on_device in frames:
        if on_device and was_cpu:
            yield BOUNDARY
        yield name
        was_cpu = not on_device


def parse(lines: Iterable[str], weight: str = "samples") -> tuple[Stacks, int]:
    """Stacks from folded lines, and how many lines were none. Blank and '#' lines are no loss."""
    paths = []
    bad = 0
    for line in lines:
        text = line.rstrip("\r\n")
        if not text.strip() or text.startswith("#"):
            continue
        stack, blank, count = text.rstrip().rpartition(" ")
        if not blank or not count.isdecimal() or len(count) > 18:
            bad += 1
            continue
        paths.append((_frames(stack), "exact", {weight: int(count)}))
    return from_paths(paths), bad


def _frames(stack: str) -> list[tuple[str, str]]:
    texts = stack.split(";")
    # iaprof ends each frame with ';', the last one too.
    if len(texts) > 1 and texts[-1] == "":
        texts.pop()
    has_device = any(t.endswith(("_[G]", "_[g]")) for t in texts)
    frames = []
    on_device = 0
    for place, text in enumerate(texts):
        if text == BOUNDARY and has_device:
            continue
        layer = "native"
        for suffix, of_suffix in (("_[k]", "os"), ("_[G]", "kernel"), ("_[g]", "instruction")):
            if text.endswith(suffix):
                text, layer = text[: -len(suffix)], of_suffix
        if layer == "kernel":
            # iaprof writes the file, then the symbol: only the last one is the kernel.
            later = texts[place + 1 :]
            layer = "gpu_file" if any(t.endswith("_[G]") for t in later) else "kernel"
        elif layer == "instruction":
            layer = ("instruction", "stall_class", "stall_reason")[min(on_device, 2)]
            on_device += 1
        frames.append((layer, _decode(text)))
    return frames


def _encode(name: str) -> str:
    return _ENCODED.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), name)


def _decode(text: str) -> str:
    return _DECODED.sub(lambda m: unquote(m[0]), text)
