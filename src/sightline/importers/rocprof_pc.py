"""AMD rocprofv3 PC sampling, host-trap and stochastic, as CSV and as JSON.

Format: ROCm/rocm-systems, rocprofiler-sdk documentation, "Using PC sampling". Every sample names
its dispatch, so the join to the launch is exact. Host-trap samples have no stall reason: that layer
is absent. The CSV names no kernel; the JSON does, through the dispatch.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import Any

from sightline.errors import DamagedError
from sightline.importers._json import parse_json
from sightline.importers._stacks import finish_import, note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.model.source import Source
from sightline.model.stack_trie import Frame, StackTrie
from sightline.model.stall_classes import classify_stall, normalize_reason

IMPORTER = Importer(
    name="rocprof_pc",
    label="AMD rocprofv3 PC sampling (CSV or JSON)",
    strong=(
        rb'^"?Sample_Timestamp"?,"?Exec_Mask"?,"?Dispatch_Id"?,',
        rb'^\s*\{\s*"rocprofiler-sdk-tool"\s*:',  # what was sampled comes far behind it
    ),
    weak=(),
    looks_like="CSV with Sample_Timestamp, Exec_Mask, Dispatch_Id, or rocprofiler-sdk-tool JSON",
    suffixes=(".csv", ".json"),
    version=2,
    source="https://rocm.docs.amd.com/projects/rocprofiler-sdk",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    rows = _json(text, source, quality) if text.lstrip()[:1] == "{" else _csv(text, source)
    trie = StackTrie()
    counted: Counter[tuple[int | None, str]] = Counter()
    bad = 0
    for path, issued in rows:
        if path is None:
            bad += 1
            continue
        stack = trie.add(path)
        counted[stack, "samples"] += 1
        if issued is False:
            # Stochastic samples say whether the wave issued: those that did not are the latency.
            counted[stack, "latency_samples"] += 1
    if not counted and not bad:
        raise DamagedError(
            f"cannot read {source.given}",
            why="it is a rocprofv3 recording without PC samples, the only part that is read",
            hint="PyTorch's profiler records AMD GPUs:  sightline run -- python train.py",
        )
    quality += note_bad_lines(bad, "sample")
    weights = [(stack, metric, n, "exact") for (stack, metric), n in counted.items()]
    return finish_import(source, trie, weights, quality, "rocprofv3")


Sample = tuple[list[Frame] | None, bool | None]


def _csv(text: str, source: Source) -> Iterator[Sample]:
    reader = csv.DictReader(text.splitlines())
    try:
        for row in reader:
            dispatch, instruction = row.get("Dispatch_Id"), row.get("Instruction")
            if not (dispatch or "").isdecimal() or instruction is None or None in row:
                yield None, None
                continue
            issued, reason = row.get("Wave_Issued_Instruction"), row.get("Stall_Reason")
            kernel = f"[kernel of dispatch {dispatch}]"
            comment = row.get("Instruction_Comment") or ""
            yield _path(kernel, comment, instruction, None, issued, reason)
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=str(error)) from error


def _json(text: str, source: Source, quality: list[Quality]) -> Iterator[Sample]:
    try:
        root = parse_json(text, quality)
        tool = root["rocprofiler-sdk-tool"]
        tools = tool if isinstance(tool, list) else [tool]
        for one in tools:
            yield from _tool(one)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it is not a complete rocprofiler-sdk-tool JSON ({type(error).__name__}: {error})",
        ) from error


def _tool(tool: dict[str, Any]) -> Iterator[Sample]:
    records = tool["buffer_records"]
    strings = tool.get("strings", {})
    instructions = strings.get("pc_sample_instructions", [])
    comments = strings.get("pc_sample_comments", [])
    kernels = _kernel_of_dispatch(tool, records)
    for kind in ("pc_sample_stochastic", "pc_sample_host_trap"):
        for entry in records.get(kind) or []:
            record, at = entry["record"], entry.get("inst_index", -1)
            dispatch = record.get("dispatch_id")
            if not isinstance(at, int) or not isinstance(dispatch, int):
                yield None, None
                continue
            # Index −1: no code object held the address.
            known = 0 <= at < len(instructions)
            issued = record.get("wave_issued")
            yield _path(
                kernels.get(dispatch, f"[kernel of dispatch {dispatch}]"),
                str(comments[at]) if 0 <= at < len(comments) else "",
                str(instructions[at]) if known else "[unknown instruction]",
                record.get("pc", {}).get("code_object_offset"),
                None if issued is None else str(int(bool(issued))),
                record.get("snapshot", {}).get("stall_reason"),
            )


def _kernel_of_dispatch(tool: dict[str, Any], records: dict[str, Any]) -> dict[int, str]:
    names = {
        symbol["kernel_id"]: symbol.get("formatted_kernel_name") or symbol.get("kernel_name", "")
        for symbol in tool.get("kernel_symbols", [])
        if isinstance(symbol, dict) and "kernel_id" in symbol
    }
    found = {}
    for dispatch in records.get("kernel_dispatch") or []:
        info = dispatch["dispatch_info"]
        name = names.get(info["kernel_id"])
        if name:
            found[info["dispatch_id"]] = str(name)
    return found


def _path(
    kernel: str,
    comment: str,
    instruction: str,
    offset: int | None,
    issued: str | None,
    reason: str | None,
) -> Sample:
    path = [Frame("kernel", kernel)]
    file, colon, line = comment.rpartition(":")
    if colon and line.isdecimal():
        path.append(Frame("gpu_file", file))
        path.append(Frame("gpu_line", f"{file.rsplit('/', 1)[-1]}:{line}"))
    where = "" if offset is None else f"+0x{offset:x} "
    path.append(Frame("instruction", where + instruction))
    if issued == "1":
        path += [Frame("stall_class", "issuing"), Frame("stall_reason", "wave_issued")]
        return path, True
    if issued == "0" and reason:
        path += [
            Frame("stall_class", classify_stall(reason)),
            Frame("stall_reason", normalize_reason(reason)),
        ]
        return path, False
    return path, None
