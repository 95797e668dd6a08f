"""One program in every format: the same breakdown to the ns, and the same first finding."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.one_program import COPIES, KERNELS, TRUTH, WRITERS


@pytest.mark.parametrize("name", list(WRITERS))
def test_every_format_tells_the_same(tmp_path: Path, name: str) -> None:
    run = sightline.open(str(WRITERS[name](tmp_path)))
    assert {part: run.ask("breakdown").row(0, named=True)[part] for part in TRUTH} == TRUTH
    ops = run.table("device_ops")
    assert ops.filter(kind="kernel").height == len(KERNELS)
    assert set(ops.filter(kind="memcpy").get_column("copy_kind")) == {"DtoH"}
    assert ops.height == len(KERNELS) + len(COPIES)
    assert ops.get_column("launch_id").null_count() == 0
    first = next(f for f in run.findings() if not f.abstained)
    assert first.rule == "host-late"
    # The GPU idles before every round but the first, until the kernel that was launched begins.
    late = sum(b[0] - a[1] for a, b in zip(COPIES, KERNELS[1:], strict=False))
    assert first.gain_ns == pytest.approx(late, rel=0.01)
