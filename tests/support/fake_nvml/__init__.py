"""An NVML without GPUs: the library in C, what it answers, and programs run on it.

`run_with(scenario, library, code)` runs Python on it; `use_scenario(scenario, library, folder)`
puts it under this process. With a `Clock` the fake time is what a test sets, else it is real and
begins with nvmlInit.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.fake_nvml.machines import make_eight, make_h200, make_instance
from support.fake_nvml.scenario import (
    Delay,
    Device,
    Event,
    Failure,
    Process,
    Scenario,
    Values,
    accumulate,
    ramp,
    steps,
)

__all__ = [
    "Clock", "Delay", "Device", "Event", "Failure", "Process", "Scenario", "Values", "accumulate",
    "build_library", "list_variables", "make_eight", "make_h200", "make_instance", "ramp",
    "run_with", "steps", "use_scenario",
]  # fmt: skip

SOURCES = sorted(Path(__file__).parent.glob("*.c"))
NAME = "libnvidia-ml.so.1"


def build_library(folder: Path) -> Path:
    """The library, compiled into a folder. Skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    target = folder / NAME
    options = ["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", target, *SOURCES, "-lpthread"], check=True)
    return target


class Clock:
    """The fake time, in ns: 8 bytes of a file that the library maps. `set` it to any moment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)

    @property
    def seconds(self) -> float:
        return float(struct.unpack("<q", self._map[:])[0]) / 1e9

    def set(self, seconds: float) -> None:
        """Go to a moment, forward or back."""
        self._map[:] = struct.pack("<q", round(seconds * 1e9))

    def move(self, seconds: float) -> None:
        """Go on by so much."""
        self.set(self.seconds + seconds)


def list_variables(
    scenario: Scenario, library: Path, folder: Path, clock: Clock | None = None
) -> dict[str, str]:
    """The environment of a program that finds the library and the scenario, written to `folder`."""
    paths = [str(library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    answer = {
        "LD_LIBRARY_PATH": os.pathsep.join(path for path in paths if path),
        "FAKE_NVML_SCENARIO": str(scenario.write(folder / "scenario.tsv")),
    }
    return answer | ({"FAKE_NVML_CLOCK": str(clock.path)} if clock else {})


def run_with(
    scenario: Scenario,
    library: Path,
    program: str | list[str],
    folder: Path,
    clock: Clock | None = None,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """A program (words), or Python code (a text), run on the scenario to its end."""
    words = [sys.executable, "-c", program] if isinstance(program, str) else program
    env = {**os.environ, **list_variables(scenario, library, folder, clock), **variables}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, check=False)


@contextmanager
def use_scenario(scenario: Scenario, library: Path, folder: Path) -> Iterator[Clock]:
    """NVML in this process answers from the scenario, at the time of the clock that is given."""
    import pynvml

    clock = Clock(folder / "clock")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in list_variables(scenario, library, folder, clock).items():
            patch.setenv(name, value)
        # nvidia-ml-py looks for a library where it has none, and keeps its functions.
        patch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
        patch.setattr(pynvml, "_nvmlLib_refcount", 0)
        patch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        try:
            yield clock
        finally:
            while pynvml.nvmlLib.nvmlShutdown() == 0:
                pass
