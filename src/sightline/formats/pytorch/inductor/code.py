"""Reads generated code: each kernel with what the comments in front of it say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_GRAPH = re.compile(r"^# AOT ID: \['([^']{1,200})'\]")
_KERNEL = re.compile(r"^(\w{1,1000}) = async_compile\.\w+\(")
_SOURCES = re.compile(r"Topologically Sorted Source Nodes: \[(.*)\], Original ATen: \[(.*)\]")
_PATH = re.compile(r"kernel path: (\S.*)")
# A node of the fragment of the graph, `%mul : … = call_function[target=torch.ops.aten.mul.Tensor]`.
_FRAGMENT = re.compile(r"%(\w+) : .*= call_function\[target=([\w.]+)\]")
_FILE = re.compile(r"^\s*# File: (.+):(\d{1,9}) in ([^,]+), code: (.*)$")
_NODE = re.compile(r'^\s+(\w+)(?:: ?"[^"]*")? = (?:(torch\.ops\.[\w.]+)\(|)')
_HANDLE = re.compile(r"^(.+?)(?::(\d{1,9}))?$")
_FRAME = re.compile(r'^\s*File "(.*)", line (\d{1,9}), in (.*)\n\s*(.*)')


@dataclass(frozen=True)
class Place:
    """A line of the program."""

    file: str
    line: int
    function: str
    code: str


@dataclass
class Kernel:
    """A generated kernel: what its comments say, and the operator of each node in them."""

    name: str
    source_nodes: str | None = None
    aten_ops: str | None = None
    path: str | None = None
    fragment: dict[str, str | None] = field(default_factory=dict)


@dataclass
class Graph:
    """What is known of one graph that was compiled."""

    name: str | None = None
    frame: str | None = None
    kernels: dict[str, Kernel] = field(default_factory=dict)
    nodes: dict[str, tuple[str | None, Place | None]] = field(default_factory=dict)
    nodes_of: dict[str, list[str]] = field(default_factory=dict)  # by kernel
    places_of: dict[str, list[Place]] = field(default_factory=dict)  # by kernel

    def add_code(self, text: str) -> None:
        """Take in the kernels of `output_code.py`."""
        comments: list[str] = []
        for line in text.splitlines():
            plain = line.strip()
            if plain.startswith("#"):
                comments.append(plain)
                continue
            if found := _KERNEL.match(line):
                self.kernels[found[1]] = _describe_kernel(found[1], comments)
            for comment in comments:
                if graph := _GRAPH.match(comment):
                    self.name = graph[1]
            comments = []

    def add_nodes(self, text: str) -> None:
        """Take in the nodes of a readable graph, each with the line that stands before it."""
        place = None
        for line in text.splitlines():
            if found := _FILE.match(line):
                place = Place(found[1], int(found[2]), found[3], found[4])
            elif node := _NODE.match(line):
                self.nodes[node[1]] = (_name_op(node[2]), place)

    def add_mappings(self, document: Any) -> None:
        """Take in the nodes of each kernel (`cppCodeToPost`, whatever language it is in)."""
        mapped = document.get("cppCodeToPost") if isinstance(document, dict) else None
        for handle, nodes in _list_items(mapped):
            known = self.nodes_of.setdefault(_name_kernel(handle), [])
            known += [node for node in nodes if isinstance(node, str) and node not in known]

    def add_places(self, document: Any) -> None:
        """Take in the call stacks of each kernel's nodes, of which the innermost frame counts."""
        for handle, stacks in _list_items(document):
            known = self.places_of.setdefault(_name_kernel(handle), [])
            places = (_read_place(stack) for stack in stacks if isinstance(stack, str))
            known += [place for place in dict.fromkeys(places) if place and place not in known]


def parse_document(text: str) -> Any:
    """The JSON, None where it is damaged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _list_items(document: Any) -> Iterator[tuple[str, list[Any]]]:
    for handle, values in document.items() if isinstance(document, dict) else ():
        if isinstance(values, list):
            yield handle, values


def _name_kernel(handle: str) -> str:
    """The kernel's name without the number of its call, which stands behind a colon."""
    found = _HANDLE.match(handle)
    return found[1] if found else handle


def _describe_kernel(name: str, comments: list[str]) -> Kernel:
    kernel = Kernel(name)
    for comment in comments:
        if sources := _SOURCES.search(comment):
            kernel.source_nodes, kernel.aten_ops = sources[1] or None, sources[2] or None
        elif path := _PATH.search(comment):
            kernel.path = path[1]
        elif node := _FRAGMENT.search(comment):
            kernel.fragment[node[1]] = _name_op(node[2])
    return kernel


def _name_op(target: str | None) -> str | None:
    """torch.ops.aten.mul.Tensor as aten.mul."""
    if target is None or not target.startswith("torch.ops."):
        return None
    return ".".join(target.split(".")[2:4])


def _read_place(stack: str) -> Place | None:
    """The innermost frame of a call stack as Python prints it."""
    frames = re.split(r"\n(?=\s*File \")", stack.rstrip())
    found = _FRAME.match(frames[-1].lstrip("\n"))
    return Place(found[1], int(found[2]), found[3], found[4].strip()) if found else None
