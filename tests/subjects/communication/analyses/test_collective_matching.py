"""What could be matched, and why the rest could not."""

from __future__ import annotations

from pathlib import Path

from support.jobs import collective
from support.traces import kernel, opened_ranks


def test_each_kernel_is_counted_once(tmp_path: Path) -> None:
    both = {"members": (0, 1)}
    first = [
        collective(0, 100, **both),
        collective(200, 100, op="broadcast", **both),
        collective(400, 100, op="allgather", **both),
        collective(600, 100, members=(0,)),
        kernel("ncclDevKernel_Mystery", 800, 10),
    ]
    second = [collective(0, 100, **both), collective(350, 100, op="broadcast", **both)]
    table = opened_ranks(tmp_path, first, second).ask("collective_matching")
    assert set(table.rows()) == {
        ("matched", "order", 1, 2),
        ("one rank ended before another began", "order", 1, 2),
        ("no other rank has it", "order", 1, 1),
        ("a group of one rank", "order", 1, 1),
        ("not described, and not alike on all ranks", None, 1, 1),
    }
