"""Other packages' members are found without reading the entry points of all packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.core import registry


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    registry._is_named_by_packages.cache_clear()
    yield
    registry._is_named_by_packages.cache_clear()


def install(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "entry_points.txt").write_text(text)


def test_here_is_none() -> None:
    assert not registry.has_outsiders()
    assert not registry._is_named_by_packages()


@pytest.mark.parametrize("name", ["mine-1.0.dist-info", "mine.egg-info", "EGG-INFO"])
def test_a_package_that_registers_something_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    install(tmp_path, name, "[sightline.rules]\nmine = mine.rule\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert registry._is_named_by_packages()


def test_one_that_registers_elsewhere_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "mine-1.0.dist-info", "[console_scripts]\nmine = sightline.mine:main\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "not there")])
    assert not registry._is_named_by_packages()


def test_where_packages_lie_elsewhere_all_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an archive, or where a finder of its own keeps them."""
    (tmp_path / "packages.zip").write_bytes(b"")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path, str(tmp_path / "packages.zip")])
        assert registry._is_named_by_packages()
    registry._is_named_by_packages.cache_clear()

    class Finder:
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, *_: object) -> tuple[()]:
            return ()

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert registry._is_named_by_packages()
