"""Metrics in Prometheus' text form, or as its HTTP API answers: what exporters say of GPUs.

DCGM's, NVIDIA's, AMD's and others' exporters, NCCL's Inspector and XPUTimer (DLRover). The GPU is
told by the label gpu, gpu_id or a UUID; a MIG instance and what else tells series apart is named in
`source`. Who ran what where (host, pod, container, serial) is only kept when asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from sightline.errors import DamagedError
from sightline.importers._samples import Samples, note_no_times
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

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
    version=2,
    source="https://prometheus.io/docs/instrumenting/exposition_formats/",
)

_LINE = re.compile(
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
# DCGM's and NVML's ways to write that there is no value (dcgm_structs.h).
_BLANK = 0x7FFFFFFFFFFFFFF0
_BLANKS = {2147483632.0 + n for n in range(4)} | {140737488355328.0 + n for n in range(4)}


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    samples, bad, blanks, untimed = Samples(), 0, 0, 0
    told = _read_answer(text) if text.lstrip().startswith("{") else _read_lines(text)
    for row in told:
        if row is None:
            bad += 1
            continue
        name, labels, value, at = row
        if float(value) in _BLANKS or float(value) >= _BLANK:
            blanks += 1
            continue
        device, place = _place(labels, samples, keep_identity=options.keep_identity)
        untimed += at is None
        samples.add(name, float(value), at or 0, device, place)
    if not samples.rows:
        raise DamagedError(f"cannot read {source.given}", why="it holds no sample with a value")
    if blanks:
        said = "values stand for none (DCGM's blanks) and are left out"
        quality.append(Quality("values_blank", "info", said, blanks))
    if untimed:
        quality.append(note_no_times(0))
    quality += note_bad_lines(bad, "samples of Prometheus")
    vendor = "nvidia" if re.search(r"DCGM|nvidia|NVIDIA", text) else None
    return Imported(samples.tables(vendor), Recording("prometheus"), quality)


_Row = tuple[str, dict[str, str], str, int | None]


def _read_lines(text: str) -> Iterator[_Row | None]:
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.match(line.strip())
        if found is None:
            yield None
            continue
        name, inside, value, at = found.groups()
        labels = {key: _unescape(raw) for key, raw in _LABEL.findall(inside or "")}
        yield name, labels, value, None if at is None else int(at) * 10**6


def _read_answer(text: str) -> Iterator[_Row | None]:
    """An instant or a range vector of the HTTP API."""
    try:
        series = json.loads(text)["data"]["result"]
        for one in series:
            labels = {str(k): str(v) for k, v in one["metric"].items()}
            name = labels.pop("__name__", "value")
            for at, value in one.get("values") or [one["value"]]:
                float(value)
                yield name, labels, str(value), round(float(at) * 1000) * 10**6
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        yield None


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
