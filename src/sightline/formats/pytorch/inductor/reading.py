"""Reads files and folders of Inductor's into the tables `fused_kernels` and `fused_nodes`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._torch_compile import name_compilation
from sightline.formats.pytorch.inductor.code import Graph, Place, parse_document

# glog's prefix, as PyTorch's loggers write it; TORCH_LOGS adds the compilation and the log's name.
_PREFIX = re.compile(
    r"^[VIWE]\d{4} [\d:.]+ \d+ [^\]\n]+\] (?:\[([\w/]+)\] )?(?:\[__output_code\] ?)?"
)
_RECORD = re.compile(r"^[VIWE]\d{4} [\d:.]+ \d+ [^\]\n]+\] (\{.*\})\s*$")
_MAPPINGS = "inductor_provenance_tracking_node_mappings"
_PLACES = "inductor_provenance_tracking_kernel_stack_traces"
_GRAPH = "inductor_post_grad_graph"
_CODE = "inductor_output_code"
_KERNELS = {
    "fused_kernel_id": pl.Int64, "name": pl.String, "graph": pl.String, "pytorch_frame": pl.String,
    "source_nodes": pl.String, "aten_ops": pl.String, "kernel_file": pl.String,
}  # fmt: skip
_NODES = {
    "fused_kernel_id": pl.Int64, "position": pl.Int64, "node": pl.String, "op": pl.String,
    "file": pl.String, "line": pl.Int64, "function": pl.String, "code": pl.String,
}  # fmt: skip
_REMEDY = "Record them:  TORCH_TRACE=FOLDER INDUCTOR_PROVENANCE=1 python PROGRAM"


def read_kernels(source: Source) -> Imported:
    """Read all kernels. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    rank = None
    if source.path.is_dir():
        graphs = [_read_folder(source, quality)]
    else:
        text = read_text(source, quality)
        if _RECORD.match(text.partition("\n")[0]):
            graphs, rank, bad = _read_trace(text)
            quality += note_bad_lines(bad, "document of a record")
        else:
            graphs = list(_read_code(text))
    rows = [row for graph in graphs for row in _list_kernels(graph)]
    if not rows:
        raise DamagedError(
            f"cannot read {source.given}", why="no generated kernel is in it", hint=_REMEDY
        )
    kernels = [
        (number, name, graph.name, graph.frame, *told)
        for number, (graph, name, told, _) in enumerate(rows)
    ]
    nodes = [
        (number, position, *node)
        for number, (_, _, _, found) in enumerate(rows)
        for position, node in enumerate(found)
    ]
    if not any(node[4] for node in nodes):
        text = "kernels' operators are known, and not the lines of the program that they come from"
        quality.append(Quality("no_source_lines", "info", text, None, _REMEDY))
    tables = {
        "fused_kernels": _make_frame(kernels, _KERNELS),
        "fused_nodes": _make_frame(nodes, _NODES),
    }
    # A log of the compiler is no rank of its own: it has that of the program beside it.
    return Imported(tables, Recording("PyTorch Inductor", rank=rank, of_host=True), quality)


def _make_frame(rows: list[tuple[Any, ...]], schema: dict[str, Any]) -> pl.DataFrame:
    clean = [[replace_surrogates(c) if isinstance(c, str) else c for c in row] for row in rows]
    return pl.DataFrame(clean, schema=schema, orient="row")


def _read_folder(source: Source, quality: list[Quality]) -> Graph:
    graph = Graph()
    for name, take in (
        ("output_code.py", graph.add_code),
        ("fx_graph_transformed.py", graph.add_nodes),
        ("fx_graph_readable.py", graph.add_nodes),
        (f"{_MAPPINGS}.json", lambda text: graph.add_mappings(parse_document(text))),
        (f"{_PLACES}.json", lambda text: graph.add_places(parse_document(text))),
    ):
        path = source.path / name
        if path.is_file():
            take(read_text(Source(path, source.given, source.on_read), quality))
    return graph


