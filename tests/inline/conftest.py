"""A run that this process itself is recorded into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.inline import session


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "own.sightline"
    folder.mkdir()
    session.start({"folder": str(folder)})
    yield folder
    session.end()
