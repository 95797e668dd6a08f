"""Reads a report: its results, the code that they are about, and what was lost."""

from __future__ import annotations

from typing import Any

from sightline.core.model.declare import Imported, ImportOptions, Recording
from sightline.core.model.source import Source
from sightline.core.protobuf import DamagedMessageError
from sightline.errors import DamagedError
from sightline.formats._ncu import make_devices, make_frame, read_all
from sightline.formats.nvidia.ncu_rep import quality
from sightline.formats.nvidia.ncu_rep.blocks import MAGIC, Report, read_fields, read_layout
from sightline.formats.nvidia.ncu_rep.code import Code
from sightline.formats.nvidia.ncu_rep.rows import Rows
from sightline.formats.nvidia.ncu_rep.schema import RESULT_KINDS


def read_report(source: Source, options: ImportOptions) -> Imported:
    """Read a report as far as it is intact. Raises DamagedError where it holds nothing."""
    data, cut = read_all(source)
    if not data.startswith(MAGIC):
        raise DamagedError(f"cannot read {source.given}", why=cut or "it is not a report")
    report = read_layout(data)
    if cut is not None:
        report.damage.append(cut)
    version = _tool_version(report)
    rows = Rows(f"NVIDIA Nsight Compute{f' {version}' if version else ''}")
    code = Code(report)
    kinds = {message: kind for _, message, kind in RESULT_KINDS}
    damaged = 0
    for message, start, end in report.of(*kinds):
        try:
            result = read_fields(message, data[start:end])
        except DamagedMessageError:
            damaged += 1
            continue
        rows.add(kinds[message], result, report, code)
    if not rows.kernels and (report.damage or damaged):
        why = report.damage[0] if report.damage else "none of its results is intact"
        raise DamagedError(
            f"cannot read {source.given}", why=why, hint="Copy it again, or profile again."
        )
    return Imported(
        tables={
            "profiled_kernels": make_frame("profiled_kernels", rows.kernels),
            "kernel_metrics": rows.metrics.frame(),
            "pc_samples": make_frame("pc_samples", rows.samples),
            "instructions": make_frame("instructions", rows.instructions),
            "source_files": make_frame(
                "source_files", [{"file": f, "content": c} for f, c in code.files.items()]
            ),
            "vendor_rules": make_frame("vendor_rules", rows.rules),
            "devices": make_devices(_devices(report, rows)),
        },
        recording=_recording(report, version, options),
        quality=quality.check_quality(report, rows, code, damaged),
    )


def _devices(report: Report, rows: Rows) -> dict[int, dict[str, Any]]:
    """Attributes of each device that the session names, or that its kernels state."""
    found: dict[int, dict[str, Any]] = {}
    for session in report.sessions():
        for device in session.get("DeviceAttributes", []):
            attributes = found.setdefault(device.get("ID", 0), {})
            attributes["name"] = device.get("Name")
            for attribute in device.get("Attributes", []):
                value = attribute.get("Value", {})
                name = attribute.get("Name", "").removeprefix("device__attribute_")
                attributes.setdefault(name, next(iter(value.values()), None))
    for number, stated in rows.devices.items():
        if stated:
            attributes = found.setdefault(number, {})
            attributes |= {n: v for n, v in stated.items() if attributes.get(n) is None}
    return found


def _tool_version(report: Report) -> str | None:
    for session in report.sessions():
        for entry in session.get("VersionInfo", []):
            if "Nsight Compute" in entry.get("Provider", ""):
                version = entry.get("Version", "").split(" ")[0]
                return str(version) or None
    return None


def _recording(report: Report, version: str | None, options: ImportOptions) -> Recording:
    host = None
    for session in report.sessions():
        host = host or session.get("TargetSystemInfo", {}).get("ComputerName")
    return Recording(
        tool="NVIDIA Nsight Compute",
        tool_version=version,
        host=host if options.keep_identity else None,
    )
