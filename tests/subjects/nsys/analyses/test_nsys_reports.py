"""The reports of `nsys stats` against plain SQL on the raw export, and against nsys' own output."""

from __future__ import annotations

import csv
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run

pytestmark = pytest.mark.corpus
EXPORTS = (
    "GindaChen__nsys-ai/tests/fixtures/h100_2gpu_1s.sqlite",
    "GindaChen__nsys-ai/tests/fixtures/mock.sqlite",
    "NVIDIA__Fuser/report1.sqlite",
    "hpcgroup__pipit/pipit/tests/data/cloverleaf-nsys/perlmutter-cloverleaf-cuda.sqlite",
    "hpcgroup__pipit/pipit/tests/data/saxpy-mpi-cuda_nsys_perlmutter0.sqlite",
    "morluto__flameox/tests/fixtures/nsight_systems/nsight-2025.5.2.sqlite",
)
H100, CLOVERLEAF = EXPORTS[0], EXPORTS[3]
Groups = dict[tuple[Any, ...], list[int]]


class Raw:
    """The export as SQLite has it."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        listed = self.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self.tables = {name for (name,) in listed}
        self.text = dict(self.all("SELECT id, value FROM StringIds"))

    def all(self, sql: str, *tables: str) -> list[tuple[Any, ...]]:
        """Rows, or none where one of the tables is absent."""
        return self.db.execute(sql).fetchall() if set(tables) <= self.tables else []

    def kernels(self, extra: str = "demangledName") -> list[tuple[Any, ...]]:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        return self.all(f"SELECT {extra}, end - start FROM {table}", table)

    def memory(self, value: str) -> Groups:
        sql = "SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER"
        # Exports of 2022 have no such table.
        names = dict(self.all(sql, "ENUM_CUDA_MEMCPY_OPER")) or {
            1: "Host-to-Device",
            2: "Device-to-Host",
        }
        found: Groups = defaultdict(list)
        table = "CUPTI_ACTIVITY_KIND_MEMCPY"
        for kind, v in self.all(f"SELECT copyKind, {value} FROM {table}", table):
            found[(f"[CUDA memcpy {names[kind]}]",)].append(v)
        table = "CUPTI_ACTIVITY_KIND_MEMSET"
        for (v,) in self.all(f"SELECT {value} FROM {table}", table):
            found[("[CUDA memset]",)].append(v)
        return found

    def api(self) -> Groups:
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        found: Groups = defaultdict(list)
        # Classes 0 and 1 are runtime and driver; 67 repeats a call that has a call chain.
        sql = f"SELECT nameId, end - start FROM {table} WHERE eventClass IN (0, 1)"
        for name, v in self.all(sql, table):
            text = self.text[name]
            plain = text[:-6] if text[-6:-4] == "_v" and text[-4:].isdigit() else text
            found[(plain,)].append(v)
        return found


@pytest.fixture(params=EXPORTS, ids=lambda p: Path(p).stem)
def export(request: pytest.FixtureRequest, corpus: Path) -> tuple[Run, Raw]:
    path = corpus / "nsys" / request.param
    return sightline.open(str(path)), Raw(path)


def grouped(rows: Iterable[tuple[Any, ...]]) -> Groups:
    found: Groups = defaultdict(list)
    for *key, value in rows:
        found[tuple(key)].append(value)
    return found


def expected(groups: Groups, scale: int = 1) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Total, count, mean, median, least, largest and standard deviation of each group."""
    return {
        key: (
            sum(v) / scale,
            len(v),
            statistics.fmean(v) / scale,
            statistics.median(v) / scale,
            min(v) / scale,
            max(v) / scale,
            (statistics.stdev(v) if len(v) > 1 else 0.0) / scale,
        )
        for key, v in groups.items()
    }


