"""What a TPU's core does, waits for, and has done beside it: by the category that XLA gives."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.formats.jax import xplane
from support.xplane_planes import MESSAGES

_ARRAY = "f32[4]{0:T(8,128)%s}"
_TEXTS = {
    "copy-start.1": f"%copy-start.1 = ({_ARRAY % ''}, {_ARRAY % 'S(5)'}, u32[]) "
    f"copy-start({_ARRAY % 'S(5)'} %param)",
    "copy-done.1": "%copy-done.1 = f32[4] copy-done((f32[4], f32[4]) %copy-start.1)",
    "all-reduce.2": "%all-reduce.2 = f32[4] all-reduce(f32[4] %x)",
    "loop_fusion": "%loop_fusion = f32[4] fusion(f32[4] %copy-done.1)",
    "while.3": "%while.3 = (f32[4]) while((f32[4]) %t)",
}
_CATEGORIES = {
    "copy-start.1": "copy-start",
    "copy-done.1": "copy-done",
    "all-reduce.2": "all-reduce",
    "loop_fusion": "loop fusion",
    "while.3": "while",
}
# Name, start and length in µs, of the core's line.
_CORE = (
    ("while.3", 0, 1000),
    ("copy-start.1", 0, 1),
    ("loop_fusion", 1, 99),
    ("copy-done.1", 100, 700),
    ("loop_fusion", 800, 100),
    ("all-reduce.2", 900, 100),
)


def write_space(
    path: Path,
    lines: dict[str, tuple[tuple[str, int, int], ...]],
    *,
    has_categories: bool = True,
    device: str = "TPU v6 Lite",
) -> Path:
    """A TPU's plane with these lines."""
    space = MESSAGES["XSpace"]()
    names = list(_TEXTS)
    metadata = [
        {"key": n, "value": {"id": n, "name": _TEXTS[name], "display_name": name,
         "stats": [{"metadata_id": 1, "str_value": _CATEGORIES[name] if has_categories else ""},
                   {"metadata_id": 2, "uint64_value": 4096}]}}
        for n, name in enumerate(names, 1)
    ]  # fmt: skip
    stats = [
        {"key": 1, "value": {"id": 1, "name": "hlo_category"}},
        {"key": 2, "value": {"id": 2, "name": "bytes_accessed"}},
        {"key": 3, "value": {"id": 3, "name": "device_type_string"}},
    ]
    space.planes.add(
        id=1,
        name="/device:TPU:0",
        event_metadata=metadata,
        stat_metadata=stats,
        stats=[{"metadata_id": 3, "str_value": device}],
        lines=[
            {"id": n, "name": line, "timestamp_ns": 10**9, "events": [
                {"metadata_id": names.index(name) + 1, "offset_ps": start * 10**6,
                 "duration_ps": length * 10**6} for name, start, length in events]}
            for n, (line, events) in enumerate(lines.items(), 1)
        ],
    )  # fmt: skip
    path.write_bytes(space.SerializeToString())
    return path


@pytest.mark.parametrize("has_categories", [False, True])
@pytest.mark.parametrize("with_async", [False, True])
def test_a_wait_for_a_copy_is_an_exposed_copy_and_no_compute(
    tmp_path: Path, with_async: bool, has_categories: bool
) -> None:
    lines = {"XLA Ops": _CORE}
    if with_async:
        lines["Async XLA Ops"] = (("copy-start.1", 0, 800),)
    path = write_space(tmp_path / "run.xplane.pb", lines, has_categories=has_categories)
    run = sightline.open(str(path))
    [row] = run.ask("breakdown").to_dicts()
    ops = run.table("device_ops")
    ranges = run.table("device_ranges").get_column("name").to_list()
    assert row["window_ns"] == 1_000_000
    assert row["compute_ns"] == 199_000
    assert row["exposed_comm_ns"] == 100_000
    assert row["exposed_copy_ns"] == 701_000
    assert row["idle_ns"] == 0
    [copy] = ops.filter(pl.col("kind") == "memcpy").to_dicts()
    assert (copy["start_ns"], copy["end_ns"]) == (10**9, 10**9 + 800_000)
    assert (copy["copy_kind"], copy["bytes"]) == ("HtoD", 4096)
    assert ranges == ["while.3"]


def test_a_tpu_is_no_gpu_and_told_nothing_of_cuda(tmp_path: Path) -> None:
    path = write_space(tmp_path / "run.xplane.pb", {"XLA Ops": _CORE * 1}, device="")
    run = sightline.open(str(path))
    assert run.table("devices").select("name", "vendor").rows() == [("TPU", "google")]
    said = str([(f.title, f.summary, f.fix, f.evidence) for f in run.findings() if f.fix])
    assert "TPU" in said
    for word in ("GPU", "ncu", "CUDA", "stream of its own"):
        assert word not in said, said


def test_a_wait_whose_copy_did_not_begin_here_is_no_compute(tmp_path: Path) -> None:
    lines = {"XLA Ops": (("copy-done.1", 0, 700), ("loop_fusion", 700, 100))}
    path = write_space(tmp_path / "run.xplane.pb", lines)
    [row] = sightline.open(str(path)).ask("breakdown").to_dicts()
    assert (row["compute_ns"], row["exposed_copy_ns"], row["idle_ns"]) == (100_000, 0, 0)


@pytest.mark.corpus
def test_sums_by_the_files_own_category_are_those_of_the_tables(corpus: Path) -> None:
    paths = list(corpus.glob("xplane/openxla__xprof/**/*-good.xplane.pb"))
    for path in paths:
        own: dict[str, int] = defaultdict(int)
        # Read anew with the plain messages: category of the event's metadata, time on the core.
        space = MESSAGES["XSpace"].FromString(path.read_bytes())
        for plane in space.planes:
            named = {entry.key: entry.value.name for entry in plane.stat_metadata}
            category = {
                entry.key: next(
                    (s.str_value or named.get(s.ref_value, "")
                     for s in entry.value.stats if named.get(s.metadata_id) == "hlo_category"), "")
                for entry in plane.event_metadata
            }  # fmt: skip
            for line in plane.lines:
                if plane.name.startswith("/device:TPU") and line.name == "XLA Ops":
                    for event in line.events:
                        own[category[event.metadata_id]] += event.duration_ps
        imported = xplane.read(Source(path, path.name), ImportOptions())
        ops, exchanged = imported.tables["device_ops"], imported.tables["collectives"]
        ops = ops.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
        core = ops.filter(pl.col("stream_id") == 0)
        is_exchange = pl.col("device_op_id").is_in(exchanged.get_column("device_op_id").implode())
        ours = {
            "wait": core.filter(pl.col("kind") == "other").get_column("ns").sum(),
            "exchange": core.filter(is_exchange).get_column("ns").sum(),
            "compute": core.filter((pl.col("kind") == "kernel") & ~is_exchange)["ns"].sum(),
        }
        waits = sum(ps for name, ps in own.items() if name.endswith(("-start", "-done")))
        theirs = {
            "wait": waits,
            "exchange": own["all-reduce"],
            "compute": sum(own.values()) - waits - own["all-reduce"],
        }
        for name, ps in theirs.items():
            assert ours[name] == pytest.approx(ps / 1000, rel=1e-7), name
