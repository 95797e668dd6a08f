"""Metrics in Prometheus' text form, or as its HTTP API answers: what exporters say of GPUs.

DCGM's, NVIDIA's, AMD's and others' exporters, NCCL's Inspector and XPUTimer (DLRover). The GPU is
told by the label gpu, gpu_id or a UUID; a MIG instance and what else tells series apart is named in
`source`. Who ran what where (host, pod, container, serial) is only kept when asked for.
"""

from __future__ import annotations

import json
import re

import polars as pl

from sightline.errors import DamagedError
from sightline.importers._samples import BLANK, BLANKS, Samples, note_no_times
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source
from sightline.text import replace_surrogates

IMPORTER = Importer(
    name="prometheus",
    label="Prometheus metrics",
    strong=(
        rb"(?:\A|\n)# TYPE [A-Za-z_:][\w:]* (?:gauge|counter|histogram|summary|untyped|unknown)\b",
        rb"\A\s*\{\s*\"status\"\s*:\s*\"success\"\s*,\s*\"data\"\s*:\s*\{\s*\"resultType\"",
    ),
    weak=(
        rb"(?:\A|\n)(?:DCGM_FI_\w+|nvidia_smi_\w+)\{[^}\n]*\} [-+0-9.eE]+",
        # NCCL's Inspector writes no types, and XPUTimer's daemon may be asked without them.
        rb"(?:\A|\n)XPU_TIMER_\w+\{[^}\n]*\} [-+0-9.eE]+",
        rb"(?:\A|\n)nccl_\w*(?:bus_bandwidth|exec_time)_\w+\{[^}\n]*\} [-+0-9.eE]+",
    ),
    looks_like='lines such as # TYPE NAME gauge and NAME{gpu="0"} 42',
    suffixes=(".metrics", ".prom", ".ini", ".txt", ".json"),
    version=3,
    source="https://prometheus.io/docs/instrumenting/exposition_formats/",
)

_LINE = (
    r"^([A-Za-z_:][\w:]*)\s*(?:\{(.*)\})?\s+"
    r"([-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|Inf|NaN))(?:\s+(-?\d{1,19}))?\s*$"
)
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*,?\s*')
_NUMBERS = ("gpu", "gpu_id", "GPU_ID", "gpu_index", "index", "minor_number")
_UUIDS = ("UUID", "uuid", "GPU_UUID", "gpu_uuid", "SERIAL_NUMBER", "serial_number", "pci_bus_id")
_NAME = ("modelName", "name", "card_model", "CARD_MODEL")
# Who and where: no part of what was measured. Labels of Kubernetes and of scrape configurations.
_IDENTITY = re.compile(
    r"(?i)^(?:(?:exported_)?(?:host(?:name)?|pod(?:_uid)?|namespace|container(?:_?name)?|instance"
    r"|job|service|endpoint|node)|device|pci_bus_id|card_(?:series|vendor|model)"
    r"|driver_version|(?:slurm_)?job_(?:id|user|partition|name)|cluster_name|DCGM_FI_\w+"
    r"|serial_number|ip|pod_name|node_name)$"
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    told, bad = _read_answer(text) if text.lstrip().startswith("{") else _read_lines(text)
    # DCGM's blanks are numbers of their own.
    blank = pl.col("value").is_in(BLANKS) | (pl.col("value") >= BLANK)
    kept = told.filter(~blank.fill_null(False))
    samples = Samples()
    samples.add_columns(_place_samples(kept, samples, keep_identity=options.keep_identity))
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="it holds no sample with a value")
    if kept.height < told.height:
        said = "values stand for none (DCGM's blanks) and are left out"
        quality.append(Quality("values_blank", "info", said, told.height - kept.height))
    if kept.get_column("time_ns").null_count():
        quality.append(note_no_times(0))
    quality += note_bad_lines(bad, "samples of Prometheus")
    vendor = "nvidia" if re.search(r"DCGM|nvidia|NVIDIA", text) else None
    return Imported(samples.tables(vendor), Recording("prometheus"), quality)


