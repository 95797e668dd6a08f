"""Sources that the build fetches are those that their hashes name, or there is no build."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from support.places import ROOT

CMAKE = (ROOT / "CMakeLists.txt").read_text()
FETCHED = re.findall(r"FetchContent_Declare\(\s*(\w+)\s+URL (\S+)\s+URL_HASH (\S+)\s*\)", CMAKE)


def test_all_that_is_fetched_has_an_address_and_a_hash() -> None:
    assert len(FETCHED) == CMAKE.count("FetchContent_Declare") == 3
    for name, address, digest in FETCHED:
        assert address.startswith("https://github.com/"), name
        assert re.fullmatch(r"SHA256=[0-9a-f]{64}", digest), name


@pytest.mark.parametrize("is_right", [True, False])
@pytest.mark.parametrize("name", [name for name, _, _ in FETCHED])
def test_another_archive_ends_the_build(tmp_path: Path, name: str, is_right: bool) -> None:
    """The declaration as it stands, with the address of an archive made here."""
    if shutil.which("cmake") is None:
        pytest.skip("there is no cmake")
    source = tmp_path / "source"
    source.mkdir()
    (source / "CMakeLists.txt").write_text("")
    archive = tmp_path / "archive.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(source, "source")
    _, address, digest = next(one for one in FETCHED if one[0] == name)
    found = re.search(rf"FetchContent_Declare\(\s*{name}\s.*?\)", CMAKE, re.DOTALL)
    assert found is not None
    declared = found.group().replace(address, archive.as_uri())
    if is_right:
        own = hashlib.sha256(archive.read_bytes()).hexdigest()
        declared = declared.replace(digest, f"SHA256={own}")
    build = tmp_path / "build"
    build.mkdir()
    (build / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(fetch NONE)\ninclude(FetchContent)\n"
        f"{declared}\nFetchContent_MakeAvailable({name})\n"
    )
    words = ["cmake", "-S", str(build), "-B", str(build / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is is_right, done.stderr
    if not is_right:
        assert "hash" in done.stderr.lower()
