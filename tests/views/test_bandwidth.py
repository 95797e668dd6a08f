"""The table of nccl-tests on the terminal: the figures of the log, in its order."""

from __future__ import annotations

from pathlib import Path

from support.command import sightline

HEAD = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#   Rank  0 Pid 1 on host device  0 [0x00] A100-SXM4-40GB
#   Rank  1 Pid 1 on host device  1 [0x00] A100-SXM4-40GB
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw
"""


def write_log(folder: Path, lines: list[str]) -> Path:
    path = folder / "bench.log"
    path.write_text(HEAD + "".join(f"{line}\n" for line in lines))
    return path


def test_both_placements_of_a_size_stand_in_one_row(tmp_path: Path) -> None:
    path = write_log(
        tmp_path,
        [
            "    1048576        262144   float     sum    74.78   14.02   24.54    0    76.17   13.77   24.09    0",  # noqa: E501
            "    2097152        524288   float     sum    93.48   22.43   39.26    3    96.10   21.82   38.19    0",  # noqa: E501
        ],
    )
    lines = [line.split() for line in sightline("report", path, "--no-html").out.splitlines()]
    assert [
        "1.049",
        "MB",
        "74.78",
        "µs",
        "14.02",
        "24.54",
        "76.17",
        "µs",
        "13.77",
        "24.09",
    ] in lines
    assert [
        "2.097",
        "MB",
        "93.48",
        "µs",
        "22.43",
        "39.26",
        "96.10",
        "µs",
        "21.82",
        "38.19",
    ] in lines
    assert ["3", "wrong", "elements"] in lines


def test_of_many_sizes_the_last_are_shown(tmp_path: Path) -> None:
    rows = [f"  {8 << i}  {2 << i}  float  sum  10.00  1.00  {i}.50  0" for i in range(20)]
    path = write_log(tmp_path, rows)
    shown = sightline("report", path, "--no-html").out
    assert "out-of-place" not in shown
    assert "3.50" not in shown.split()
    assert "4.50" in shown.split()
    assert "… 4 rows before these: sightline stats bandwidth_by_size" in shown
    assert max(map(len, shown.splitlines())) <= 80
