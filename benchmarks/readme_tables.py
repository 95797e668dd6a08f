"""What benchmarks that write their figures into a Markdown file share."""

from __future__ import annotations

import os
import platform
import textwrap
from pathlib import Path


def describe_machine() -> str:
    """The processor, how many hardware threads may be used, the memory, and Python's version."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        model = named[0] if named else model
    threads = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return f"{model}, {threads} threads, {memory:.0f} GB, Python {platform.python_version()}"


def replace_section(path: Path, script: str, lines: list[str]) -> None:
    """Write lines between a file's two marks of a script. Raises ValueError where it has none."""
    begin, end = f"<!-- written by {script} -->", f"<!-- end of what {script} writes -->"
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"{path} has no lines '{begin}' and '{end}'")
    body = "\n".join(wrap(line) for line in lines).strip()
    path.write_text(f"{head}{begin}\n{body}\n{end}{tail}", encoding="utf-8")


def wrap(line: str) -> str:
    """A line of Markdown at the width of the other pages; a table's row as it is."""
    if line.startswith(("|", "<", "!")):
        return line
    return textwrap.fill(line, 120, subsequent_indent="  " if line.startswith("* ") else "")
