"""What this machine lacks, made by the tests: shared libraries and programs of the same names.

NVML is in support/fake_nvml.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

# Writes each call as a line into the file that CALLS names.
TOLD = r"""
#include <stdio.h>
#include <stdlib.h>
static void tell(const char *what, const char *text) {
  FILE *f = fopen(getenv("CALLS"), "a"); fprintf(f, "%s %s\n", what, text); fclose(f); }
"""
NVTX = (
    TOLD
    + r"""
int nvtxRangePushA(const char *t) { tell("push", t); return 0; }
int nvtxRangePop(void) { tell("pop", ""); return 0; }
"""
)
CUDART = (
    TOLD
    + r"""
int cudaProfilerStart(void) { tell("start", ""); return 0; }
int cudaProfilerStop(void) { tell("stop", ""); return 0; }
"""
)

# A profiler around a program: writes its arguments and the recording that RECORDING names.
WRAPPER = """\
import json, os, shutil, subprocess, sys
words = sys.argv[1:]
if words[:1] == ["--version"]:
    print({version!r})
    sys.exit(0)
if "--help" in words or "--query-metrics" in words:
    sys.exit(1)
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps([{name!r}, *words]) + "\\n")
output = words[words.index({option!r}) + 1]
start = max(i for i, w in enumerate(words) if w in os.environ["LAST_OPTION"].split(",")) + 2
code = subprocess.call(words[start:])
if os.environ.get("RECORDING"):
    shutil.copyfile(os.environ["RECORDING"], output + {ending!r})
sys.exit(code if code >= 0 else 128 - code)
"""
SMI = """\
#!/bin/sh
echo "Scripted GPU, 81920 MiB, 570.00"
"""


def library(folder: Path, name: str, source: str) -> Path:
    """A shared library made of C. Skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    code = folder / f"{name}.c"
    code.write_text(source)
    target = folder / name
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, code], check=True)
    return target


def make_libraries(folder: Path) -> Path:
    """NVTX and the CUDA runtime, scripted; the folder that holds them."""
    library(folder, "libnvToolsExt.so.1", NVTX)
    library(folder, "libcudart.so.13", CUDART)
    return folder


def run_python(code: str, libraries: Path, **variables: str) -> str:
    """What a program prints that finds these libraries first."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(libraries), **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def program(folder: Path, name: str, text: str) -> Path:
    """An executable script."""
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def python_program(folder: Path, name: str, code: str) -> Path:
    """An executable Python program, whatever the folder is called that this Python lies in.

    What the kernel reads after #! ends at a blank: a shell starts the file anew, as Python.
    """
    start = f"""#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} "$0" "$@"\n' '''\n"""
    return program(folder, name, start + code)


def nsys(folder: Path) -> Path:
    """An `nsys` that runs the program and leaves an SQLite export, as --export sqlite does."""
    text = WRAPPER.format(
        name="nsys",
        version="NVIDIA Nsight Systems version 2026.2.1.210",
        option="--output",
        ending=".sqlite",
    )
    return python_program(folder, "nsys", text)


def ncu(folder: Path) -> Path:
    """An `ncu` that runs the program and leaves a report."""
    text = WRAPPER.format(
        name="ncu",
        version="Version 2026.1.0.0 (build 1)",
        option="--export",
        ending=".ncu-rep",
    )
    return python_program(folder, "ncu", text)
