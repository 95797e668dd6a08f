"""`nvidia-smi -q -x`: everything that the driver says of its GPUs, once or again and again (-l).

Elements: nvsmi_device_v*.dtd, from version 8 to 13. Each value with a number becomes a row of
`counters`, named by its path where it has no name of ours; MIG devices are named in `source`.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times, note_zone, read_time
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.device_logs._clock_reasons import combine_reasons
from sightline.formats.device_logs._lost import (
    Lost,
    describe_fabric,
    describe_failure,
    is_failure,
    list_states,
    note_missing_gpus,
    report_lost,
)

IMPORTER = Importer(
    name="nvidia_smi_xml",
    label="nvidia-smi -q -x (XML)",
    strong=(rb"<nvidia_smi_log>", rb"<!DOCTYPE nvidia_smi_log "),
    weak=(),
    looks_like="the element nvidia_smi_log",
    suffixes=(".xml",),
    version=7,
    source="https://docs.nvidia.com/deploy/nvidia-smi/",
)

_LOG = re.compile(r"<nvidia_smi_log>.*?(?:</nvidia_smi_log>|\Z)", re.DOTALL)
# What says who a device is and what it could do, not what it does.
_NO_SAMPLES = {
    "minor_number", "module_id", "pci_bus", "pci_device", "pci_domain", "pci_device_id",
    "pci_sub_system_id", "pci_base_class", "pci_sub_class", "serial", "uuid", "vbios_version",
    "supported_clocks", "processes", "mig_devices", "board_id", "gpu_part_number",
    "accounted_processes", "gpu_instance_id", "compute_instance_id", "index",
}  # fmt: skip
# Of which only the last name counts: power_readings until driver 525, gpu_power_readings since.
_FLAT = {"clocks", "power_readings", "gpu_power_readings"}
_REASON = re.compile(r"clocks_(?:event|throttle)_reason_(\w+)$")
_DEPTH = 64  # elements of nvidia-smi are nested 6 deep


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all logs that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    # Entities could grow without bound, and nvidia-smi writes none.
    if "<!ENTITY" in text:
        raise DamagedError(f"cannot read {source.given}", why="it declares entities of its own")
    samples, lost = Samples(), list[Lost]()
    logs, bad, times, missing = 0, 0, 0, 0
    for found in _LOG.finditer(text):
        try:
            log = ElementTree.fromstring(found[0])  # noqa: S314 - no entities, see above
        except ElementTree.ParseError:
            bad += 1
            continue
        at = read_time(log.findtext("timestamp") or "", "%a %b %d %H:%M:%S %Y")
        times += at is not None
        attached = log.findtext("attached_gpus") or ""
        if attached.isdecimal() and len(attached) < 5:
            missing += max(int(attached) - sum(1 for _ in log.iter("gpu")), 0)
        _read_log(log, at if at is not None else logs * 10**9, samples, lost)
        logs += 1
    if not samples.has_values() and not samples.names:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete log")
    quality.append(note_zone() if times == logs else note_no_times(1))
    quality += [*samples.note_gaps(), *note_missing_gpus(missing)]
    quality += note_bad_lines(bad, "logs of nvidia-smi")
    events, notes = report_lost(lost)
    tables = samples.tables("nvidia") | events
    return Imported(tables, Recording("nvidia-smi"), quality + notes)


def _read_log(log: ElementTree.Element, at: int, samples: Samples, lost: list[Lost]) -> None:
    for place, gpu in enumerate(log.iter("gpu")):
        minor = gpu.findtext("minor_number") or ""
        number = int(minor) if minor.isdecimal() and len(minor) < 5 else place
        device = samples.number_device(gpu.get("id") or str(place), number)
        name = gpu.findtext("product_name")
        if name and not is_failure(name):
            samples.names[device] = name
        _read_values(gpu, "", at, device, None, samples)
        _read_reasons(gpu, at, device, samples)
        values = _name_texts(gpu)
        if (failure := describe_failure(values)) is not None:
            lost.append(Lost(at, device, *failure))
        if (fabric := describe_fabric(values)) is not None:
            lost.append(Lost(at, device, "fabric-error", fabric))
        lost += [Lost(at, device, *state) for state in list_states(values)]
        for mig in gpu.iterfind("mig_devices/mig_device"):
            one, two = mig.findtext("gpu_instance_id"), mig.findtext("compute_instance_id")
            _read_values(mig, "", at, device, f"MIG {one}/{two}", samples)
        for process in gpu.iterfind("processes/process_info"):
            used, pid = process.findtext("used_memory") or "", process.findtext("pid") or "?"
            samples.add("process memory", used, at, device, f"process {pid}", "bytes")


def _name_texts(gpu: ElementTree.Element) -> dict[str, str]:
    """What stands in each element that has no others, by its and its parent's name."""
    parents = [(parent.tag, child) for parent in gpu.iter() for child in parent]
    return {
        f"{parent}.{child.tag}".removeprefix("gpu."): child.text or ""
        for parent, child in parents
        if not len(child)
    }


def _read_reasons(gpu: ElementTree.Element, at: int, device: int, samples: Samples) -> None:
    """The bits of the reasons that are active; none where it does not say."""
    bits = combine_reasons(
        (found[1], element.text) for element in gpu.iter() if (found := _REASON.match(element.tag))
    )
    if bits is not None:
        samples.add("clocks_event_reasons.active", bits, at, device)


def _read_values(
    element: ElementTree.Element,
    path: str,
    at: int,
    device: int,
    source: str | None,
    samples: Samples,
    depth: int = 0,
) -> None:
    for child in element:
        if child.tag in _NO_SAMPLES or depth > _DEPTH:
            continue
        group = "" if child.tag in _FLAT else child.tag
        name = f"{path}.{group}".strip(".") if group else path
        if len(child):
            _read_values(child, name, at, device, source, samples, depth + 1)
        elif child.text:
            samples.add(name, child.text, at, device, source)
