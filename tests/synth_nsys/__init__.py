"""Writes small databases in the form of `nsys export --type sqlite`, with plain sqlite3.

Nothing of sightline is used here: what a test expects of the reader is known from the rows that
it wrote. The layouts of four schema versions differ as the real ones do: renamed metadata table,
absent columns, tables with a version suffix, tables that exist only when they have rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synth_nsys.schemas import META, SCHEMAS, START

Row = Mapping[str, Any]
VM = 1 << 48  # the bits of a global id that say which machine


def gtid(pid: int, tid: int) -> int:
    """A global thread id."""
    return VM | pid << 24 | tid


def gpid(pid: int) -> int:
    """A global process id."""
    return VM | pid << 24


class Export:
    """Rows by table, and the texts that they refer to."""

    def __init__(self, version: str = "3.25.0", utc_ns: int | None = 1_700_000_000_000_000_000):
        self.version = version
        self.product = "2099.1.1"  # the version of nsys itself
        self.rows: dict[str, list[Row]] = {}
        self.texts: dict[str, int] = {}
        self.environment: list[str] = ["HOME=/home/ada", "API_TOKEN=secret-token"]
        self.capture: dict[str, str] = {}  # what was asked of nsys
        if utc_ns is not None:
            self.add(START, utcEpochNs=utc_ns, utcTime="2023-11-14T22:13:20")

    def text(self, value: str) -> int:
        """Id of a text in StringIds."""
        return self.texts.setdefault(value, len(self.texts) + 1)

    def add(self, table: str, **values: Any) -> None:
        """Add a row; columns that the version lacks are left out when it is written."""
        self.rows.setdefault(table, []).append(values)

    def api(
        self, name: str, start: int, end: int, corr: int, pid: int = 7, tid: int = 7, **more: Any
    ) -> None:
        """A CUDA API call; driver functions by their prefix."""
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            globalTid=gtid(pid, tid),
            correlationId=corr,
            nameId=self.text(name),
            **{"eventClass": 0 if name.startswith("cuda") else 1, "returnValue": 0, **more},
        )

    def kernel(
        self,
        name: str,
        start: int,
        end: int,
        corr: int,
        pid: int = 7,
        device: int = 0,
        stream: int = 7,
        **more: Any,
    ) -> None:
        """A kernel; its short name is what stands before the first parenthesis or bracket."""
        short = name.split("(")[0].split("<")[0]
        values = {
            "start": start, "end": end, "deviceId": device, "contextId": 1, "streamId": stream,
            "correlationId": corr, "globalPid": gpid(pid), "demangledName": self.text(name),
            "shortName": self.text(short), "mangledName": self.text("_Z" + short),
            "launchType": 1, "registersPerThread": 32, "gridX": 128, "gridY": 1, "gridZ": 1,
            "blockX": 256, "blockY": 1, "blockZ": 1, "staticSharedMemory": 0,
            "dynamicSharedMemory": 4096, "localMemoryPerThread": 0, "localMemoryTotal": 1 << 20,
            "sharedMemoryExecuted": 8192, "clusterX": 0, "clusterY": 0, "clusterZ": 0,
        }  # fmt: skip
        self.add("CUPTI_ACTIVITY_KIND_KERNEL", **{**values, **more})

    def copy(
        self,
        kind: int,
        start: int,
        end: int,
        corr: int,
        size: int,
        src: int,
        dst: int,
        pid: int = 7,
        device: int | None = 0,
        stream: int = 7,
        **more: Any,
    ) -> None:
        """A copy, with the export's numbers of direction and memory kinds."""
        self.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start=start,
            end=end,
            deviceId=device,
            contextId=1,
            streamId=stream,
            correlationId=corr,
            globalPid=gpid(pid),
            bytes=size,
            copyKind=kind,
            srcKind=src,
            dstKind=dst,
            **more,
        )

    def fill(
        self, start: int, end: int, corr: int, size: int, kind: int = 2, pid: int = 7, **more: Any
    ) -> None:
        """A fill."""
        self.add(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            start=start,
            end=end,
            deviceId=0,
            contextId=1,
            streamId=7,
            correlationId=corr,
            globalPid=gpid(pid),
            bytes=size,
            value=0,
            memKind=kind,
            **more,
        )

    def range(
        self,
        name: str,
        start: int,
        end: int | None,
        pid: int = 7,
        tid: int = 7,
        kind: int = 59,
        registered: bool = False,
        **more: Any,
    ) -> None:
        """An NVTX event; its text in the row itself or registered."""
        words = {"textId": self.text(name)} if registered else {"text": name}
        self.add(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=kind,
            globalTid=gtid(pid, tid),
            **words,
            **{"domainId": 0, **more},
        )

    def write(self, path: Path) -> Path:
        """Write the database and return its path."""
        layout = SCHEMAS[self.version.rsplit(".", 1)[0]]
        path.unlink(missing_ok=True)
        db = sqlite3.connect(path)
        meta = META[layout["meta"]]
        self.rows[meta] = [
            {"name": "EXPORT_PRODUCT_NAME", "value": "NVIDIA Nsight Systems"},
            {"name": "EXPORT_PRODUCT_VERSION", "value": self.product},
            {"name": "EXPORT_SCHEMA_VERSION", "value": self.version},
            {"name": "EXPORT_HOST", "value": "host-of-ada"},
            {"name": "EXPORT_USER", "value": "ada"},
        ]
        self.rows["META_DATA_CAPTURE"] = [
            *({"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": v} for v in self.environment),
            *({"name": name, "value": value} for name, value in self.capture.items()),
        ]
        self.rows["StringIds"] = [{"id": i, "value": v} for v, i in self.texts.items()]
        for table, rows in self.rows.items():
            columns = layout["tables"].get(table)
            if columns is None:
                continue
            name = table + layout["suffix"].get(table, "")
            _create(db, name, columns, rows)
        for table in layout["always"]:
            if table not in self.rows:
                _create(db, table, layout["tables"][table], [])
        db.commit()
        db.close()
        return path


def _create(db: sqlite3.Connection, name: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    plain = [c.split()[0] for c in columns]
    known = {c.strip('"') for c in plain}
    filled = [{k: v for k, v in row.items() if k in known} for row in rows]
    marks = ", ".join("?" for _ in plain)
    db.executemany(
        f"INSERT INTO {name} VALUES ({marks})",
        [[row.get(c.strip('"')) for c in plain] for row in filled],
    )
