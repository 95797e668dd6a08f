"""sampled_roofline: launches that belong to samples, shares of the ceiling, and what it decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline
from sightline import __version__
from sightline.core.model.run import Run
from sightline.core.model.store import write_store
from sightline.core.model.tables import load_table
from sightline.core.page.declare import View
from sightline.doors.cli.main import main
from sightline.errors import MissingDataError
from sightline.subjects.ncu.panels import roofline
from support.ask import rows

A100 = {
    "device_id": 0, "vendor": "nvidia", "name": "NVIDIA A100-SXM4-40GB", "sm_count": 108,
    "max_clock_hz": 1_410_000_000, "compute_capability": "8.0",
}  # fmt: skip
GEMM, MS = "_Z4gemmv", 1_000_000


def launch(name: str = GEMM, **more: Any) -> dict[str, Any]:
    """A kernel of 1080 blocks, of which an SM holds one for its registers: eight warps."""
    known = {
        "device_op_id": 0, "device_id": 0, "kind": "kernel", "name": name, "mangled_name": name,
        "start_ns": 0, "end_ns": MS, "grid_x": 1080, "grid_y": 1, "grid_z": 1, "block_x": 256,
        "block_y": 1, "block_z": 1, "registers_per_thread": 168, "static_shared_bytes": 0,
        "dynamic_shared_bytes": 0,
    }  # fmt: skip
    return known | more


def stand(count: int, operation: str | None, **more: Any) -> dict[str, Any]:
    """Samples of a warp that had issued, or, without an operation, that waited."""
    reason = ("selected", "issuing") if operation else ("wait", "ALU dependency")
    known = {
        "kernel_id": 0, "offset": 16, "opcode": "IMAD", "issued_operation": operation,
        "reason": reason[0], "stall_class": reason[1], "samples": count, "period_cycles": 1024,
    }  # fmt: skip
    return known | more


def saved(
    folder: Path,
    samples: list[dict[str, Any]],
    launches: list[dict[str, Any]] | None = None,
    device: dict[str, Any] | None = None,
    limits: list[dict[str, Any]] | None = None,
    **kernel: Any,
) -> Run:
    """A run that holds these samples of one function."""
    tables = {
        "devices": [A100 if device is None else device],
        "profiled_kernels": [
            {"kernel_id": 0, "kind": "kernel", "name": "gemm()", "mangled_name": GEMM,
             "device_id": 0} | kernel
        ],
        "pc_samples": samples,
        "device_ops": [launch()] if launches is None else launches,
    }  # fmt: skip
    frames = {
        name: pl.DataFrame(
            found, schema={c.name: c.dtype for c in load_table(name).stored}, orient="row"
        )
        for name, found in tables.items()
    }
    place = folder / "run.sightline"
    facts = {"path": "x", "format": "cupti", "tool": "t", "quality": limits or []}
    write_store(place, [(0, facts, frames)], sightline_version=__version__)
    return sightline.open(str(place))


# 148,711 samples of 1024 cycles are a ms of 108 SMs at 1.41 GHz.
BUSY = [stand(15_000, "HMMA.16816.F32"), stand(20_000, "LDS.128"), stand(113_711, None)]
SHARES = ("precision", "of_peak_low_pct", "of_peak_high_pct", "bound")


def test_a_kernel_near_its_ceiling(tmp_path: Path) -> None:
    (row,) = saved(tmp_path, BUSY).ask("sampled_roofline").iter_rows(named=True)
    assert (row["launches"], row["device_ns"], row["samples"]) == (1, MS, 148_711)
    assert (row["issued_samples"], row["warps_low"], row["warps_high"]) == (35_000, 4, 8)
    # 8 × 0.2353 instructions of an SM's 4 in a cycle, and half of that.
    assert row["issue_low_pct"] == pytest.approx(23.5, abs=0.3)
    assert row["issue_high_pct"] == pytest.approx(47.1, abs=0.5)
    # 0.1009 × 4 × 4096 FLOP of 2048, and twice that, which is more than there is.
    assert row["precision"] == "fp16_tensor"
    assert row["of_peak_low_pct"] == pytest.approx(80.7, abs=1.5)
    assert row["of_peak_high_pct"] == 100.0
    assert row["bound"] == "compute"
    assert row["peak_flop_per_s"] == 312e12


def test_the_lower_rate_is_that_of_the_sampled_cycles(tmp_path: Path) -> None:
    """A tenth of the samples, as where sampling was on for a tenth of the time."""
    few = [stand(300, "FFMA"), stand(14_571, None)]
    (row,) = saved(tmp_path, few).ask("sampled_roofline").iter_rows(named=True)
    cycles = 14_871 * 1024
    assert row["flop_per_s_low"] == pytest.approx(
        0.9 * 300 / 14_871 * 4 * 64 * cycles / 1e-3, rel=0.03
    )
    assert row["flop_per_s_high"] == pytest.approx(
        1.12 * 300 / 14_871 * 8 * 64 * 108 * 1.41e9, rel=0.03
    )
    assert row["bound"] == "memory or latency"
    assert "at most 9 % of the issue slots" in row["evidence"]


def test_neither_is_decided_where_the_threshold_lies_between(tmp_path: Path) -> None:
    middle = [stand(6_000, "HMMA.16816.F32"), stand(113_711, None)]
    ((_, low, high, bound),) = rows(saved(tmp_path, middle), "sampled_roofline", *SHARES)
    assert low < 60 < high
    assert bound is None


def test_an_assumption_that_cannot_be_is_dropped(tmp_path: Path) -> None:
    """With half of the warps the tensor cores would do twice what they can."""
    (row,) = (
        saved(tmp_path, [stand(60_000, "HMMA.16816.F32"), stand(100_000, None)])
        .ask("sampled_roofline")
        .iter_rows(named=True)
    )
    assert (row["of_peak_low_pct"], row["of_peak_high_pct"], row["bound"]) == (0.0, 100.0, None)
    assert "fewer warps were active than is assumed" in row["evidence"]


def test_issue_slots(tmp_path: Path) -> None:
    """Half of 64 warps, each issuing in one of nine cycles: nearly one for each scheduler."""
    many = [launch(registers_per_thread=32)]
    full = [stand(15_500, "IADD3"), stand(124_000, None)]
    (row,) = saved(tmp_path, full, many).ask("sampled_roofline").iter_rows(named=True)
    assert row["issue_low_pct"] == pytest.approx(88, abs=2)
    assert row["issue_high_pct"] == 100.0
    assert (row["bound"], row["precision"]) == ("issue", None)


def test_all_launches_of_the_function_count(tmp_path: Path) -> None:
    """Others' do not, nor do copies; and a shape that is not known leaves no time."""
    ops = [
        launch(device_op_id=0),
        launch(device_op_id=1, start_ns=MS, end_ns=3 * MS, grid_x=54),
        launch("_Z5otherv", device_op_id=2),
        launch(device_op_id=3, kind="memcpy", name="copy"),
        launch(device_op_id=4, device_id=1),
    ]
    (row,) = saved(tmp_path, BUSY, ops).ask("sampled_roofline").iter_rows(named=True)
    assert (row["launches"], row["device_ns"]) == (2, 3 * MS)
    ops[1]["grid_y"] = None
    (row,) = saved(tmp_path / "b", BUSY, ops).ask("sampled_roofline").iter_rows(named=True)
    assert (row["launches"], row["device_ns"], row["flop_per_s_high"]) == (1, None, None)


