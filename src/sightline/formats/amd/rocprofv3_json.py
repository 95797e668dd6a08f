"""AMD rocprofv3's JSON: kernels, copies, API calls, markers, allocations, counters, PC samples.

Format: ROCm/rocm-systems, rocprofiler-sdk documentation, "Using rocprofv3", "JSON output schema".
One document holds one process or more. Records name their kind and operation by numbers, which
`strings` spells out, and agents by handles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import StackTrie
from sightline.errors import DamagedError
from sightline.formats import _rocm
from sightline.formats._json import parse_json
from sightline.formats._stacks import finish_import, note_bad_lines, read_text
from sightline.formats._text_damage import note_misspelt_keys
from sightline.formats.amd._rocm_samples import Sample, count_samples, make_sample

IMPORTER = Importer(
    name="rocprofv3_json",
    label="AMD rocprofv3 JSON",
    strong=(rb'^\s*\{\s*"rocprofiler-sdk-tool"\s*:',),
    weak=(),
    looks_like="JSON that begins with rocprofiler-sdk-tool",
    suffixes=(".json",),
    version=6,
    source=_rocm.SOURCE,
)

_GPU = 2  # rocprofiler_agent_type_t
# Kinds of records that are read, by `strings`: what else is of them is under a damaged name.
_KINDS = re.compile(
    r"^(?:KERNEL_DISPATCH|MEMORY_COPY|MEMORY_ALLOCATION|SCRATCH_MEMORY"
    r"|(?:HIP|HSA|MARKER|RCCL|ROCDECODE|ROCJPEG)_\w*API)$"
)
_CALLS = (
    "hip_api", "hsa_api", "marker_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "ompt",
    "scratch_memory",
)  # fmt: skip
_ONCE = ("thread_id", "start_timestamp", "end_timestamp")  # in each record
_MOST_JOINED = 3  # ours: what stands elsewhere more often does so by the tool
_READ = {*_CALLS, "kernel_dispatch", "memory_copy", "memory_allocation"}
_ALLOCATIONS = {"ALLOCATE": ("ALLOC", "REAL"), "FREE": ("FREE", "REAL")}
_ALLOCATIONS |= {"VMEM_ALLOCATE": ("ALLOC", "VIRTUAL"), "VMEM_FREE": ("FREE", "VIRTUAL")}

# Keys that are read, of whatever object.
_KEYS = frozenset((
    *_CALLS, "address", "agent_id", "agents", "allocation_size", "arch_vgpr_count",
    "buffer_records", "bytes", "callback_records", "code_object_offset", "correlation_id",
    "counter_collection", "counter_id", "counters", "dispatch_data", "dispatch_id",
    "dispatch_info", "dst_agent_id", "end_timestamp", "formatted_kernel_name", "grid_size",
    "inst_index", "internal", "kernel_dispatch", "kernel_id", "kernel_name", "kernel_symbols",
    "memory_allocation", "memory_copy", "metadata", "operation", "operations",
    "pc_sample_comments", "pc_sample_host_trap", "pc_sample_instructions", "pc_sample_stochastic",
    "queue_id", "record", "records", "snapshot", "src_agent_id", "stall_reason",
    "start_timestamp", "stream_id", "strings", "thread_id", "wave_issued", "workgroup_size",
))  # fmt: skip

Row = dict[str, Any]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all records. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    try:
        tool = parse_json(text, quality)["rocprofiler-sdk-tool"]
        quality += note_misspelt_keys(tool, _KEYS)
        processes = [_Process(one) for one in (tool if isinstance(tool, list) else [tool])]
        trie = StackTrie()
        samples = (sample for process in processes for sample in process.list_samples())
        weights, bad = count_samples(samples, trie)
        quality += note_bad_lines(bad, "sample")
        joined = max(_count_joined(text, processes, name) for name in _ONCE)
        quality += _note_lost(joined + sum(process.count_lost() for process in processes))
        imported = _rocm.build_tables(
            _unite(processes), Recording("rocprofv3", host=_find_host(processes, options)), quality
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it is not a complete rocprofiler-sdk-tool JSON ({type(error).__name__}: {error})",
        ) from error
    if weights:
        stacks = finish_import(source, trie, weights, imported.quality, "rocprofv3")
        imported.tables |= stacks.tables
    if all(frame.is_empty() for name, frame in imported.tables.items() if name != "devices"):
        is_cut = any(note.kind == "truncated" for note in quality)
        raise DamagedError(
            f"cannot read {source.given}",
            why="it is cut off or damaged before its first record"
            if is_cut
            else "it holds no kernel, copy, API call, marker, allocation, counter or PC sample",
            hint="Record them:  rocprofv3 --sys-trace -- PROGRAM",
        )
    return imported


def _count_joined(text: str, processes: list[_Process], name: str) -> int:
    """How many records have a name twice: they are two, of which a part between them is gone."""
    twice = text.count(f'"{name}"') - sum(process.count_named(name) for process in processes)
    return twice if 0 < twice <= _MOST_JOINED else 0


def _note_lost(count: int) -> list[Quality]:
    if not count:
        return []
    text = "records have no place, or name an agent or a counter that is not there"
    return [Quality("missing_rows", "warning", text, count)]


def _find_host(processes: list[_Process], options: ImportOptions) -> str | None:
    return processes[0].host if processes and options.keep_identity else None


def _unite(processes: list[_Process]) -> _rocm.Records:
    gpus: dict[int, Row] = {}
    for process in processes:
        gpus |= process.gpus

    def rows(name: str) -> list[Row]:
        return [row for process in processes for row in getattr(process, name)()]

    counts = {"metric": pl.String, "agent": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return _rocm.Records(
        dispatches=_rocm.make_frame(
            rows("list_dispatches"), _rocm.DISPATCH, "name", "mangled_name"
        ),
        copies=_rocm.make_frame(rows("list_copies"), _rocm.COPY, "name"),
        regions=_rocm.make_frame(rows("list_regions"), _rocm.REGION, "category", "name", "message"),
        allocations=_rocm.make_frame(rows("list_allocations"), _rocm.ALLOCATION, "action", "level"),
        counts=pl.DataFrame(rows("list_counts"), schema=counts | {"value": pl.Float64}),
        gpus=gpus,
        threads=pl.DataFrame(schema={"pid": pl.Int64, "tid": pl.Int64}),
    )


def _handle(record: Mapping[str, Any], name: str) -> int | None:
    """The handle of an id that a record holds, as `{"handle": 3}`."""
    value = record.get(name)
    handle = value.get("handle") if isinstance(value, dict) else value
    return handle if type(handle) is int else None


def _dict(value: Any) -> Row:
    """The value where it is an object; of a damaged file, one may be of another type, or cut."""
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Row]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: Any) -> int | None:
    """A number, as such, as hexadecimal text, or as `{"value": …}`."""
    if isinstance(value, dict):
        value = value.get("value", value.get("handle"))
    if isinstance(value, str):
        try:
            return int(value, 0)
        except ValueError:
            return None
    return value if type(value) is int else None


class _Process:
    """The records of one process."""

    def __init__(self, tool: Row) -> None:
        self._tool = tool
        self._records = _dict(tool.get("buffer_records"))
        self._strings = _dict(tool.get("strings"))
        metadata = _dict(tool.get("metadata"))
        self._pid = _number(metadata.get("pid"))
        host = _dict(metadata.get("node")).get("hostname")
        self.host = host if isinstance(host, str) else None
        self._symbols = {
            number: symbol
            for symbol in _dicts(tool.get("kernel_symbols"))
            if (number := _number(symbol.get("kernel_id"))) is not None
        }
        self._operations = self._strings.get("buffer_records") or []
        agents = [a for a in _dicts(tool.get("agents")) if a.get("type") == _GPU]
        agents.sort(key=lambda agent: _number(agent.get("logical_node_type_id")) or 0)
        self._nameless = sum(_handle(agent, "id") is None for agent in agents)
        self.gpus = {
            handle: _rocm.describe_agent(agent)
            for agent in agents
            if (handle := _handle(agent, "id")) is not None
        }

    def count_lost(self) -> int:
        """Records of kinds that are read, under a name that is not, and those that name nothing."""
        elsewhere = [
            record
            for group, records in self._records.items()
            if group not in _READ and not group.startswith("pc_sample")
            for record in _dicts(records)
        ]
        misplaced = sum(bool(_KINDS.match(self._name(record)[0] or "")) for record in elsewhere)
        infos = [_dict(record.get("dispatch_info")) for record in self._list("kernel_dispatch")]
        handles = [_handle(info, "agent_id") for info in infos if "agent_id" in info]
        nowhere = sum(handle not in self.gpus for handle in handles)
        known = self._name_counters()
        records = [r for one in self._list_collected() for r in _dicts(one.get("records"))]
        nowhere += self._nameless
        return misplaced + nowhere + sum(_handle(r, "counter_id") not in known for r in records)

    def count_named(self, name: str) -> int:
        """How many records have something of this name."""
        data = [_dict(one.get("dispatch_data")) for one in self._list_collected()]
        records = [r for group in self._records.values() for r in _dicts(group)]
        return sum(name in one for one in (*data, *records))

    def _name_counters(self) -> dict[int | None, Any]:
        counters = _dicts(self._tool.get("counters"))
        return {_handle(counter, "id"): counter.get("name") for counter in counters}

    def _list_collected(self) -> list[Row]:
        return _dicts(_dict(self._tool.get("callback_records")).get("counter_collection"))

    def list_dispatches(self) -> Iterator[Row]:
        """Kernels."""
        for record in self._list("kernel_dispatch"):
            info = _dict(record.get("dispatch_info"))
            symbol = self._symbols.get(_number(info.get("kernel_id")) or 0, {})
            vgprs = [symbol.get(n) for n in ("arch_vgpr_count", "accum_vgpr_count")]
            yield {
                **self._shared(record),
                "agent": _handle(info, "agent_id"),
                "queue_id": _handle(info, "queue_id"),
                "lds_bytes": info.get("group_segment_size"),
                "scratch_bytes": info.get("private_segment_size"),
                **{f"workgroup_{a}": _dict(info.get("workgroup_size")).get(a) for a in "xyz"},
                **{f"work_items_{a}": _dict(info.get("grid_size")).get(a) for a in "xyz"},
                # Architectural and accumulation registers come of one file since MI200.
                "vgprs": sum(v for v in vgprs if type(v) is int) if symbol else None,
                "name": symbol.get("formatted_kernel_name"),
                "mangled_name": symbol.get("kernel_name"),
            }

    def list_copies(self) -> Iterator[Row]:
        """Copies between agents."""
        for record in self._list("memory_copy"):
            yield {
                **self._shared(record),
                "src_agent": _handle(record, "src_agent_id"),
                "dst_agent": _handle(record, "dst_agent_id"),
                "bytes": record.get("bytes"),
                "name": self._name(record)[1],
            }

    def list_regions(self) -> Iterator[Row]:
        """API calls, markers, and what the runtime did about scratch memory."""
        messages = {
            key: entry.get("value")
            for entry in _dicts(self._strings.get("marker_api"))
            if (key := _number(entry.get("key"))) is not None
        }
        for group in _CALLS:
            for record in self._list(group):
                shared = self._shared(record)
                category, name = self._name(record)
                category = category or group
                is_marker = _rocm.name_layer(category) == "annotation"
                correlation = _number(shared["correlation_id"])
                message = messages.get(correlation or 0) if is_marker else None
                yield {**shared, "category": category, "name": name, "message": message}

    def list_allocations(self) -> Iterator[Row]:
        """Allocations and frees."""
        for record in self._list("memory_allocation"):
            operation = (self._name(record)[1] or "").removeprefix("MEMORY_ALLOCATION_")
            action, level = _ALLOCATIONS.get(operation, (operation, "REAL"))
            shared = self._shared(record)
            yield {
                **shared,
                "time_ns": shared["start_ns"],
                "agent": _handle(record, "agent_id"),
                "address": _number(record.get("address")),
                "bytes": record.get("allocation_size"),
                "action": action,
                "level": level,
            }

    def list_counts(self) -> Iterator[Row]:
        """Values of hardware counters."""
        names = self._name_counters()
        for one in self._list_collected():
            data = _dict(one.get("dispatch_data"))
            agent = _handle(_dict(data.get("dispatch_info")), "agent_id")
            for record in _dicts(one.get("records")):
                name = names.get(_handle(record, "counter_id"))
                value = record.get("value")
                if isinstance(name, str) and isinstance(value, (int, float)):
                    yield {
                        "metric": name,
                        "agent": agent,
                        "start_ns": _number(data.get("start_timestamp")),
                        "end_ns": _number(data.get("end_timestamp")),
                        "value": float(value),
                    }

    def list_samples(self) -> Iterator[Sample]:
        """PC samples, each with the kernel of its dispatch."""
        instructions = self._strings.get("pc_sample_instructions") or []
        comments = self._strings.get("pc_sample_comments") or []
        infos = [_dict(record.get("dispatch_info")) for record in self._list("kernel_dispatch")]
        kernels = {
            number: self._symbols.get(_number(info.get("kernel_id")) or 0, {})
            for info in infos
            if (number := _number(info.get("dispatch_id"))) is not None
        }
        for kind in ("pc_sample_stochastic", "pc_sample_host_trap"):
            for entry in self._list(kind):
                record, at = _dict(entry.get("record")), entry.get("inst_index")
                dispatch = record.get("dispatch_id")
                if not isinstance(at, int) or not isinstance(dispatch, int):
                    yield None, None
                    continue
                symbol = kernels.get(dispatch, {})
                name = symbol.get("formatted_kernel_name") or symbol.get("kernel_name")
                # Index −1: no code object held the address.
                known = 0 <= at < len(instructions)
                issued = record.get("wave_issued")
                reason = _dict(record.get("snapshot")).get("stall_reason")
                if kind == "pc_sample_stochastic" and not issued and None in (issued, reason):
                    yield None, None  # which says of each wave whether it waits, and why
                yield make_sample(
                    str(name or f"[kernel of dispatch {dispatch}]"),
                    str(comments[at]) if 0 <= at < len(comments) else "",
                    str(instructions[at]) if known else "[unknown instruction]",
                    _number(_dict(record.get("pc")).get("code_object_offset")),
                    None if issued is None else str(int(bool(issued))),
                    reason,
                )

    def _list(self, group: str) -> list[Row]:
        return _dicts(self._records.get(group))

    def _shared(self, record: Row) -> Row:
        correlation = record.get("correlation_id")
        return {
            "start_ns": record.get("start_timestamp"),
            "end_ns": record.get("end_timestamp"),
            "pid": self._pid,
            "tid": record.get("thread_id"),
            "stream_id": _handle(record, "stream_id"),
            "correlation_id": correlation.get("internal")
            if isinstance(correlation, dict)
            else correlation,
        }

    def _name(self, record: Row) -> tuple[str | None, str | None]:
        """What a record is: the names of its kind and its operation."""
        kind, operation = record.get("kind"), record.get("operation")
        if type(kind) is not int or not 0 <= kind < len(self._operations):
            return None, None
        entry = _dict(self._operations[kind])
        names = entry.get("operations") or []
        if type(operation) is not int or not 0 <= operation < len(names):
            return entry.get("kind"), None
        return entry.get("kind"), names[operation]
