"""What limits the conclusions that an export allows."""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.redaction import hide_homes
from sightline.core.units import format_several
from sightline.formats.nvidia._nsys import target
from sightline.formats.nvidia._nsys.database import Database
from sightline.formats.nvidia._nsys.device import UNNAMED
from sightline.formats.nvidia._nsys.no_device import explain_no_device, read_system, saw_no_cuda
from sightline.formats.nvidia._nsys.program_error import find_program_error

WINDOWS_DRIVER = "windows_driver"
NEWEST_KNOWN = (3, 25)  # schema of nsys 2026.2
_HARMLESS = re.compile(r"^No [\w ]+ events collected|^Scheduling information is absent")
# What the profiler says of CPU samples, of other libraries' calls, of a symbol, or that it traces
# with an older CUPTI than the driver has: the GPU's rows that are there are no worse for it. That
# events of CUDA are missing is said in other words ("Not all CUDA events", "Could not parse").
_BESIDE_GPU = re.compile(
    r"(?i)\b(?:IP|backtrace)(?: IP)? samples|backtrace samples|sampling data|scheduling data"
    r"|MMAP events|Not all (?:NVTX|OpenGL|Vulkan|OS runtime libraries|cuDNN|cuBLAS|MPI|UCX) events"
    r"|^NVTX function |Unsupported Vulkan|Unified Memory cannot be traced"
    r"|^Installed CUDA driver version .* is not supported by this build"
)
_GRAPH_LAUNCH = r"^(?:cudaGraphLaunch|cuGraphLaunch)"


def check_file(db: Database, meta: dict[str, str], *, has_clock: bool) -> list[Quality]:
    """Limits that show in the file as such."""
    found = []
    if db.cut_off:
        found.append(
            Quality(
                "cut_off",
                "error",
                f"the file is cut off: {db.cut_loss}",
                None,
                db.again,
            )
        )
    for table, why in sorted(db.lost.items()):
        found.append(
            Quality(
                "damaged_table",
                "error",
                f"table {table} {db.loss} ({why})",
                None,
                db.again,
            )
        )
    for table, count in sorted(db.malformed.items()):
        found.append(
            Quality(
                "malformed_values",
                "warning",
                f"values of {table} that are not integers were left out",
                count,
            )
        )
    found += db.limits
    schema = target.read_version(meta)
    if schema is None:
        found.append(
            Quality("no_schema_version", "info", "the export does not state its schema's version")
        )
    elif schema[:2] > NEWEST_KNOWN:
        found.append(
            Quality(
                "newer_schema",
                "warning" if schema[0] > NEWEST_KNOWN[0] else "info",
                f"the export's schema {schema[0]}.{schema[1]} is newer than "
                f"{NEWEST_KNOWN[0]}.{NEWEST_KNOWN[1]}, the newest that this version knows: "
                "renamed columns are read as missing",
                None,
                "Update sightline.",
            )
        )
    if has_clock:
        found.append(
            Quality(
                "wall_clock",
                "info",
                "with other files it shares only the wall clock that each session read at its "
                "start: between machines good to about 1 ms under NTP",
                None,
                "Synchronize the machines' clocks (PTP), or record all ranks in one session.",
            )
        )
    else:
        found.append(
            Quality(
                "no_wall_clock",
                "warning",
                "the export does not say when the session began: its times cannot be aligned "
                "with other files",
                None,
                "Export with a newer nsys.",
            )
        )
    return [*found, *find_program_error(db), *_diagnostics(db)]


def _diagnostics(db: Database) -> list[Quality]:
    """The profiler's own warnings and errors, each text once."""
    rows = db.rows("DIAGNOSTIC_EVENT", ["severity", "text"])
    seen: dict[tuple[str, str], int] = {}
    for severity, text in rows.iter_rows():
        # 1 is information, 4 verbose.
        if severity in (2, 3) and text and not _HARMLESS.match(str(text)):
            plain = hide_homes(re.sub(r"\s+", " ", str(text)).strip())
            loss = "warning" if severity == 2 else "error"
            key = ("info" if _BESIDE_GPU.search(plain) else loss, plain)
            seen[key] = seen.get(key, 0) + 1
    return [
        Quality("profiler_message", severity, f"Nsight Systems says: {text}", count)
        for (severity, text), count in seen.items()
    ]