def same(run: Run, report: str, groups: Groups, *, names: list[str], count: str) -> None:
    """The report's rows are the groups, its numbers theirs, and its order by total."""
    if not groups:
        with pytest.raises(sightline.MissingDataError):
            run.ask(report)
        return
    answer = run.ask(report)
    numbers = ["Total Time (ns)", count, "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)"]
    total = sum(sum(v) for v in groups.values())
    assert answer.columns == ["Time (%)", *numbers, "StdDev (ns)", *names]
    want = expected(groups)
    rows = {tuple(r[n] for n in names): r for r in answer.iter_rows(named=True)}
    assert set(rows) == set(want)
    for key, row in rows.items():
        for column, value in zip([*numbers, "StdDev (ns)"], want[key], strict=True):
            exact = column in ("Total Time (ns)", count, "Min (ns)", "Max (ns)", "Med (ns)")
            assert row[column] == (value if exact else pytest.approx(value, rel=1e-9)), column
        assert row["Time (%)"] == pytest.approx(100 * want[key][0] / total)
    totals = answer.get_column("Total Time (ns)").to_list()
    assert totals == sorted(totals, reverse=True)


def test_kernels(export: tuple[Run, Raw]) -> None:
    run, raw = export
    groups = grouped((raw.text[n], v) for n, v in raw.kernels())
    same(run, "cuda_gpu_kern_sum", groups, names=["Name"], count="Instances")
    short = grouped((raw.text[n], v) for n, v in raw.kernels("shortName"))
    answer = run.ask("cuda_gpu_kern_sum", names="base")
    assert dict(answer.select("Name", "Total Time (ns)").rows()) == {
        k: sum(v) for (k,), v in short.items()
    }


def test_kernels_by_shape(export: tuple[Run, Raw]) -> None:
    run, raw = export
    rows = raw.kernels("gridX, gridY, gridZ, blockX, blockY, blockZ, demangledName")
    groups = grouped(
        ("%4d %4d %4d" % (*g,), "%4d %4d %4d" % (*b,), raw.text[n], v)  # noqa: UP031
        for *shape, n, v in rows
        for g, b in [(shape[:3], shape[3:])]
    )
    same(
        run,
        "cuda_gpu_kern_gb_sum",
        groups,
        names=["GridXYZ", "BlockXYZ", "Name"],
        count="Instances",
    )


def test_copies_by_time(export: tuple[Run, Raw]) -> None:
    run, raw = export
    same(
        run, "cuda_gpu_mem_time_sum", raw.memory("end - start"), names=["Operation"], count="Count"
    )


def test_copies_by_size(export: tuple[Run, Raw]) -> None:
    run, raw = export
    groups = raw.memory("bytes")
    answer = run.ask("cuda_gpu_mem_size_sum")
    columns = [f"{n} (MB)" for n in ("Avg", "Med", "Min", "Max", "StdDev")]
    assert answer.columns == ["Total (MB)", "Count", *columns, "Operation"]
    for key, want in expected(groups, 1_000_000).items():
        row = answer.filter(Operation=key[0]).row(0)
        assert row[:7] == pytest.approx(want)
    assert answer.height == len(groups)


def test_api_calls(export: tuple[Run, Raw]) -> None:
    run, raw = export
    same(run, "cuda_api_sum", raw.api(), names=["Name"], count="Num Calls")


def test_everything_together(export: tuple[Run, Raw]) -> None:
    run, raw = export
    kernels = grouped(("CUDA_KERNEL", raw.text[n], v) for n, v in raw.kernels())
    memory = {("MEMORY_OPER", *k): v for k, v in raw.memory("end - start").items()}
    calls = {("CUDA_API", *k): v for k, v in raw.api().items()}
    names = ["Category", "Operation"]
    same(run, "cuda_gpu_sum", {**kernels, **memory}, names=names, count="Instances")
    same(run, "cuda_api_gpu_sum", {**kernels, **memory, **calls}, names=names, count="Instances")


def test_os_calls(export: tuple[Run, Raw]) -> None:
    run, raw = export
    sql = "SELECT nameId, end - start FROM OSRT_API WHERE eventClass = 27"
    groups = grouped((raw.text[n], v) for n, v in raw.all(sql, "OSRT_API"))
    same(run, "osrt_sum", groups, names=["Name"], count="Num Calls")


