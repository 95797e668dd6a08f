"""The rules about profiled kernels are silent where none was profiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core import registry
from support.rules import assert_silent
from support.traces import kernel, opened


@pytest.mark.parametrize("name", [n for n in registry.list_names("rules") if n.startswith("ncu_")])
def test_silence(name: str, tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [kernel("k", 0, 100)]), name)
