"""Gaps that pages of unified memory end."""

from __future__ import annotations

from pathlib import Path

import sightline
from synth_nsys import Export


def test_a_prefetch_is_the_launch_of_its_pages(tmp_path: Path) -> None:
    """The host works for 5 ms before it prefetches: it is late, and nothing is unknown."""
    export = Export("3.25.0")
    export.api("cudaLaunchKernel", 0, 5_000, 1)
    export.kernel("add", 10_000, 1_010_000, 1)
    export.api("cudaMemPrefetchAsync", 6_000_000, 6_050_000, 2)
    for at in (6_020_000, 6_220_000):
        export.copy(11, at, at + 200_000, 0, 2 << 20, 4, 2, virtualAddress=at, migrationCause=1)
    export.api("cudaLaunchKernel", 6_060_000, 6_065_000, 3)
    export.kernel("add", 6_420_000, 7_420_000, 3)
    run = sightline.open(str(export.write(tmp_path / "run.sqlite")))
    gaps = run.ask("idle_rules")
    assert gaps.get_column("rule").to_list() == ["host-late"]
    assert gaps.item(0, "duration_ns") == 5_010_000