def nvtx(raw: Raw, *kinds: int) -> list[tuple[Any, ...]]:
    """Style, name and duration; until 2023 the default domain's colon is not printed."""
    meta = "META_DATA_EXPORT" if "META_DATA_EXPORT" in raw.tables else "EXPORT_META_DATA"
    is_old = dict(raw.all(f"SELECT name, value FROM {meta}"))["EXPORT_PRODUCT_VERSION"] < "2024"
    sql = (
        "SELECT e.eventType, d.text, e.text, e.textId, e.end - e.start FROM NVTX_EVENTS e "
        "LEFT JOIN NVTX_EVENTS d ON d.eventType = 75 AND d.domainId = e.domainId "
        f"WHERE e.end IS NOT NULL AND e.eventType IN ({','.join(map(str, kinds))})"
    )
    return [
        (
            "PushPop" if kind in (59, 70) else "StartEnd",
            ("" if is_old and not domain else f"{domain or ''}:")
            + (text if text is not None else raw.text[number]),
            v,
        )
        for kind, domain, text, number, v in raw.all(sql, "NVTX_EVENTS")
    ]


def test_nvtx(export: tuple[Run, Raw]) -> None:
    run, raw = export
    groups = grouped(nvtx(raw, 59, 60, 70, 71))
    same(run, "nvtx_sum", groups, names=["Style", "Range"], count="Instances")
    nested = grouped((name, v) for _, name, v in nvtx(raw, 59, 70))
    same(run, "nvtx_pushpop_sum", nested, names=["Range"], count="Instances")
    apart = grouped((name, v) for _, name, v in nvtx(raw, 60, 71))
    same(run, "nvtx_startend_sum", apart, names=["Range"], count="Instances")


def test_launch_phases(export: tuple[Run, Raw]) -> None:
    run, raw = export
    sql = (
        "SELECT r.start, r.end, k.start, k.end, (r.globalTid >> 24) & 0xFFFFFF, "
        "r.globalTid & 0xFFFFFF FROM CUPTI_ACTIVITY_KIND_KERNEL k "
        "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON k.correlationId = r.correlationId "
        "AND r.eventClass IN (0, 1) "
        "AND k.globalPid = r.globalTid & 0xFFFFFFFFFF000000"
    )
    # 0xFFFFFFFFFF000000 is no number that SQLite's parser takes as it is.
    rows = raw.all(sql.replace("0xFFFFFFFFFF000000", "~0xFFFFFF"), "CUPTI_ACTIVITY_KIND_KERNEL")
    want = sorted(
        (a, b - a, k - b if k >= b else None, k, e - k, max(b, e) - a, pid, tid)
        for a, b, k, e, pid, tid in rows
    )
    answer = run.ask("cuda_kern_exec_trace")
    got = answer.select(
        "API Start (ns)",
        "API Dur (ns)",
        "Queue Dur (ns)",
        "Kernel Start (ns)",
        "Kernel Dur (ns)",
        "Total Dur (ns)",
        "PID",
        "TID",
    ).rows()
    assert sorted(got, key=lambda r: (r[0], r[3])) == sorted(want, key=lambda r: (r[0], r[3]))
    assert [r[0] for r in got] == sorted(r[0] for r in got)
    summary = run.ask("cuda_kern_exec_sum")
    assert summary.get_column("Count").sum() == len(want)
    assert summary.get_column("QCount").sum() == sum(bool(r[2]) for r in want)


def test_projection_of_ranges(export: tuple[Run, Raw]) -> None:
    run, raw = export
    if "NVTX_EVENTS" not in raw.tables:
        pytest.skip("no ranges")
    parts = [
        f"SELECT start, end, correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_{kind}"
        for kind in ("KERNEL", "MEMCPY", "MEMSET")
        if f"CUPTI_ACTIVITY_KIND_{kind}" in raw.tables
    ]
    # Every range against every launch: slow, and nothing like what the importer does.
    launches = raw.all(
        "SELECT r.start, r.end, r.globalTid, o.start, o.end "
        f"FROM ({' UNION ALL '.join(parts)}) o JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
        "ON o.correlationId = r.correlationId AND o.globalPid = r.globalTid & ~0xFFFFFF "
        "AND r.eventClass IN (0, 1)"
    )
    ranges = raw.all("SELECT start, end, globalTid FROM NVTX_EVENTS WHERE eventType = 59")
    by_thread = defaultdict(list)
    for begin, end, tid, *op in sorted(launches):
        by_thread[tid].append((begin, end, *op))
    want = []
    for start, stop, tid in ranges:
        inside = [o for o in by_thread[tid] if o[0] >= start and o[1] <= stop]
        if inside:
            first, last = min(o[2] for o in inside), max(o[3] for o in inside)
            want.append((first, last - first, start, stop - start, len(inside)))
    answer = run.ask("nvtx_gpu_proj_trace")
    got = answer.select(
        "Projected Start (ns)",
        "Projected Duration (ns)",
        "Orig Start (ns)",
        "Orig Duration (ns)",
        "NumGPUOps",
    ).rows()
    assert sorted(got) == sorted(want)
    summary = run.ask("nvtx_gpu_proj_sum")
    assert summary.get_column("Total GPU Ops").sum() == sum(w[4] for w in want)
    assert summary.get_column("Range Instances").sum() == len(want)


