"""A sample of the losses that nobody says, and that no format is without a recording to damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from attack.losses import list_seeds
from attack.recorded_seeds import OF_CORPUS
from sightline.core import registry
from sightline.core.model.source import Source
from sightline.opening.recognise import recognise


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path]]:
    return list_seeds(tmp_path_factory.mktemp("seeds") / "whole")


def test_every_format_is_attacked(seeds: list[tuple[str, Path]]) -> None:
    attacked = {kind for kind, _ in seeds}
    attacked |= {recognise(Source(path, path.name)).name for _, path in seeds}
    lacking = set(registry.list_names("importers")) - attacked
    assert lacking == set(OF_CORPUS)
