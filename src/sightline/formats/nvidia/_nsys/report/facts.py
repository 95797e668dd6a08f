"""What a report says besides its events, as tables of the export."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl

from sightline.core.protobuf import DamagedMessageError, decode_text, parse_message
from sightline.formats.nvidia._nsys.codes import wrap_integer
from sightline.formats.nvidia._nsys.report.container import Container, read_version
from sightline.formats.nvidia._nsys.report.messages import MESSAGES
from sightline.formats.nvidia._nsys.target import RANK_VARIABLES, SIZE_VARIABLES

# The version of the export's schema that has the columns of plans.py.
SCHEMA_VERSION = "3.25.0"
_TEXTS = {
    "name",
    "value",
    "stateName",
    "utcTime",
    "localTime",
    "busLocation",
    "uuid",
    "chipName",
    "ctxswDevPath",
    "ctrlDevPath",
}
_MOST_LOST = 1 << 20  # names that are given to strings that are not there
# Properties of the machine by their numbers; of the rest, much is about who owns it.
_NICS = 910
_SYSTEM_NAMES = {
    205: "NvDriverVersion",
    601: "SoftwarePlatform",
    611: "CudaDriverVersion",
    618: "SoftwareReleaseVersion",
}
# Clocks by their numbers in a report: up to 2025.6, and in the section of its own since.
_RECORDING, _SYSTEM, _UTC, _LOCAL = 1, 3, 9, 10
_NEW_SYSTEM, _NEW_UTC = 7, 11


def _table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    schema = {name: pl.String if name in _TEXTS else pl.Int64 for name in columns}
    wrapped = [tuple(wrap_integer(v) if isinstance(v, int) else v for v in row) for row in rows]
    return pl.DataFrame(wrapped, schema=schema, orient="row")


def list_strings(strings: Any, count: int) -> pl.DataFrame:
    """StringIds.

    `strings` is None where the report was cut off before its `count` strings. Each then has a name
    that tells it from the others, so that kernels are not all one.
    """
    if strings is None:
        values = [f"name {i} (lost)" for i in range(min(count, _MOST_LOST))]
    else:
        values = [decode_text(text) for text in strings.strings]
    return pl.DataFrame(
        {"id": range(len(values)), "value": values}, schema={"id": pl.Int64, "value": pl.String}
    )


def list_printed(strings: Any) -> pl.DataFrame:
    """ProcessStreams: what programs printed, and the name of the file that it was kept in."""
    rows = [] if strings is None else strings.streams
    columns = ("globalPid", "filenameId", "contentId")
    return _table(columns, [(s.global_pid, s.file_name, s.content) for s in rows])


def list_thread_names(message: Any) -> pl.DataFrame:
    """ThreadNames."""
    rows = [(name.name, name.priority, name.global_tid) for name in message.names]
    return _table(("nameId", "priority", "globalTid"), rows)


def list_gpus(hardware: Any) -> pl.DataFrame:
    """TARGET_INFO_GPU."""
    fields = [field.name for field in MESSAGES["Gpu"]().DESCRIPTOR.fields]
    rows = [
        (machine.vm_id, *(_plain(getattr(gpu, field)) for field in fields))
        for machine in hardware.machines
        for gpu in machine.devices.gpus
    ]
    return _table(("vmId", *fields), rows)


def _plain(value: Any) -> Any:
    return decode_text(value) if isinstance(value, (str, bytes)) else value


def list_cuda_devices(hardware: Any) -> pl.DataFrame:
    """TARGET_INFO_CUDA_DEVICE: which GPU a process's device is."""
    rows = [
        (device.gpu, device.cuda, device.pid)
        for machine in hardware.machines
        for device in machine.devices.cuda_devices
    ]
    return _table(("gpuId", "cudaId", "pid"), rows)


def list_contexts(hardware: Any) -> pl.DataFrame:
    """TARGET_INFO_CUDA_CONTEXT_INFO."""
    rows = [
        (c.null_stream, c.hw, c.vm, c.pid, c.device, c.context, c.parent, c.is_green)
        for c in hardware.contexts
    ]
    columns = ("nullStreamId", "hwId", "vmId", "processId", "deviceId", "contextId")
    return _table((*columns, "parentContextId", "isGreenContext"), rows)


def list_streams(hardware: Any) -> pl.DataFrame:
    """TARGET_INFO_CUDA_STREAM."""
    rows = [(s.stream, s.hw, s.vm, s.pid, s.context, s.priority, s.flag) for s in hardware.streams]
    columns = ("streamId", "hwId", "vmId", "processId", "contextId", "priority", "flag")
    return _table(columns, rows)