# Labels as they are written, `a="b",c="d"`; the value as written, and as a number.
_TOLD = {
    "peer": pl.String,
    "labels": pl.String,
    "text": pl.String,
    "value": pl.Float64,
    "time_ns": pl.Int64,
}


def _read_lines(text: str) -> tuple[pl.DataFrame, int]:
    """All samples of the text form, and how many lines are none."""
    lines = pl.Series(text.splitlines(), dtype=pl.String).str.strip_chars()
    lines = lines.filter((lines != "") & ~lines.str.starts_with("#"))
    found = lines.str.extract_groups(_LINE).struct.unnest()
    found.columns = ["peer", "labels", "text", "at"]
    whole = found.filter(pl.col("peer").is_not_null())
    told = whole.select(
        "peer",
        pl.col("labels").fill_null(""),
        "text",
        value=pl.col("text").cast(pl.Float64, strict=False),
        # Milliseconds; beyond 64 bits of ns there is no time.
        time_ns=pl.when(pl.col("at").cast(pl.Int64, strict=False).abs() < 2**63 // 10**6).then(
            pl.col("at").cast(pl.Int64, strict=False) * 10**6
        ),
    )
    return told, found.height - whole.height


def _read_answer(text: str) -> tuple[pl.DataFrame, int]:
    """The samples of an instant or a range vector of the HTTP API; 1 where they break off."""
    rows, bad = [], 0
    try:
        for one in json.loads(text)["data"]["result"]:
            metric = one["metric"].items()
            labels = {replace_surrogates(str(k)): replace_surrogates(str(v)) for k, v in metric}
            name = labels.pop("__name__", "value")
            written = ",".join(f"{k}={_escape(v)}" for k, v in labels.items())
            for at, value in one.get("values") or [one["value"]]:
                moment = round(float(at) * 1000) * 10**6
                text = replace_surrogates(str(value))
                rows.append((name, written, text, float(value), moment))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        bad = 1
    kept = [row for row in rows if abs(row[-1]) < 2**63]
    return pl.DataFrame(kept, schema=_TOLD, orient="row"), bad + len(rows) - len(kept)


def _place_samples(told: pl.DataFrame, samples: Samples, *, keep_identity: bool) -> pl.DataFrame:
    """The samples with the GPU that each is of, and what else tells its series from others."""
    places = told.select("labels").unique(maintain_order=True)
    found = [
        _place(
            {key: _unescape(raw) for key, raw in _LABEL.findall(labels)},
            samples,
            keep_identity=keep_identity,
        )
        for (labels,) in places.iter_rows()
    ]
    known = places.with_columns(
        device_id=pl.Series([device for device, _ in found], dtype=pl.Int64),
        source=pl.Series([place for _, place in found], dtype=pl.String),
    )
    return (
        told.drop("value")
        .join(known, on="labels", maintain_order="left")
        .with_columns(unit=pl.lit(""), time_ns=pl.col("time_ns").fill_null(0))
    )


def _escape(text: str) -> str:
    return '"' + re.sub(r'([\\"])', r"\\\1", text).replace("\n", "\\n") + '"'


def _unescape(raw: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], raw)


def _place(
    labels: dict[str, str], samples: Samples, *, keep_identity: bool
) -> tuple[int | None, str | None]:
    """The GPU, and what else tells a series from others of its name."""
    number = next((labels[key] for key in _NUMBERS if labels.get(key, "").isdecimal()), None)
    known_as = next((labels[key] for key in _UUIDS if labels.get(key)), number)
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
        and key not in (*_NUMBERS, *_UUIDS, *_NAME)
        and (keep_identity or not _IDENTITY.match(key))
    }
    mig = rest.pop("GPU_I_ID", None)
    profile = rest.pop("GPU_I_PROFILE", None)
    parts = [f"MIG {mig}" + (f" ({profile})" if profile else "")] if mig else []
    parts += [f"{key}={value}" for key, value in sorted(rest.items())]
    return device, ", ".join(parts) or None
