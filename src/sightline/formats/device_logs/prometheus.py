"""Metrics in Prometheus' text form, or as its HTTP API answers: what exporters say of GPUs.

DCGM's, NVIDIA's, AMD's, Azure's (Moneo) and others' exporters, NCCL's Inspector and XPUTimer
(DLRover). The GPU is told by the label gpu, gpu_id or a UUID; a MIG instance and what else tells
series apart is named in `source`. Who ran what where (host, pod, container, serial) is only kept
when asked for.
"""

from __future__ import annotations

import json
import re

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._lines import Matched, code_texts, read_utf8, split_lines, unite
from sightline.formats._samples import BLANK, BLANKS, Samples, note_no_times
from sightline.formats._stacks import note_bad_lines

IMPORTER = Importer(
    name="prometheus",
    label="Prometheus metrics",
    strong=(
        rb"(?:\A|\n)# TYPE [A-Za-z_:][\w:]* (?:gauge|counter|histogram|summary|untyped|unknown)\b",
        rb"\A\s*\{\s*\"status\"\s*:\s*\"success\"\s*,\s*\"data\"\s*:\s*\{\s*\"resultType\"",
    ),
    weak=(
        rb"(?:\A|\n)(?:DCGM_FI_\w+|dcgm_\w+|nvidia_smi_\w+)\{[^}\n]*\} [-+0-9.eE]+",
        # NCCL's Inspector writes no types, and XPUTimer's daemon may be asked without them.
        rb"(?:\A|\n)XPU_TIMER_\w+\{[^}\n]*\} [-+0-9.eE]+",
        rb"(?:\A|\n)nccl_\w*(?:bus_bandwidth|exec_time)_\w+\{[^}\n]*\} [-+0-9.eE]+",
    ),
    looks_like='lines such as # TYPE NAME gauge and NAME{gpu="0"} 42',
    suffixes=(".metrics", ".prom", ".ini", ".txt", ".json"),
    version=11,
    source="https://prometheus.io/docs/instrumenting/exposition_formats/",
)

