from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from record.probe.programs import Target, build_program


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory.mktemp("gpu"))


@pytest.fixture
def target(program: Path) -> Iterator[Target]:
    with Target(program) as running:
        yield running
