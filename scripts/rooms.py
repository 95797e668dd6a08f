"""Draws the rooms of the house, and the way through them, into docs/architecture.md.

A room is a folder of src/sightline, an arrow an import. Arrows that follow from others are left
out. With --check, only compares. Fails where files import each other in a circle (Python's, what
they name by a string included; the C++ sources' includes; the pages' TypeScript), where a member
of a subject or a format imports another, and where the way from a path that a person types to a
screen or a page has become longer than MOST_ROOMS and MOST_CLIMBS.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

import grimp

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "sightline"
TARGET = ROOT / "docs" / "architecture.md"
EXAMPLE = ROOT / "examples" / "simulated-dataloader.json.gz"
BEGIN, END = "<!-- drawn by scripts/rooms.py: run  make docs -->\n", "<!-- end of the drawing -->"
# Everybody stands on them: no arrows are drawn.
GROUND = ("core", "errors", "version")
# Floors from the top down, as pyproject.toml has them for import-linter.
FLOORS = (
    *(
        "doors",
        "views",
        "lab",
        "mig",
        "health",
        "record",
        "session",
        "history",
        "compare",
        "fleet",
        "answer",
    ),
    *("flames", "subjects", "diagnosis", "roofline", "replay", "opening", "formats", "timeline"),
    *("core", "version", "errors"),
)
MOST_ROOMS, MOST_CLIMBS = 15, 10
_MODULE = re.compile(r"sightline(?:\.\w+)+")
_QUOTED = re.compile(r"""["'}]sightline\b""")  # where a text, or a part of one, may be such a name

Graph = dict[str, set[str]]


