"""Fixtures that all tests share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support import fake_nvml
from support.campaigns import examples
from support.corpus import CORPUS

pytest_plugins = ["support.corpus_guard", "support.suite"]

# On a busy machine one example can take long without anything being wrong.
settings.register_profile(
    "ci",
    max_examples=examples(60),
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real recordings, for tests with the marker `corpus`."""
    return CORPUS


_numbers = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, which looks through the folders of all tests before for the next number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_numbers)}", numbered=False)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache of imports for the whole session, away from the user's own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_CACHE", str(folder))
        patch.delenv("SIGHTLINE_CACHE_BYTES", raising=False)
        yield folder


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fake NVML; a test that asks for it is skipped where there is no C compiler."""
    return fake_nvml.build_library(tmp_path_factory.mktemp("nvml"))
