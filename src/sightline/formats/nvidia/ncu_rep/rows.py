"""One profiled result into rows of the tables."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sightline.core.model.stall_classes import classify_stall
from sightline.core.units import INT64_MAX
from sightline.formats._ncu import MetricRows, Value
from sightline.formats._text_damage import is_nearly
from sightline.formats.nvidia.ncu_rep.blocks import Report
from sightline.formats.nvidia.ncu_rep.code import Code, Place, is_other_code
from sightline.formats.nvidia.ncu_rep.metrics import add_metrics

_SEVERITY = {0: "none", 1: "ok", 2: "warning", 3: "error", 4: "optimization"}
_SPEEDUP = {0: "unknown", 1: "local", 2: "global"}
_ATTRIBUTE = "device__attribute_"
_SAMPLED = "smsp__pcsamp_warps_issue_stalled_"
# Instances of these metrics are settings, links or times: never code addresses.
_NOT_CODE = (
    "launch__",
    "device__",
    "nvlink__",
    "numa__",
    "c2clink__",
    "profiler__",
    "pmsampling:",
    "breakdown:",
    "group:",
    "regex:",
)

Row = dict[str, Any]


@dataclass
class Rows:
    """Everything that was read from the results."""

    source: str  # whose rules the rule results are
    kernels: list[Row] = field(default_factory=list)
    metrics: MetricRows = field(default_factory=MetricRows)
    samples: list[Row] = field(default_factory=list)
    odd_names: set[str] = field(default_factory=set)  # of metrics: damaged
    instructions: list[Row] = field(default_factory=list)
    rules: list[Row] = field(default_factory=list)
    seen: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    damaged_metrics: int = 0
    dropped_sample_bytes: int = 0
    unsupported: int = 0
    wrong_opcodes: Counter[str] = field(default_factory=Counter)
    devices: dict[int, Row] = field(default_factory=dict)  # attributes that kernels state

    def add(self, kind: str, result: Row, report: Report, code: Code) -> None:
        """A kernel, range, command list or graph."""
        kernel_id = len(self.kernels)
        first = len(self.metrics.metric)
        totals, damaged = add_metrics(
            self.metrics, kernel_id, result.get("MetricResults", []), report.strings
        )
        self.damaged_metrics += damaged
        self.unsupported += bool(result.get("UnsupportedDevice"))
        kernel = self._kernel(kernel_id, kind, result, totals)
        self.kernels.append(kernel)
        self._add_device(kernel["device_id"] or 0, totals)
        self._rules(kernel_id, result.get("RuleResults", []))
        self._code(kernel, result, totals, first, code)
        self.dropped_sample_bytes += _int(totals.get("smsp__pcsamp_dropped_bytes")) or 0

    def _add_device(self, number: int, totals: dict[str, Value]) -> None:
        """What the kernel's metrics say of its device: a report may be cut from its session."""
        known = self.devices.setdefault(number, {})
        for name, value in totals.items():
            if name.startswith(_ATTRIBUTE):
                known.setdefault(name.removeprefix(_ATTRIBUTE), value)
        if (count := totals.get("launch__sm_count")) is not None:
            known.setdefault("multiprocessor_count", _int(count))

    def _kernel(self, kernel_id: int, kind: str, result: Row, totals: dict[str, Value]) -> Row:
        name = result.get("DemangledName") or result.get("FunctionName")
        sizes = _read_sizes(result, totals)
        cluster = {
            f"cluster_{axis}": _int(totals.get(f"launch__cluster_dim_{axis}")) for axis in "xyz"
        }
        key = (name, *sizes.values())
        self.seen[key] += 1
        return {
            "kernel_id": kernel_id,
            "kind": kind,
            "name": name or result.get("DisplayName") or None,
            "function": result.get("FunctionName") or None,
            "mangled_name": result.get("MangledName") or None,
            "occurrence": self.seen[key] - 1,
            "device_id": _int(totals.get("launch__device_id")),
            "context_id": _int(result.get("ContextID")),
            "stream_id": _int(result.get("StreamID")),
            "tid": _int(result.get("ThreadID")),
            "api_call_id": _int(result.get("APICallID")),
            **sizes,
            **cluster,
            "registers_per_thread": _int(totals.get("launch__registers_per_thread")),
            "static_shared_bytes": _int(totals.get("launch__shared_mem_per_block_static")),
            "dynamic_shared_bytes": _int(totals.get("launch__shared_mem_per_block_dynamic")),
            "driver_shared_bytes": _int(totals.get("launch__shared_mem_per_block_driver")),
            "duration_ns": _int(totals.get("gpu__time_duration.sum")),
            "passes": _int(totals.get("profiler__replayer_passes")),
            "clocks_locked": result.get("ClockStatus", {}).get("ExecutedLocked"),
            "nvtx": _nvtx(result),
            "stack": _stack(result),
        }

    def _rules(self, kernel_id: int, rules: list[Row]) -> None:
        for rule in rules:
            items = rule.get("Body", {}).get("Items", [])
            base = {
                "kernel_id": kernel_id,
                "source": self.source,
                "rule": rule.get("Identifier", ""),
                "rule_name": rule.get("DisplayName"),
                "section": rule.get("SectionIdentifier"),
                "markers": _json(rule.get("SourceMarkers", [])),
            }
            said = [i for i in items if "Message" in i]
            if not said:
                self.rules.append(base)
            for item in said:
                message, speedup = item["Message"], item.get("Speedup", {})
                number = _int(message.get("Id"))
                # Focus metrics and speed-ups may stand in an item of their own, with its number.
                focus = [
                    f
                    for i in items
                    for f in i.get("FocusMetrics", [])
                    if i is item or ("Message" not in i and _int(f.get("MessageId")) == number)
                ]
                self.rules.append(
                    {
                        **base,
                        "message_id": number,
                        "severity": _SEVERITY.get(message.get("Type", 0)),
                        "title": message.get("Name"),
                        "text": message.get("Message"),
                        "speedup_type": _SPEEDUP.get(speedup.get("SpeedupType", -1)),
                        "speedup_pct": _finite(speedup.get("Value")),
                        "focus": _json(focus),
                    }
                )

    def _code(
        self, kernel: Row, result: Row, totals: dict[str, Value], first: int, code: Code
    ) -> None:
        """Samples and instructions, from the metrics whose instances are code addresses."""
        m = self.metrics
        by_metric: dict[str, dict[int, int | None]] = {}
        opcodes: dict[str, float] = {}
        for i in range(first, len(m.metric)):
            key, name = m.instance_id[i], m.metric[i]
            if name == "sass__inst_executed_per_opcode" and m.instance_name[i] is not None:
                opcodes[m.instance_name[i] or ""] = m.value[i] or 0
            if key is not None and not name.startswith(_NOT_CODE):
                by_metric.setdefault(name, {})[key] = m.value_int[i]
        reference = result.get("Source", {}).get("Reference")
        addresses = sorted({a for instances in by_metric.values() for a in instances})
        base = _int(totals.get("launch__function_pcs"))
        places = code.places(reference, kernel["mangled_name"], base, addresses)
        executed = {a: n or 0 for a, n in by_metric.get("inst_executed", {}).items()}
        wrong = is_other_code(places, executed, opcodes)
        self.wrong_opcodes.update(wrong)
        if wrong:
            places = {
                a: Place(p.offset, p.function, None, p.file, p.line) for a, p in places.items()
            }
        kernel_id = kernel["kernel_id"]
        self.instructions += (
            {"kernel_id": kernel_id, "address": a, **vars(p)} for a, p in places.items()
        )
        period = _int(totals.get("smsp__pcsamp_interval_cycles"))
        self.odd_names.update(name for name in by_metric if _is_odd(name))
        for metric, instances in by_metric.items():
            if not metric.startswith(_SAMPLED) or metric.endswith("_not_issued"):
                continue
            idle = by_metric.get(f"{metric}_not_issued")
            reason = metric.removeprefix(_SAMPLED)
            # Samples and counters spell this one differently.
            reason = "no_instruction" if reason == "no_instructions" else reason
            for address, samples in instances.items():
                if not samples:
                    continue
                place = places.get(address, Place())
                self.samples.append(
                    {
                        "kernel_id": kernel_id,
                        **vars(place),
                        # Its counter has passed on when the warp is looked at (docs/roofline.md).
                        "issued_operation": place.before if reason == "selected" else None,
                        "reason": reason,
                        "stall_class": classify_stall(reason),
                        "samples": samples,
                        "latency_samples": None if idle is None else idle.get(address, 0),
                        "period_cycles": period,
                    }
                )