_VALUE = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|Inf|NaN)"
_LINE = rf"^([A-Za-z_:][\w:]*)\s*(?:\{{(.*)\}})?\s+({_VALUE})(?:\s+(-?\d{{1,19}}))?\s*$"
# As nearly all lines are written.
_PATTERNS = (
    "{peer:word}{{{labels:free}}} {text:number} {at:int}",
    "{peer:word}{{{labels:free}}} {text:number}",
    "{peer:word} {text:number} {at:int}",
    "{peer:word} {text:number}",
)
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*,?\s*')
# Labels that name a GPU in any family of metrics, and those that do in a GPU's own only: a job, a
# socket of the processor and a disk have a uuid, an index and a serial number, too.
_GPU_NUMBERS = ("gpu", "gpu_id", "GPU_ID", "gpu_index")
_GPU_UUIDS = ("GPU_UUID", "gpu_uuid", "gpuuuid")
_NUMBERS = (*_GPU_NUMBERS, "index", "minor_number")
_UUIDS = (*_GPU_UUIDS, "UUID", "uuid", "SERIAL_NUMBER", "serial_number", "pci_bus_id")
_GPU_FAMILY = r"(?i)gpu|^dcgm|nvidia|nvml|^amd|rocm|radeon|^xpu|nccl|^npu|habana|gaudi|all_smi"
# What DCGM measures of a GPU, and its exporter repeats for each of the GPU's MIG instances
# (dcgm-exporter #353): power, energy, temperatures, clocks, PCIe, XIDs.
_OF_WHOLE = (
    r"^DCGM_FI_DEV_(?:POWER_\w+|TOTAL_ENERGY_CONSUMPTION|GPU_TEMP|MEMORY_TEMP|(?:SM|MEM)_CLOCK"
    r"|PCIE_\w+|XID_ERRORS|FAN_SPEED|POWER_VIOLATION|THERMAL_VIOLATION)$"
)
_NONE = "<<<NULL>>>"  # as DCGM's exporter writes a label without a value
_NAME = ("modelName", "name", "card_model", "CARD_MODEL")
# Who and where: no part of what was measured. Labels of Kubernetes and of scrape configurations.
_IDENTITY = re.compile(
    r"(?i)^(?:(?:exported_)?(?:host(?:name)?|pod(?:_uid)?|namespace|container(?:_?name)?|instance"
    r"|job|service|endpoint|node)|device|pci_bus_id|card_(?:series|vendor|model)"
    r"|driver_version|(?:slurm_)?job_(?:id|user|partition|name)|cluster_name|DCGM_FI_\w+"
    r"|serial_number|ip|pod_name|node_name|ib_sys_guid)$"
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    data = read_utf8(source, quality)
    told, bad = _read_answer(data) if data.lstrip()[:1] == b"{" else _read_lines(data)
    told = _name_links(_drop_creation(told))
    # DCGM's blanks are numbers of their own.
    value = told.texts["text"].cast(pl.Float64, strict=False)
    odd = value.is_null() & ~told.texts["text"].str.contains(r"(?i)nan|inf")
    bad += int(odd.gather(told.rows.get_column("text")).sum())
    blank = (value.is_in(BLANKS) | (value >= BLANK)).fill_null(False)
    kept = told.rows.filter(~blank.gather(told.rows.get_column("text")))
    samples = Samples()
    cells = _place_samples(kept, told.texts, samples, keep_identity=options.keep_identity)
    samples.add_columns(*_list_said(cells, told.texts))
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="it holds no sample with a value")
    if kept.height < told.rows.height:
        said = "values stand for a missing one (DCGM's blanks) and are left out"
        quality.append(Quality("values_blank", "info", said, told.rows.height - kept.height))
    if kept.get_column("time_ns").null_count():
        quality.append(note_no_times(0))
    quality += samples.note_gaps()
    quality += note_bad_lines(bad, "samples of Prometheus")
    vendor = "nvidia" if re.search(rb"DCGM|nvidia|NVIDIA", data) else None
    # An inference server's own metrics are of no rank: its ranks' traces may lie beside them.
    serves = re.search(rb"(?m)^(?:vllm|sglang):|^trtllm_", data) is not None
    recording = Recording("prometheus", of_host=True if serves and vendor is None else None)
    return Imported(samples.tables(vendor), recording, quality)


# Labels as they are written, `a="b",c="d"`, and the value as written.
_TOLD = {
    "line": pl.Int64,
    "peer": pl.String,
    "labels": pl.String,
    "text": pl.String,
    "time_ns": pl.Int64,
}


# Two lines in one: behind the labels of the first a value, and the name of the second.
_JOINED = r'"\} [-+\d.eE]+[A-Za-z_:][\w:]*\{'


# A line that declares a family, and behind it another line.
_TYPE_AND_MORE = re.compile(
    rb"(?m)^# TYPE \S+ (?:counter|gauge|histogram|summary|untyped)(?!\s*$)\S"
)