def check_tables(
    db: Database,
    ops: pl.DataFrame,
    host: pl.DataFrame,
    counts: dict[str, int],
    shared_devices: list[int],
) -> list[Quality]:
    """Limits that show in what was recorded."""
    found = _device(db, ops, host, counts, shared_devices)
    if counts["open"]:
        found.append(
            Quality(
                "open_ranges",
                "info",
                "NVTX ranges never ended: they are taken to end with the recording",
                counts["open"],
            )
        )
    if counts["shifted_chains"]:
        found.append(
            Quality(
                "shifted_call_chains",
                "warning",
                "each CUDA call was recorded with the call chain of the call before it; the "
                "chains were moved back to their own calls",
                None,
                "Record with a newer Nsight Systems.",
            )
        )
    if counts["negative"]:
        found.append(
            Quality(
                "negative_durations",
                "warning",
                "events that end before they start were left out",
                counts["negative"],
            )
        )
    if counts["unclocked"]:
        text = "GPU operations without a time (from 0 to 0) were left out"
        remedy = "The profiler had no time for them: update the driver and the profiler."
        found.append(Quality("impossible_times", "warning", text, counts["unclocked"], remedy))
    if counts["timeless"]:
        text = "calls and ranges without a start were left out"
        found.append(Quality("missing_times", "warning", text, counts["timeless"]))
    layers = set(host.select(pl.col("layer").unique()).to_series())
    if not layers & {"runtime", "driver"} and not saw_no_cuda(db):
        found.append(
            Quality(
                "no_host_ops",
                "warning",
                "no CUDA API calls were recorded, so the causes of idle time are unknown",
                None,
                "Record with --trace=cuda,nvtx,osrt.",
            )
        )
    if not layers & {"annotation", "step"}:
        found.append(
            Quality(
                "no_annotations",
                "info",
                "no NVTX ranges: time cannot be attributed to parts of the program",
                None,
                "Mark steps with torch.cuda.nvtx.range or nvtx.annotate, and record with "
                "--trace=cuda,nvtx.",
            )
        )
    if "step" not in layers:
        found.append(
            Quality(
                "no_steps",
                "info",
                "no steps are marked",
                None,
                "Name an NVTX range of each iteration 'ProfilerStep#<N>'.",
            )
        )
    if not db.count("COMPOSITE_EVENTS"):
        found.append(
            Quality(
                "no_cpu_samples",
                "info",
                "no CPU samples: host time has no call stacks",
                None,
                "Record with --sample=process-tree, and --python-sampling=true for Python.",
            )
        )
    return found


def _check_names(ops: pl.DataFrame) -> list[Quality]:
    """A note where the export lacks the texts that kernels are named by."""
    if ops.is_empty():
        return []
    named = ops.get_column("name").value_counts()
    lost = named.filter(pl.col("name").cast(pl.String).str.starts_with(UNNAMED))
    if lost.is_empty():
        return []
    text = (
        "kernels have no name, as the export lacks its strings (StringIds): they are "
        "distinguished by number"
    )
    remedy = "Export the report again:  nsys export --type sqlite REPORT.nsys-rep"
    return [Quality("names_missing", "warning", text, int(lost["count"].sum()), remedy)]


def _device(
    db: Database,
    ops: pl.DataFrame,
    host: pl.DataFrame,
    counts: dict[str, int],
    shared_devices: list[int],
) -> list[Quality]:
    found = _check_names(ops)
    if ops.is_empty():
        found.append(explain_no_device(db, host))
    elif read_system(db).get("SoftwarePlatform") == "Windows":
        found.append(
            Quality(
                WINDOWS_DRIVER,
                "info",
                "recorded on Windows: its display driver model (WDDM) collects launches and hands "
                "them to the GPU together, so that work may start later than it was launched",
            )
        )
    if counts["without_device"]:
        found.append(
            Quality(
                "without_device",
                "warning",
                "GPU operations without a device were assigned to device 0",
                counts["without_device"],
            )
        )
    for device in shared_devices:
        found.append(
            Quality(
                "shared_device_number",
                "warning",
                f"several processes use a device {device}, and the export does not say "
                "whether it is the same GPU: it is treated as one",
                None,
                "Export with nsys 2023.3 or newer, which writes TARGET_INFO_CUDA_DEVICE.",
            )
        )
    # No call launches a migration of managed memory.
    launched = ops
    if "copy_kind" in ops.columns:
        launched = ops.filter(~pl.col("copy_kind").str.starts_with("UVM").fill_null(value=False))
    unmatched = launched.get_column("launch_id").null_count()
    if unmatched:
        found.append(
            Quality(
                "unmatched_launches",
                "info" if unmatched * 20 < launched.height else "warning",
                f"of {format_several(launched.height, 'GPU operation')} have no launch call in the "
                "recording",
                unmatched,
                "Start recording before the work is launched.",
            )
        )
    zero = ops.select((pl.col("start_ns") == pl.col("end_ns")).sum()).item()
    if zero:
        found.append(Quality("zero_durations", "info", "GPU operations have no duration", zero))
    return found + _graphs(db, ops, host)


def _graphs(db: Database, ops: pl.DataFrame, host: pl.DataFrame) -> list[Quality]:
    remedy = "Record with --cuda-graph-trace=node to see the kernels inside."
    whole = ops.select((pl.col("kind") == "graph").sum()).item()
    if whole:
        return [
            Quality(
                "graphs_recorded_whole",
                "warning",
                "graph launches were recorded as single operations: the kernels and gaps inside "
                "are unknown",
                whole,
                remedy,
            )
        ]
    names = host.get_column("name").unique()
    launching = names.filter(names.cast(pl.String).str.contains(_GRAPH_LAUNCH))
    if launching.is_empty():
        return []
    launches = host.filter(
        pl.col("layer").is_in(["runtime", "driver"]) & pl.col("name").is_in(launching.implode())
    )
    if launches.is_empty() or ops.get_column("graph_node_id").null_count() < ops.height:
        return []
    return [
        Quality(
            "graphs_not_recorded",
            "error",
            "graph launches were not recorded on the GPU: time that looks idle may be theirs",
            launches.height,
            remedy,
        )
    ]