def _is_odd(name: str) -> bool:
    """Whether a metric's name is nearly that of a reason to stall."""
    kind = name[: len(_SAMPLED)]
    return not name.isprintable() or (kind != _SAMPLED and is_nearly(kind, _SAMPLED))


def _read_sizes(result: Row, totals: dict[str, Value]) -> dict[str, int | None]:
    """The grid in blocks and the block in threads.

    Reports up to 2020 have the grid in threads, as OpenCL does; their metrics have it in blocks,
    the older ones as the number of all alone.
    """
    sizes = {
        f"{what}_{axis}": _int(result.get(field, {}).get(axis.upper()))
        for what, field in (("grid", "GridSize"), ("block", "BlockSize"))
        for axis in "xyz"
    }
    blocks = {f"grid_{axis}": _int(totals.get(f"launch__grid_dim_{axis}")) for axis in "xyz"}
    if all(blocks.values()):
        return sizes | blocks
    count = _int(totals.get("launch__grid_size"))
    if not count or not all(sizes.values()):
        return sizes
    grid, block = ([sizes[f"{what}_{axis}"] or 1 for axis in "xyz"] for what in ("grid", "block"))
    divided = [-(-g // b) for g, b in zip(grid, block, strict=True)]
    is_threads = math.prod(grid) != count and math.prod(divided) == count
    return sizes | (
        {f"grid_{a}": n for a, n in zip("xyz", divided, strict=True)} if is_threads else {}
    )


def _int(value: Any) -> int | None:
    """An integer that fits the tables; a float is rounded."""
    if isinstance(value, float):
        value = round(value) if abs(value) <= INT64_MAX else None
    return value if isinstance(value, int) and abs(value) <= INT64_MAX else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < float("inf") else None


def _json(items: list[Row]) -> str | None:
    return json.dumps(items, ensure_ascii=False) if items else None


def _nvtx(result: Row) -> str | None:
    """The ranges pushed on the launching thread, outermost first."""
    state = result.get("Nvtx", {})
    domains = {d.get("Id", 0): d.get("Name") for d in state.get("Domains", [])}
    names = []
    for thread in state.get("Threads", []):
        if thread.get("TID") != result.get("ThreadID"):
            continue
        for stack in thread.get("PushPopDomains", []):
            domain = domains.get(stack.get("Id", 0)) if stack.get("Id") else None
            for pushed in stack.get("Stack", []):
                name = pushed.get("Name", "")
                names.append(f"{domain}:{name}" if domain else name)
    return " / ".join(names) or None


def _stack(result: Row) -> str | None:
    """Functions of the call stack, leaf first."""
    frames = result.get("CpuStack", {}).get("Frames", [])
    names = [f.get("FuncName") or f"0x{f.get('PC', 0):x}" for f in frames]
    return ";".join(names) or None
