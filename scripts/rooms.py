"""Draws the rooms of the house into docs/architecture.md; with --check, only compares.

A room is a folder or file of src/sightline, an arrow an import. Arrows that follow from others are
left out. Fails where files import each other in a circle: Python's, the C++ sources' includes, and
the pages' TypeScript.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- drawn by scripts/rooms.py: run  make docs -->\n", "<!-- end of the drawing -->"
# Everybody stands on them: no arrows are drawn.
GROUND = ("errors", "units", "text", "version", "protobuf", "redaction", "registry")

Graph = dict[str, set[str]]


def python_imports() -> Graph:
    """Each module of the package with what it imports, whether at its start or in a function."""
    graph = grimp.build_graph("sightline", cache_dir=None)
    return {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}


def included_files(folder: Path, pattern: str, endings: tuple[str, ...]) -> Graph:
    """Each source file below a folder with those that it names, found by the regular expression."""
    files = [p for ending in endings for p in folder.rglob(f"*{ending}")]
    known = {p.resolve(): str(p.relative_to(folder)) for p in files}
    graph: Graph = {name: set() for name in known.values()}
    for path, name in known.items():
        for found in re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE):
            for base in (path.parent / found, folder / found):
                target = known.get(base.resolve()) or known.get(base.with_suffix(".ts").resolve())
                if target is not None:
                    graph[name].add(target)
    return graph


def find_circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The files of one circle, or none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def room_of(module: str) -> str:
    """The room that a module lies in."""
    return module.split(".")[1] if "." in module else "sightline"


def rooms(imports: Graph) -> Graph:
    """Rooms with the rooms that they take from."""
    graph: Graph = {}
    for module, targets in imports.items():
        room = room_of(module)
        graph.setdefault(room, set()).update(room_of(t) for t in targets if room_of(t) != room)
    graph.pop("sightline", None)  # the public door hands on names of all of them
    return {room: {t for t in targets if t in graph} for room, targets in graph.items()}


def without_shortcuts(graph: Graph) -> Graph:
    """The arrows that do not follow from others (the transitive reduction of a graph)."""
    reach: Graph = {}
    for room in TopologicalSorter(graph).static_order():
        reach[room] = set().union(*({t} | reach[t] for t in graph[room]))
    return {
        room: {t for t in targets if not any(t in reach[other] for other in targets - {t})}
        for room, targets in graph.items()
    }


def line_count(room: str) -> int:
    """Lines of Python in a room."""
    place = ROOT / "src" / "sightline" / room
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    return sum(len(f.read_text(encoding="utf-8").splitlines()) for f in files if f.is_file())


def drawing(graph: Graph) -> Iterator[str]:
    """The picture as Mermaid, from the top floor down."""
    yield "```mermaid"
    yield "flowchart TD"
    drawn = {room: targets - set(GROUND) for room, targets in graph.items() if room not in GROUND}
    for room in sorted(drawn):
        size = line_count(room)
        note = f"{size / 1000:.1f} k lines" if size else "C++"
        yield f'  {room}["<b>{room}</b><br/>{note}"]'
    for room, targets in sorted(without_shortcuts(drawn).items()):
        yield from (f"  {room} --> {target}" for target in sorted(targets))
    yield "```"
    yield f"Below all of them: {', '.join(GROUND)}. No arrow stands for what is asked for by name,"
    yield "through the registry: importers, analyses (by rules, too), rules, exporters, panels."


def main() -> int:
    imports = python_imports()
    graphs = {
        "src": imports,
        "native": included_files(ROOT / "native", r'^#include "([^"]+)"', (".h", ".cpp")),
        "web": included_files(ROOT / "web" / "src", r'from "(\.[^"]+)"', (".ts",)),
        "rooms": rooms(imports),
    }
    for name, graph in graphs.items():
        if circle := find_circle(graph):
            print(f"{name}: a circle of imports: {' -> '.join(circle)}", file=sys.stderr)
            return 1
    text = TARGET.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    new = before + BEGIN + "\n".join(drawing(graphs["rooms"])) + "\n" + END + rest.split(END)[1]
    if "--check" in sys.argv:
        # Lines are counted when it is drawn: their change alone needs no new drawing.
        uncounted = [re.sub(r"[\d.]+ k lines", "", t) for t in (text, new)]
        if uncounted[0] != uncounted[1]:
            print("docs/architecture.md shows other rooms: run  make docs", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(new, encoding="utf-8")
    print(f"{TARGET.name} drawn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
