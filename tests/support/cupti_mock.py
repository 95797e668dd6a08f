"""The injection library, a libcupti of ours, built with NVIDIA's headers, and a program for them.

Headers are those that scripts/setup fetched (the wheels of CUDA 13.5: the interface with layouts),
and a CUDA toolkit's (whatever it is). Builds are kept, by the content of what goes into them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.nvidia import cupti
from sightline.formats.nvidia.cupti.file import CuptiFile, read_file
from support.places import ROOT

NATIVE = ROOT / "native"
OWN = Path(__file__).with_name("cupti")
FETCHED = Path(sys.prefix) / "cuda" / "include"
TOOLKIT = Path("/usr/local/cuda/include")
# NVIDIA's headers refer to others: all of these must be there.
NEEDED = (
    "cupti.h",
    "cupti_pcsampling.h",
    "cuda_runtime_api.h",
    "crt/host_defines.h",
    "nvtx3/nvToolsExt.h",
)
FIRST_NS = 1_700_000_000_000_000_000
KERNELS = ("_Z5saxpyifPKfPf", "_ZN2at6native18elementwise_kernelEi", "gemm_kernel", "reduce")


def is_complete(folder: Path) -> bool:
    """Whether a folder has all headers that a build needs."""
    return all((folder / name).is_file() for name in NEEDED)


def read_version(folder: Path) -> int:
    """CUPTI_API_VERSION of the headers in a folder."""
    text = (folder / "cupti_version.h").read_text()
    found = re.search(r"^#define CUPTI_API_VERSION (\d+)", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def find_headers(layouts: bool, places: tuple[Path, ...] = (FETCHED, TOOLKIT)) -> Path | str:
    """Headers with the interface wanted, or why there are none."""
    if shutil.which("g++") is None:
        return "no g++ was found"
    complete = [p for p in places if is_complete(p)]
    if not complete:
        return f"no CUPTI headers in {' or '.join(map(str, places))}: scripts/setup fetches them"
    for place in complete:
        if (read_version(place) >= 130300) == layouts:
            return place
    kind = "with record layouts (13.3 and newer)" if layouts else "of the first interface (to 13.2)"
    return f"no CUPTI headers {kind} in {' or '.join(map(str, complete))}"


@dataclass(frozen=True)
class Built:
    """What a set of headers was made into."""

    headers: Path
    injection: Path
    mock: Path
    program: Path
    variables: tuple[tuple[str, str], ...] = ()  # of the programs that run with it

    @property
    def version(self) -> int:
        """CUPTI_API_VERSION."""
        return read_version(self.headers)


def build(layouts: bool = False) -> Built:
    """Build for one interface; skips where there are no headers.

    Newer headers have the older interface, too: it is taken where CUPTI says that it is 13.1.
    """
    headers = find_headers(layouts)
    if not isinstance(headers, str):
        return build_with(headers)
    newer = headers if layouts else find_headers(layouts=True)
    if isinstance(newer, str):
        pytest.skip(newer)
    return replace(build_with(newer), variables=(("MOCK_VERSION", "130100"),))


def build_with(headers: Path) -> Built:
    """Build with these headers, once for each content."""
    sources = sorted((NATIVE / "cupti").glob("*"))
    own = [OWN / "mock_cupti.cpp", OWN / "program.cpp"]
    content = hashlib.sha256(str(headers).encode())
    for path in (*sources, *own, headers / "cupti_version.h"):
        content.update(path.read_bytes())
    folder = (
        Path(tempfile.gettempdir()) / f"sightline-cupti-{os.getuid()}-{content.hexdigest()[:16]}"
    )
    if not (folder / "program").is_file():
        scratch = Path(tempfile.mkdtemp(prefix="sightline-cupti-"))
        _compile(headers, scratch)
        if folder.exists():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            try:
                scratch.rename(folder)
            except OSError:  # another worker was faster
                shutil.rmtree(scratch, ignore_errors=True)
    return Built(
        headers, folder / "libsightline-cupti.so", folder / "libcupti.so.13", folder / "program"
    )


def _compile(headers: Path, folder: Path) -> None:
    common = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-isystem", str(headers)]
    shared = ["-fPIC", "-shared", "-pthread"]
    cupti_sources = [str(p) for p in sorted((NATIVE / "cupti").glob("*.cpp"))]
    script = NATIVE / "cupti" / "exports.map"
    jobs = [
        [*common, *shared, "-fvisibility=hidden", f"-I{NATIVE}", *cupti_sources, "-ldl",
         f"-Wl,--version-script={script}", "-o", str(folder / "libsightline-cupti.so")],
        [*common, *shared, str(OWN / "mock_cupti.cpp"), "-Wl,-soname,libcupti.so.13", "-o",
         str(folder / "libcupti.so.13")],
        [*common, "-pthread", str(OWN / "program.cpp"), "-ldl", "-o", str(folder / "program")],
    ]  # fmt: skip
    running = [subprocess.Popen(job, stderr=subprocess.PIPE, text=True) for job in jobs]
    for process in running:
        _, said = process.communicate()
        assert process.returncode == 0, said


@dataclass(frozen=True)
class Outcome:
    """What a program left behind."""

    code: int
    said: str
    path: Path

    @property
    def file(self) -> CuptiFile:
        """The file's chunks."""
        return read_file(Source(self.path, self.path.name))

    @property
    def imported(self) -> Imported:
        """The declared tables."""
        return cupti.read(Source(self.path, self.path.name), ImportOptions())

    @property
    def limits(self) -> dict[str, Any]:
        """The quality rows' counts, by kind."""
        return {q.kind: q.count for q in self.imported.quality}


def play(
    built: Built, folder: Path, *verbs: str, one_file: bool = True, **variables: str
) -> Outcome:
    """Run a program that does what the verbs say (program.cpp), with the injection in it."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SIGHTLINE_", "MOCK_"))},
        "CUDA_INJECTION64_PATH": str(built.injection),
        "NVTX_INJECTION64_PATH": str(built.injection),
        "SIGHTLINE_CUPTI_LIBRARY": str(built.mock),
        "SIGHTLINE_CUPTI_FOLDER": str(folder),
        **dict(built.variables),
        **variables,
    }
    done = subprocess.run(
        [str(built.program), *verbs],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    path, *others = sorted(folder.glob("*.cupti"), key=lambda p: len(p.name))
    assert not (others and one_file)
    return Outcome(done.returncode, done.stderr, path)


def expect_kernels(count: int, first: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """What mock_launch writes of kernels `first` to `first + count`, computed a second way."""
    n = np.arange(first, first + count, dtype=np.int64)
    start = FIRST_NS + n * 10_000 + 5_000
    return {
        "start_ns": start,
        "end_ns": start + 3_000,
        "correlation_id": n + 1,
        "device_id": n % 2,
        "context_id": 1 + n % 2,
        "stream_id": 7 + n % 3,
        "grid_x": 1 + n % 1000,
        "grid_y": np.full(count, 2),
        "grid_z": np.full(count, 3),
        "block_x": np.full(count, 256),
        "registers_per_thread": 32 + n % 200,
        "static_shared_bytes": np.full(count, 1024),
        "dynamic_shared_bytes": n % 4096,
        "shared_executed_bytes": np.full(count, 65536),
        "local_bytes_per_thread": np.full(count, 8),
        "local_bytes": np.full(count, 5_000_000_000),
        "mangled_name": np.array(KERNELS)[n % 4],
    }