def _read_lines(data: bytes) -> tuple[Matched, int]:
    """All samples of the text form, and how many lines are none."""
    parts, others = split_lines(data, *_PATTERNS)
    told = unite(parts)
    is_whole = told.texts["peer"].str.contains(r"^[A-Za-z_]").gather(
        told.rows.get_column("peer")
    ) & told.texts["text"].str.contains(f"^{_VALUE}$").gather(told.rows.get_column("text"))
    lines = others.with_columns(pl.col("text").str.strip_chars()).filter(
        (pl.col("text") != "") & ~pl.col("text").str.starts_with("#")
    )
    fields = pl.col("text").str.extract_groups(_LINE).struct
    found = lines.select("line", fields.rename_fields(["peer", "labels", "text", "at"])).unnest(
        "text"
    )
    rest = found.filter(pl.col("peer").is_not_null()).with_columns(
        pl.col("labels").fill_null(""), pl.col("at").cast(pl.Int64, strict=False)
    )
    whole = Matched(told.rows.filter(is_whole), told.texts).add(rest)
    # Milliseconds; beyond 64 bits of ns there is no time.
    time = pl.when(pl.col("at").abs() < 2**63 // 10**6).then(pl.col("at") * 10**6)
    rows = whole.rows.with_columns(time_ns=time)
    bad = told.rows.height + found.height - rows.height
    joined = whole.texts["labels"].str.contains(_JOINED).fill_null(False)
    bad += int(joined.gather(rows.get_column("labels")).sum())
    bad += len(_TYPE_AND_MORE.findall(data))
    return Matched(rows, whole.texts), bad


def _read_answer(data: bytes) -> tuple[Matched, int]:
    """The samples of an instant or a range vector of the HTTP API; 1 where they break off."""
    rows: list[tuple[int, str, str, str, int]] = []
    bad = 0
    try:
        for one in json.loads(data.decode(errors="replace"))["data"]["result"]:
            metric = one["metric"].items()
            labels = {replace_surrogates(str(k)): replace_surrogates(str(v)) for k, v in metric}
            name = labels.pop("__name__", "value")
            written = ",".join(f"{k}={_escape(v)}" for k, v in labels.items())
            for at, value in one.get("values") or [one["value"]]:
                moment = round(float(at) * 1000) * 10**6
                float(value)
                rows.append((len(rows), name, written, replace_surrogates(str(value)), moment))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        bad = 1
    kept = [row for row in rows if abs(row[-1]) < 2**63]
    told = pl.DataFrame(kept, schema=_TOLD, orient="row")
    return code_texts(told), bad + len(rows) - len(kept)


# Moneo's exporter of InfiniBand (net_exporter.py) writes bytes a second under the names of sysfs'
# counters, which others export as they are: its label tells them apart.
_LINKS = {"ib_port_xmit_data": "link_sent", "ib_port_rcv_data": "link_received"}


def _name_links(told: Matched) -> Matched:
    """The same with what Moneo says of a port named as what it is."""
    peers = told.texts["peer"]
    is_moneos = told.texts["labels"].str.contains("ib_sys_guid=", literal=True)
    if not is_moneos.any() or not peers.is_in(list(_LINKS)).any():
        return told
    renamed = peers.replace(_LINKS)
    moved = is_moneos.gather(told.rows.get_column("labels"))
    peer = pl.when(moved).then(pl.col("peer") + peers.len()).otherwise("peer").cast(pl.UInt32)
    texts = told.texts | {"peer": pl.concat([peers, renamed])}
    return Matched(told.rows.with_columns(moved=moved).with_columns(peer=peer).drop("moved"), texts)


def _drop_creation(told: Matched) -> Matched:
    """The samples without the moments at which OpenMetrics' series began, which measure nothing."""
    peers = told.texts["peer"].to_list()
    known = set(peers)
    gone = [
        number
        for number, peer in enumerate(peers)
        if (base := peer.removesuffix("_created")) != peer
        and known & {base, f"{base}_total", f"{base}_count"}
    ]
    return Matched(told.rows.filter(~pl.col("peer").is_in(gone)), told.texts) if gone else told


def _list_said(
    cells: pl.DataFrame, texts: dict[str, pl.Series]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The samples with the row of what each says, and what is said: peer, text, unit."""
    count = texts["text"].len()
    both = pl.col("peer").cast(pl.Int64) * count + pl.col("text")
    pair = cells.select(both).to_series()
    pairs = pair.unique().sort()
    said = pl.DataFrame(
        {
            "peer": texts["peer"].gather(pairs // max(count, 1)),
            "text": texts["text"].gather(pairs % max(count, 1)),
        }
    ).with_columns(unit=pl.lit(""))
    return cells.with_columns(pairs.search_sorted(pair).alias("said")), said


def _place_samples(
    told: pl.DataFrame, texts: dict[str, pl.Series], samples: Samples, *, keep_identity: bool
) -> pl.DataFrame:
    """The samples with the GPU that each is of, and what else tells its series from others."""
    labels = texts["labels"]
    is_gpus = texts["peer"].str.contains(_GPU_FAMILY).gather(told.get_column("peer"))
    is_whole = texts["peer"].str.contains(_OF_WHOLE).gather(told.get_column("peer"))
    is_whole &= labels.str.contains("GPU_I_ID=", literal=True).gather(told.get_column("labels"))
    told = told.with_columns(is_gpus=is_gpus, is_whole=is_whole)
    used = told.select("labels", "is_gpus", "is_whole").unique(maintain_order=True)
    found = [
        _place(
            {key: _unescape(raw) for key, raw in _LABEL.findall(text or "")},
            samples,
            is_gpus=is_gpus,
            is_whole=is_whole,
            keep_identity=keep_identity,
        )
        for text, is_gpus, is_whole in zip(
            labels.gather(used.get_column("labels")),
            used.get_column("is_gpus"),
            used.get_column("is_whole"),
            strict=True,
        )
    ]
    known = used.with_columns(
        device_id=pl.Series([device for device, _ in found], dtype=pl.Int64),
        source=pl.Series([place for _, place in found], dtype=pl.String),
    )
    placed = told.join(
        known, on=["labels", "is_gpus", "is_whole"], maintain_order="left", nulls_equal=True
    ).with_columns(pl.col("time_ns").fill_null(0))
    again = ["peer", "text", "time_ns", "device_id", "source"]
    is_first = pl.struct(again).is_first_distinct()
    return placed.filter(~pl.col("is_whole") | is_first) if is_whole.any() else placed


def _escape(text: str) -> str:
    return '"' + re.sub(r'([\\"])', r"\\\1", text).replace("\n", "\\n") + '"'


def _unescape(raw: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], raw)


def _place(
    labels: dict[str, str],
    samples: Samples,
    *,
    is_gpus: bool,
    is_whole: bool,
    keep_identity: bool,
) -> tuple[int | None, str | None]:
    """The GPU, and what else tells a series from others of its name."""
    labels = {key: value for key, value in labels.items() if value != _NONE}
    numbers = _NUMBERS if is_gpus else _GPU_NUMBERS
    # The number of a job or a unit stands under `uuid`, too, where an exporter is of both.
    uuids = [
        key
        for key in _UUIDS
        if re.search(r"\w", labels.get(key, ""))  # ******** where somebody hid it
        if is_gpus or key in _GPU_UUIDS or labels.get(key, "").startswith(("GPU-", "MIG-"))
        if labels.get(key) and not ("uuid" in key.lower() and labels[key].isdecimal())
    ]
    number = next((labels[key] for key in numbers if labels.get(key, "").isdecimal()), None)
    known_as = next((labels[key] for key in uuids), number)
    device = None
    if known_as is not None:
        own = int(number) if number is not None and len(number) < 5 else None
        device = samples.number_device(known_as, own)
        name = next((labels[key] for key in _NAME if labels.get(key)), None)
        if name is None and not labels.get("gpu", "0").isdecimal():
            name = labels["gpu"]  # all-smi
        if name:
            samples.names[device] = name
    rest = {
        key: value
        for key, value in labels.items()
        if value
        and key not in (*numbers, *uuids, *(_NAME if device is not None else ()))
        and (keep_identity or not _IDENTITY.match(key))
    }
    mig = rest.pop("GPU_I_ID", None)
    profile = rest.pop("GPU_I_PROFILE", None)
    is_instance = mig and not is_whole
    parts = [f"MIG {mig}" + (f" ({profile})" if profile else "")] if is_instance else []
    parts += [f"{key}={value}" for key, value in sorted(rest.items())]
    return device, ", ".join(parts) or None
