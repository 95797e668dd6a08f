"""HPCToolkit's experiment.xml (before version 4): a tree of functions, calls, loops, statements.

Format: the document's own DTD. Names stand in tables in front of the tree. Read is what statements
and calls cost themselves, summed over all threads: numbers have six digits, so that sums of what
they contain would be off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from sightline.core.model.source import Source
from sightline.core.model.stack_trie import MAX_DEPTH, Frame
from sightline.formats.hpc.hpctoolkit.database import choose_metrics

_OWN = re.compile(r"^(.*\)):Sum \(E\)$|^(.*\)) \(E\)$")
_TABLES = ("LoadModule", "File", "Procedure")
_FRAMES = ("PF", "Pr")  # a function of the call path; one that was inlined
_PLACES = ("S", "C")  # a statement; a call
_HEAD = 1 << 20


def read_experiment(path: Path, source: Source) -> Iterator[tuple[str, tuple[Frame, ...], float]]:
    """(weight, frames, ns of a statement itself). Raises ValueError where it is damaged."""
    file = Source(path, source.given, source.on_read)
    with file.open() as stream:
        # Entities could grow without bound, and HPCToolkit's own DTD, of 10 kB, declares none.
        head = stream.read(_HEAD)
        if b"<!ENTITY" in head or b"]>" not in head:
            raise ValueError("it declares entities of its own, or its DTD does not end")
    names: dict[str, dict[str, str]] = {table: {} for table in _TABLES}
    metrics: dict[str, int] = {}
    chosen: dict[str, tuple[int, int]] = {}
    frames: list[Frame] = []
    depth = 0
    with file.open() as stream:
        try:
            for event, element in ElementTree.iterparse(stream, ("start", "end")):  # noqa: S314 - no entities
                tag = element.tag
                if event == "start" and tag in _FRAMES:
                    depth += 1
                    if depth <= MAX_DEPTH:  # what is deeper is told of where a stack can end
                        frames.append(_describe(element, names))
                elif event == "start" and tag == "C" and frames:
                    frames[-1] = _add_line(frames[-1], element)
                elif event == "end" and tag in _TABLES:
                    names[tag][element.get("i", "")] = element.get("n", "")
                elif event == "end" and tag == "Metric":
                    if (found := _OWN.match(element.get("n", ""))) and element.get(
                        "i", ""
                    ).isdecimal():
                        metrics.setdefault(found[1] or found[2], int(element.get("i", "")))
                elif event == "end" and tag == "SecHeader":
                    chosen = choose_metrics(metrics)
                elif event == "end" and tag in _PLACES:
                    if frames:
                        here = (*frames[:-1], _add_line(frames[-1], element))
                        yield from _weigh(element, here, chosen)
                    element.clear()
                elif event == "end" and tag in _FRAMES:
                    depth -= 1
                    if depth < MAX_DEPTH:
                        frames.pop()
                    element.clear()
        except ElementTree.ParseError as error:
            raise ValueError(str(error)) from error


def _describe(element: ElementTree.Element, names: dict[str, dict[str, str]]) -> Frame:
    name = names["Procedure"].get(element.get("n", ""), "") or "<unknown procedure>"
    file, module = (
        names[t].get(element.get(a, "")) for t, a in (("File", "f"), ("LoadModule", "lm"))
    )
    known = None if file is None or file.startswith("<unknown") else file
    return Frame("native", name, known, None, module)


def _add_line(frame: Frame, element: ElementTree.Element) -> Frame:
    line = element.get("l", "")
    known = int(line) if line.isdecimal() and len(line) < 10 and frame.file else 0
    return frame._replace(line=known or None)


def _weigh(
    element: ElementTree.Element, frames: tuple[Frame, ...], chosen: dict[str, tuple[int, int]]
) -> Iterator[tuple[str, tuple[Frame, ...], float]]:
    for weight, (metric, scale) in chosen.items():
        for child in element:
            if child.tag == "M" and child.get("n") == str(metric):
                value = float(child.get("v", "nan"))
                if 0 < value < 1e15:
                    yield weight, frames, value * scale