def test_cloverleaf_equals_what_a_peer_read(corpus: Path) -> None:
    """pipit's own reading of the same export, row by row."""
    folder = corpus / "nsys" / Path(CLOVERLEAF).parent
    run = sightline.open(str(corpus / "nsys" / CLOVERLEAF))
    offset = run.table("recordings").get_column("clock_offset_ns")[0]

    def peer(name: str, *columns: str) -> list[tuple[str, ...]]:
        with (folder / name).open(newline="") as file:
            rows = list(csv.DictReader(file))
        begins = [r for r in rows if r["Event Type"] == "Enter"]
        assert len(begins) * 2 == len(rows)
        return sorted(
            (*(r[c] for c in columns), r["Timestamp (ns)"], r["_matching_timestamp"])
            for r in begins
        )

    calls = (
        run.table("host_ops")
        .filter(layer="runtime")
        .vstack(run.table("host_ops").filter(layer="driver"))
    )
    ours = sorted(
        (
            r["name"],
            str(r["pid"]),
            str(r["tid"]),
            str(r["start_ns"] - offset),
            str(r["end_ns"] - offset),
        )
        for r in calls.iter_rows(named=True)
    )
    theirs = peer("cloverleaf-cuda_api_trace.csv", "Name", "Process", "Thread")
    assert ours == theirs
    assert len(ours) == 3048
    kinds = {"HtoD": "CUDA_MEMCPY_KIND_HTOD", "DtoH": "CUDA_MEMCPY_KIND_DTOH"}
    gpu = sorted(
        (
            r["short_name"] or kinds[r["copy_kind"]],
            str(r["stream_id"]),
            "kernel" if r["kind"] == "kernel" else kinds[r["copy_kind"]],
            "" if r["bytes"] is None else str(r["bytes"]),
            str(r["start_ns"] - offset),
            str(r["end_ns"] - offset),
        )
        for r in run.table("device_ops").iter_rows(named=True)
    )
    assert gpu == peer("cloverleaf_gpu_trace.csv", "Name", "streamId", "type", "bytes")
    assert len(gpu) == 1591


def test_the_h100_copies_and_is_not_idle(corpus: Path) -> None:
    """Peers say of this recording that its GPUs are idle for 97 %, because they look at kernels."""
    run = sightline.open(str(corpus / "nsys" / H100))
    for row in run.ask("breakdown").iter_rows(named=True):
        assert row["compute_pct"] == pytest.approx(2.31, abs=0.01)
        assert row["exposed_copy_pct"] == pytest.approx(97.02, abs=0.01)
        assert row["idle_pct"] == pytest.approx(0.67, abs=0.01)
    to_device = run.ask("memcpy").filter(copy_kind="HtoD", src_kind="pinned")
    for row in to_device.iter_rows(named=True):
        assert row["bytes"] == pytest.approx(25.48e9, rel=0.001)
        assert row["gb_per_s"] == pytest.approx(27.7, abs=0.1)
        assert row["window_pct"] == pytest.approx(95.0, abs=0.1)
    assert run.ask("gpu_gaps").is_empty()
    assert run.ask("gpu_time_util").is_empty()


def test_the_input_is_not_touched(export: tuple[Run, Raw], corpus: Path) -> None:
    """No index, no journal, nothing beside the file."""
    run, raw = export
    path = Path(run.table("recordings").get_column("path")[0])
    before = path.stat()
    beside = sorted(p.name for p in path.parent.iterdir())
    run.ask("cuda_gpu_sum")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(p.name for p in path.parent.iterdir()) == beside
    raw.db.close()