def _read_code(text: str) -> Iterator[Graph]:
    """The graphs of code, with the prefixes of TORCH_LOGS or without."""
    lines: list[str] = []
    frame = None
    for line in text.splitlines():
        found = _PREFIX.match(line)
        plain = line[found.end() :] if found else line
        if plain.startswith("# AOT ID: [") and lines:
            yield _make_graph(lines, frame)
            lines = []
        if found and found[1]:
            frame = found[1]
        lines.append(plain)
    yield _make_graph(lines, frame)


def _make_graph(lines: list[str], frame: str | None) -> Graph:
    graph = Graph(frame=frame)
    graph.add_code("\n".join(lines))
    return graph


def _read_trace(text: str) -> tuple[list[Graph], int | None, int]:
    """The graphs of TORCH_TRACE's log, whose payloads are lines that begin with a tab; its rank.

    And how many payloads of JSON are none.
    """
    graphs = [Graph()]
    rank, bad = None, 0
    for record, payload in _split_records(text):
        number = record.get("rank")
        rank = number if type(number) is int and number >= 0 else rank
        artifact = record.get("artifact")
        name = artifact.get("name") if isinstance(artifact, dict) else None
        kind = next((key for key in (_GRAPH, _CODE) if key in record), name)
        if kind == _GRAPH or (kind == _CODE and graphs[-1].kernels):
            graphs.append(Graph(frame=name_compilation(record)))
        if kind == _GRAPH:
            graphs[-1].add_nodes(payload)
        elif kind == _CODE:
            graphs[-1].add_code(payload)
            graphs[-1].frame = name_compilation(record)
        elif kind in (_MAPPINGS, _PLACES):
            document = parse_document(payload)
            bad += not isinstance(document, dict)
            add = graphs[-1].add_mappings if kind == _MAPPINGS else graphs[-1].add_places
            add(document)
    return graphs, rank, bad


def _split_records(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each record of the log with its payload, "" where it has none."""
    record: Any = None
    payload: list[str] = []
    for line in text.splitlines():
        if line.startswith("\t"):
            payload.append(line[1:])
        elif found := _RECORD.match(line):
            if isinstance(record, dict):
                yield record, "\n".join(payload)
            record, payload = parse_document(found[1]), []
    if isinstance(record, dict):
        yield record, "\n".join(payload)


_Row = tuple[Graph, str, tuple[str | None, str | None, str | None], list[tuple[Any, ...]]]


def _list_kernels(graph: Graph) -> Iterator[_Row]:
    """Each kernel: its graph, name, what is said of it as a whole, and its nodes."""
    generated = {*graph.nodes_of, *graph.places_of} - graph.kernels.keys()
    named = [*graph.kernels, *sorted(n for n in generated if not n.startswith("extern_kernels."))]
    for name in named:
        kernel = graph.kernels.get(name)
        fragment = kernel.fragment if kernel else {}
        nodes = graph.nodes_of.get(name) or list(fragment)
        found = [_describe_node(node, graph, fragment) for node in nodes]
        if not any(node[2] for node in found):
            found += [(None, None, *_list_place(place)) for place in graph.places_of.get(name, [])]
        ops = ", ".join(dict.fromkeys(node[1] for node in found if node[1])) or None
        if kernel is None:
            yield graph, name, (None, ops, None), found
        else:
            yield graph, name, (kernel.source_nodes, kernel.aten_ops or ops, kernel.path), found


def _describe_node(node: str, graph: Graph, fragment: dict[str, str | None]) -> tuple[Any, ...]:
    op, place = graph.nodes.get(node, (None, None))
    return node, op or fragment.get(node), *_list_place(place)


def _list_place(place: Place | None) -> tuple[Any, ...]:
    if place is None:
        return None, None, None, None
    return place.file, place.line, place.function, place.code
