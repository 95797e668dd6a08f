"""What the host asked to copy, where only its calls were seen."""

from __future__ import annotations

from pathlib import Path

from sightline.testing import open_rows

ASKED = {"kind": "memcpy", "copy_kind": "HtoD"}


def test_sums_of_calls_by_direction_and_function(tmp_path: Path) -> None:
    """Two that succeeded and one that did not; the call that took longest comes first."""
    spans = {1: ("cudaMemcpy", 0, 30), 2: ("cudaMemcpy", 40, 50), 3: ("cudaMemcpy", 60, 65),
             4: ("cudaMemsetAsync", 70, 72)}  # fmt: skip
    run = open_rows(
        tmp_path,
        host_ops=[
            {"host_op_id": n, "layer": "runtime", "name": name, "start_ns": start, "end_ns": end}
            for n, (name, start, end) in spans.items()
        ],
        requests=[
            {"host_op_id": 1, "bytes": 100, **ASKED},
            {"host_op_id": 2, "bytes": 300, **ASKED},
            {"host_op_id": 3, "bytes": 900, "return_value": 2, **ASKED},
            {"host_op_id": 4, "bytes": 8, "kind": "memset"},
        ],
    )
    columns = ("call", "copy_kind", "is_async", "copies", "failed", "bytes", "median_bytes")
    rows = run.ask("requested_copies").select(*columns, "call_ns").rows()
    assert rows == [
        ("cudaMemcpy", "HtoD", False, 2, 1, 400, 200, 45),
        ("cudaMemsetAsync", None, True, 1, 0, 8, 8, 2),
    ]