def list_nics(session: Any) -> pl.DataFrame:
    """TARGET_INFO_NIC_INFO."""
    rows = []
    for device in session.devices:
        for found in device.properties.properties:
            if found.number != _NICS:
                continue
            try:
                nics = parse_message(MESSAGES["Nics"], found.value).nics
            except DamagedMessageError:
                continue
            rows += [
                (
                    n.guid,
                    decode_text(device.name),
                    n.number,
                    decode_text(n.name),
                    n.device,
                    n.vendor,
                    n.link,
                )
                for n in nics
            ]
    return _table(("GUID", "stateName", "nicId", "name", "deviceId", "vendorId", "linkLayer"), rows)


def list_system(session: Any) -> pl.DataFrame:
    """TARGET_INFO_SYSTEM_ENV, of what says why a recording lacks something."""
    rows = [
        (device.global_vid, name, found.number, decode_text(found.value))
        for device in session.devices
        for found in device.properties.properties
        if (name := _SYSTEM_NAMES.get(found.number))
    ]
    return _table(("globalVid", "name", "nameEnum", "value"), rows)


def find_span(session: Any) -> pl.DataFrame:
    """ANALYSIS_DETAILS."""
    start, stop = session.start, session.stop
    machine = next((device.global_vid for device in session.devices), 0)
    rows = [(machine, stop - start, start, stop)] if stop else []
    return _table(("globalVid", "duration", "startTime", "stopTime"), rows)


def find_start(container: Container) -> pl.DataFrame:
    """TARGET_INFO_SESSION_START_TIME: the wall clock (ns) at the recording's time 0."""
    start = _convert_new(container)
    if start is None:
        start = _convert_old(container.session)
    columns = ("utcEpochNs", "utcTime", "localTime")
    if start is None:
        return _table(columns, [])
    ahead = _read_offsets(container.session).get((_UTC, _LOCAL))
    local = None if ahead is None else _write_time((start - ahead) % 2**64)
    return _table(columns, [(start, _write_time(start), local)])


def _write_time(ns: int) -> str | None:
    """A time of day as the export writes it; none for what is not a time."""
    try:
        return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return None


def _read_offsets(session: Any) -> dict[tuple[int, int], int]:
    """Offsets between clocks: time on the second is time on the first less the offset."""
    offsets: dict[tuple[int, int], int] = {}
    for pair in session.clocks.offsets:
        text = str(pair.offset)
        if text.removeprefix("-").isdecimal() and len(text) < 24:
            offsets[pair.source, pair.target] = int(text)
    return offsets


def _convert_old(session: Any) -> int | None:
    """Until 2025.6: by way of the system's clock."""
    offsets = _read_offsets(session)
    if (_RECORDING, _SYSTEM) not in offsets or (_SYSTEM, _UTC) not in offsets:
        return None
    found = session.start - offsets[_RECORDING, _SYSTEM] - offsets[_SYSTEM, _UTC]
    return int(found % 2**64)


def _convert_new(container: Container) -> int | None:
    """Since 2025.6: a moment on both the wall clock and the session's."""
    try:
        found = parse_message(
            MESSAGES["Conversion"], container.read_section("Time Conversion Data")
        )
    except DamagedMessageError:
        return None
    kinds = {clock.guid: clock.kind for clock in found.clocks.clocks}
    for pair in found.pairs.pairs:
        ends = (kinds.get(pair.source), kinds.get(pair.target))
        if ends == (_NEW_UTC, _NEW_SYSTEM):
            return int(pair.first.source + container.session.start - pair.first.target)
    return None


def describe_export(container: Container) -> pl.DataFrame:
    """META_DATA_EXPORT: the tool's version and the schema's, no name of a host."""
    rows = [("EXPORT_SCHEMA_VERSION", SCHEMA_VERSION)]
    version = read_version(container)
    if version:
        rows.insert(0, ("EXPORT_PRODUCT_VERSION", version))
    return _table(("name", "value"), rows)


def describe_capture(session: Any) -> pl.DataFrame:
    """META_DATA_CAPTURE: of the environment only what says a rank and the job's size."""
    wanted = {*RANK_VARIABLES, *SIZE_VARIABLES}
    rows = [
        (f"PROCESS_{i}:ENVIRONMENT_VARIABLE", f'{variable.name}="{decode_text(variable.value)}"')
        for i, launch in enumerate(session.options.launch)
        for variable in launch.environment
        if str(variable.name) in wanted
    ]
    return _table(("name", "value"), rows)
