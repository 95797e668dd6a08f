from __future__ import annotations

from pathlib import Path

import pytest

from record.sampling.programs import build_known


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_known(tmp_path_factory.mktemp("known"))
