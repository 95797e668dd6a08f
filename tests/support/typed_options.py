"""Options of other tools that sightline types, or tells people to type: collected from its sources.

A command is found where a tool's name is followed by an option, in strings of the code and in the
documents; what a backend types is asked of the backends themselves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.pages import ROOT

# Tools of the makers of GPUs, by the names that one types.
TOOLS = (
    "nsys", "ncu", "nvidia-smi", "dcgmi", "nvprof", "rocprofv3", "rocprof-compute", "amd-smi",
    "rocm-smi", "unitrace", "onetrace", "gtpin", "iaprof", "vtune", "xpu-smi",
)  # fmt: skip
# Commands of a tool that have options of their own.
COMMANDS = {
    "nsys": ("profile", "stats", "export", "start", "stop", "launch", "analyze"),
    "nvidia-smi": ("mig", "topo", "nvlink", "dmon", "pmon"),
    "dcgmi": ("dmon", "diag", "discovery", "policy", "health", "profile", "stats"),
    "amd-smi": ("metric", "monitor", "list", "static", "set", "topology"),
    "rocprof-compute": ("profile", "analyze"),
    "xpu-smi": ("dump", "discovery", "health", "stats", "topology"),
    "iaprof": ("record", "flame"),
}  # fmt: skip
_TOOL = re.compile(rf"(?<![\w./`-])(?<!--backend )`?({'|'.join(TOOLS)})(?: |$)")
# A file without any of these types nothing: it need not be parsed.
_CAN_TYPE = re.compile(rf"{'|'.join(TOOLS)}|--(?:section|set) ")
# What ends a command within a sentence.
_END = re.compile(
    r"[`|;()\"']|\s(?:or|and|then|to|into|with|is|was|has|as|in|of|for|on|if|reads?|says?|→|·|—|#|&&)\s"
    r"|:\s|,\s(?!-)|\.\s|\.$|\s{2,}(?=[a-z(])|\\n"
)
_OPTION = re.compile(r"^(--?[A-Za-z][A-Za-z0-9-]*)(?:=(.*))?$")
_STOP = ("--", "python", "python3", "./a.out", "./app", "…", "...", "PROGRAM", "COMMAND", "APP",
         "mpirun", "srun", "torchrun")  # fmt: skip
_HOLE = "\0"  # what an f-string fills in


class Typed(NamedTuple):
    """An option as it is typed: by which tool and command of it, with what, and where."""

    tool: str
    command: str
    option: str
    value: str
    place: str


def collect_typed() -> Iterator[Typed]:
    """All options in strings of the code and in the documents."""
    for path in sorted((ROOT / "src" / "sightline").rglob("*.py")):
        text = path.read_text("utf-8")
        if path.name == "_declared.py" or not _CAN_TYPE.search(text):  # written from the others
            continue
        tree = ast.parse(text)
        for line, string in _list_strings(tree):
            yield from find_commands(string, f"{path.relative_to(ROOT)}:{line}")
        yield from _list_built(path, tree)
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    for path in pages:
        # Written from the code; commands of this repository, not of the tools.
        if path.name in ("sentences.md", "reference.md", "cases.md", "contributing.md"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield from find_commands(line, f"{path.relative_to(ROOT)}:{number}")


def _list_strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings with their lines; the parts of one in braces are holes."""
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in ast.walk(node) if part is not node}
            parts = (p.value if isinstance(p, ast.Constant) else _HOLE for p in node.values)
            yield node.lineno, "".join(str(part) for part in parts)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
        ):
            yield node.lineno, node.value


def find_commands(text: str, place: str) -> Iterator[Typed]:
    """The options behind each tool's name in a text."""
    for line in text.splitlines():
        for found in _TOOL.finditer(line):
            rest = line[found.end() :]
            end = _END.search(f"{rest} ")
            yield from _split_command(found[1], rest[: end.start()] if end else rest, place)
        # Rules about profiled kernels hold the options alone: `ncu {record}`.
        if re.match(r"--(?:section|set) ", line):
            yield from _split_command("ncu", line, place)


def _split_command(tool: str, text: str, place: str) -> Iterator[Typed]:
    words = text.replace(",\0", "").split()
    command = "profile" if tool == "nsys" else ""  # `nsys --trace cuda`, of whoever is brief
    if words and words[0] in COMMANDS.get(tool, ()):
        command = words.pop(0)
    for number, word in enumerate(words):
        if word in _STOP or word in TOOLS:
            return
        found = _OPTION.match(word.rstrip(",."))
        if found is None or "=" in word.removeprefix(f"{found[1]}="):
            continue  # sightline's own --set NAME=VALUE looks like one of ncu's
        if found[1] in ("--help", "--version"):
            continue
        after = words[number + 1].rstrip(",.") if number + 1 < len(words) else ""
        value = found[2] if found[2] is not None else ("" if after.startswith("-") else after)
        yield Typed(tool, command, found[1], value, place)


# Files that build one tool's commands by parts, and what those are of.
_BUILDERS = {
    "backends/nsys.py": ("nsys", "profile"), "backends/ncu.py": ("ncu", ""),
    "backends/rocprofv3.py": ("rocprofv3", ""), "backends/unitrace.py": ("unitrace", ""),
    "backends/iaprof.py": ("iaprof", "record"),
}  # fmt: skip


def _list_built(path: Path, tree: ast.AST) -> Iterator[Typed]:
    """Options in lists of words: of the tool that a list begins with, else of the file's."""
    of_file = next((of for name, of in _BUILDERS.items() if str(path).endswith(name)), None)
    for node in ast.walk(tree):
        if not isinstance(node, ast.List | ast.Tuple):
            continue
        words = [_word(part) for part in node.elts]
        if words and words[0] in TOOLS and len(words) > 1:
            tool, command = words[0], ""
            words = words[1:]
        elif of_file is not None and "sh" not in words:
            tool, command = of_file
        else:
            continue
        if words and words[0] in COMMANDS.get(tool, ()):
            command, words = words[0], words[1:]
        nested = [_word(part) for child in node.elts if not isinstance(child, ast.Constant)
                  for part in ast.walk(child) if isinstance(part, ast.Constant)]  # fmt: skip
        for number, word in enumerate([*words, _HOLE, *nested]):
            found = _OPTION.match(word)
            if found is None or found[1] in ("--help", "--version"):
                continue
            after = words[number + 1] if number + 1 < len(words) else ""
            value = found[2] if found[2] is not None else "" if after.startswith("-") else after
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            yield Typed(tool, command, found[1], value, place)


def _word(node: ast.AST) -> str:
    """A word of a list; what is filled in is a hole."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else _HOLE
    if isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else _HOLE for p in node.values)
        return "".join(str(part) for part in parts)
    return _HOLE
