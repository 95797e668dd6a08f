"""A run saved as a store of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.command import sightline as command
from support.traces import kernel, opened


def test_a_damaged_store_is_named_when_it_is_saved_again(tmp_path: Path) -> None:
    """The file's end, which is read first, is whole; its rows are not."""
    store = tmp_path / "kept.sightline"
    sightline.save(opened(tmp_path, [kernel(f"kernel {n}", n, 1) for n in range(50)]), store)
    (file,) = (store / "device_ops").rglob("*.parquet")
    data = bytearray(file.read_bytes())
    data[4:300] = b"\xff" * 296
    file.write_bytes(data)
    with pytest.raises(sightline.StoreError, match=r"cannot read table device_ops of .*kept"):
        sightline.save(sightline.open(store), tmp_path / "again.sightline")
    outcome = command("import", store, "-o", tmp_path / "again")
    assert (outcome.code, outcome.out) == (2, "")
    assert not (tmp_path / "again.sightline").exists()