def python_imports() -> Graph:
    """Each module of the package with what it imports: at its start, in a function, by a string."""
    graph = grimp.build_graph("sightline", cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    for module in imports:
        imports[module] |= {t for t in _named_by_strings(module) if t in imports and t != module}
    return imports


def _named_by_strings(module: str) -> Iterator[str]:
    """The modules whose dotted names stand in a string of this one, but for docstrings."""
    place = ROOT.joinpath("src", *module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not path.is_file():  # compiled
        return
    source = path.read_text(encoding="utf-8")
    if not _QUOTED.search(source):
        return
    nodes = list(ast.walk(ast.parse(source)))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docs else None
        if isinstance(text, str) and _MODULE.fullmatch(text):
            yield text


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


def find_crossings(imports: Graph) -> list[str]:
    """Imports between members: an analysis, a rule, an importer or a backend imports another one.

    What an underscore begins is what the members of a folder share.
    """
    return sorted(
        f"{module} imports {target}"
        for module, targets in imports.items()
        for target in targets
        if (own := _member_of(module)) and (other := _member_of(target)) and own != other
    )


def _member_of(module: str) -> str | None:
    """The member that a module is or belongs to; None where it is none."""
    match module.split("."):
        case ["sightline", "subjects", _, "analyses" | "rules", name, *_] if name[0] != "_":
            return ".".join(module.split(".")[:5])
        case ["sightline", "record", "collect", "backends", name] if name[0] != "_":
            return module
        case ["sightline", "formats", _, name, *_] if name[0] != "_":
            return ".".join(module.split(".")[:4])
    return None


def room_of(module: str) -> str:
    """The room that a module lies in."""
    return module.split(".")[1] if "." in module else "sightline"


def rooms(imports: Graph) -> Graph:
    """Rooms with the rooms that they take from."""
    graph: Graph = {}
    for module, targets in imports.items():
        room = room_of(module)
        graph.setdefault(room, set()).update(room_of(t) for t in targets if room_of(t) != room)
    # The public door hands on names of all of them; what starts it is no room.
    for name in ("sightline", "__main__", "_native", "_marks"):
        graph.pop(name, None)
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
    place = SOURCE / room
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    return sum(len(f.read_text(encoding="utf-8").splitlines()) for f in files if f.is_file())


def _is_higher(room: str, other: str) -> bool:
    return FLOORS.index(room) < FLOORS.index(other)


class Way:
    """The rooms that a command passes through, and where a call climbs to a higher floor.

    All subjects that the registry's loop asks count as one room, as do all formats.
    """

    def __init__(self) -> None:
        self.rooms: list[str] = []
        self.climbs: set[tuple[str, str]] = set()
        self._known: dict[CodeType, str | None] = {}

    def follow(self, run: Callable[[], object]) -> None:
        """Note all calls between rooms while `run` runs, on all threads."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            run()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        room = self._find_room(frame.f_code)
        if room is None:
            return
        if room not in self.rooms:
            self.rooms.append(room)
        caller = frame.f_back
        if caller is not None and self._find_room(caller.f_code) == room:
            return  # most calls stay in their room
        above = list(islice(self._list_rooms_above(frame), 2))
        # Whoever asked may be asked back: what it handed down is its own.
        if above and _is_higher(room, above[0]) and room not in above[1:]:
            self.climbs.add((above[0], room))

    def _list_rooms_above(self, frame: FrameType) -> Iterator[str]:
        """The rooms that called, the nearest first, each once in a row."""
        last = None
        caller = frame.f_back
        while caller is not None:
            room = self._find_room(caller.f_code)
            if room is not None and room != last:
                yield room
                last = room
            caller = caller.f_back

    def _find_room(self, code: CodeType) -> str | None:
        try:
            return self._known[code]
        except KeyError:
            path = Path(code.co_filename)
            inside = path.is_relative_to(SOURCE) and code.co_name != "<module>"
            room = path.relative_to(SOURCE).parts[0].removesuffix(".py") if inside else ""
            self._known[code] = room if room in FLOORS else None
            return self._known[code]


def follow_command(*words: str) -> Way:
    """The way of one command on an example, from nothing that is kept."""
    from sightline.doors.cli.main import main as run_command

    way = Way()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.environ["SIGHTLINE_CACHE"] = folder
        output = [part.replace("OUT", folder) for part in words]
        way.follow(lambda: run_command(["report", str(EXAMPLE), *output]))
    return way


def drawing(graph: Graph, ways: Mapping[str, Way]) -> Iterator[str]:
    """The picture as Mermaid, from the top floor down, and the way through it."""
    yield "```mermaid"
    yield "flowchart TD"
    drawn = {room: targets - set(GROUND) for room, targets in graph.items() if room not in GROUND}
    for room in sorted(drawn):
        yield f'  {room}["<b>{room}</b><br/>{line_count(room) / 1000:.1f} k lines"]'
    for room, targets in sorted(without_shortcuts(drawn).items()):
        yield from (f"  {room} --> {target}" for target in sorted(targets))
    yield "```"
    ground = f"Below all of them: {', '.join(GROUND)} ({line_count('core') / 1000:.1f} k lines)."
    yield f"{ground} No arrow stands for what is asked for"
    yield "by name, through the registry: importers, analyses (by rules, too), rules, panels,"
    yield "exporters."
    yield ""
    yield "The way from a typed path, its rooms in the order in which they are first entered:"
    yield ""
    yield "| to | rooms | calls that climb to a higher floor |"
    yield "|---|---|---|"
    for name, way in ways.items():
        steps = " → ".join(way.rooms)
        climbs = ", ".join(f"{a} → {b}" for a, b in sorted(way.climbs)) or "none"
        yield f"| {name} | {len(way.rooms)}: {steps} | {len(way.climbs)}: {climbs} |"


def list_faults(imports: Graph, ways: Mapping[str, Way]) -> Iterator[str]:
    """What must not be."""
    graphs = {
        "src": imports,
        "native": included_files(ROOT / "native", r'^#include "([^"]+)"', (".h", ".cpp")),
        "web": included_files(ROOT / "web" / "src", r'from "(\.[^"]+)"', (".ts",)),
        "rooms": rooms(imports),
    }
    for name, graph in graphs.items():
        if circle := find_circle(graph):
            yield f"{name}: a circle of imports: {' -> '.join(circle)}"
    yield from find_crossings(imports)
    for name, way in ways.items():
        if len(way.rooms) > MOST_ROOMS or len(way.climbs) > MOST_CLIMBS:
            yield f"the way to {name}: {way.rooms}, climbs {sorted(way.climbs)}"


def uncount(text: str) -> str:
    """The page without what changes with every line of code, and with the machine's threads."""
    text = re.sub(r"[\d.]+ k lines", "", text)
    return re.sub(r"^\| (a screen|a page) \|.*$", "", text, flags=re.MULTILINE)


def report_faults(faults: Iterable[str]) -> int:
    """Print them; the exit code."""
    found = list(faults)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


def main() -> int:
    imports = python_imports()
    ways = {
        "a screen": follow_command("--format", "text", "--no-html"),
        "a page": follow_command("-o", "OUT/page.html"),
    }
    if code := report_faults(list_faults(imports, ways)):
        return code
    text = TARGET.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    drawn = "\n".join(drawing(rooms(imports), ways))
    new = before + BEGIN + drawn + "\n" + END + rest.split(END)[1]
    if "--check" in sys.argv:
        if uncount(text) != uncount(new):
            print("docs/architecture.md shows other rooms: run  make docs", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(new, encoding="utf-8")
    print(f"{TARGET.name} drawn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