def test_samples_that_name_their_launch(tmp_path: Path) -> None:
    """Serialized samples have the launch's shape; its time is the timeline's."""
    own = {k: launch()[k] for k in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")}
    ops = [launch(device_op_id=n, correlation_id=n, end_ns=(n + 1) * MS) for n in range(3)]
    run = saved(tmp_path, BUSY, ops, api_call_id=2, registers_per_thread=168, **own)
    (row,) = run.ask("sampled_roofline").iter_rows(named=True)
    assert (row["launches"], row["device_ns"], row["warps_high"]) == (1, 3 * MS, 8)


@pytest.mark.parametrize(
    ("samples", "launches", "device", "evidence"),
    [
        (BUSY, [], A100, "its launches are not in the recording"),
        (BUSY, None, {**A100, "compute_capability": None}, "does not say which GPU"),
        ([stand(9, "HMMA.SP"), stand(1000, None)], None, A100, "whose size is not known"),
        (
            [stand(9, "FFMA", issued_operation=None), stand(1000, None)],
            None,
            A100,
            "does not say which instructions",
        ),
        (
            [stand(900, "FFMA"), stand(999_000, None)],
            None,
            A100,
            "more samples than one of each SM and period",
        ),
    ],
)
def test_what_is_not_known_is_said(
    samples: list[Any], launches: Any, device: Any, evidence: str, tmp_path: Path
) -> None:
    run = saved(tmp_path, samples, launches, device)
    assert evidence in run.ask("sampled_roofline").item(0, "evidence")


def test_lanes_may_be_off_where_the_code_rejoins(tmp_path: Path) -> None:
    few = [stand(300, "FFMA"), stand(14_000, None)]
    whole = saved(tmp_path, few).ask("sampled_roofline").row(0, named=True)
    parted = [*few, stand(1, None, opcode="BSYNC")]
    row = saved(tmp_path / "b", parted).ask("sampled_roofline").row(0, named=True)
    assert row["flop_per_s_low"] == pytest.approx(whole["flop_per_s_low"] / 32, rel=0.01)
    assert row["flop_per_s_high"] == pytest.approx(whole["flop_per_s_high"], rel=0.01)


@pytest.mark.parametrize("loss", ["recorded_in_windows", "graph"])
def test_samples_of_launches_that_are_not_there(loss: str, tmp_path: Path) -> None:
    """They count no cycles; the warps that ended still say what those that are there did."""
    ops = [launch(), launch(device_op_id=1, kind="graph", name="graph")][: 1 + (loss == "graph")]
    limits = [] if loss == "graph" else [{"kind": loss, "severity": "warning", "text": "x"}]
    mix = [stand(3_000, "FFMA"), stand(1_000, "EXIT"), stand(100_000, None)]
    whole = saved(tmp_path, mix).ask("sampled_roofline").row(0, named=True)
    row = saved(tmp_path / "b", mix, ops, limits=limits).ask("sampled_roofline").row(0, named=True)
    assert "not all launches are in the recording" in row["evidence"]
    # 8640 warps, and three FFMA of 64 FLOP for each EXIT.
    assert row["flop_per_s_low"] == pytest.approx(8640 * 3 * 64 / 1e-3, rel=0.1)
    assert row["flop_per_s_low"] < whole["flop_per_s_low"]
    assert row["flop_per_s_high"] == whole["flop_per_s_high"]


ODD = (0, -1, 1, 33, 2**31, 2**62)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "what",
    ["grid_x", "block_x", "registers_per_thread", "static_shared_bytes", "end_ns", "sm_count",
     "max_clock_hz", "samples", "period_cycles"],
)  # fmt: skip
def test_odd_numbers_give_bounds_or_none(what: str, odd: int, tmp_path: Path) -> None:
    """Recordings come from strangers."""
    if what == "end_ns":
        odd = max(odd, 0)  # a row that ends before it starts is refused before
    ops = [launch(**{what: odd})] if what in launch() else [launch()]
    device = {**A100, what: odd} if what in A100 else A100
    more = {what: odd} if what in ("samples", "period_cycles") else {}
    samples = [{**stand(300, "FFMA"), **more}, stand(300, "EXIT"), stand(14_000, None)]
    for row in saved(tmp_path, samples, ops, device).ask("sampled_roofline").iter_rows(named=True):
        for name in ("issue_{}_pct", "of_peak_{}_pct", "flop_per_s_{}", "l1_bytes_per_s_{}"):
            low, high = (row[name.format(end)] for end in ("low", "high"))
            assert (low is None) == (high is None)
            assert low is None or 0 <= low <= high, name


def test_no_issued_sample(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="no kernel can be placed by its samples"):
        saved(tmp_path, [stand(5, None)]).ask("sampled_roofline")


def test_in_the_terminal_and_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path, BUSY)
    path = str(tmp_path / "run.sightline")
    assert main(["roofline", path]) == 0
    out = capsys.readouterr().out
    assert "Bounds from samples · NVIDIA A100-SXM4-40GB · nothing was counted" in out
    assert "bound by compute" in out
    assert max(map(len, out.splitlines())) <= 80
    assert main(["roofline", path, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["bound"] == "compute"
    assert main(["roofline", path, "-o", str(tmp_path / "x.svg")]) != 0
    assert "the kernels were sampled" in capsys.readouterr().err
    assert main(["report", path]) == 0
    assert "sightline roofline" in capsys.readouterr().out


def test_on_the_page(tmp_path: Path) -> None:
    """Beside the numbers stands that they are estimates, and why there is no picture."""
    note, table = roofline.data(View(saved(tmp_path, BUSY)))
    assert "nothing was counted" in note["text"]
    assert "No sample shows the traffic of device memory" in note["text"]
    columns = {c["name"]: c["values"] for c in table["columns"]}
    assert columns["bound"] == ["compute"]
