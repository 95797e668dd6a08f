"""What this machine lacks, made by the tests: shared libraries and programs of the same names."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

# Scripted values: GPU 0 at 300 W then 400 W by turns, its energy counter moving at every third
# reading; GPU 1 refuses the energy counter and is held by the power cap.
NVML = r"""
#include <string.h>
static int reads[2];
static unsigned long long energy;
typedef struct { int index; } dev;
static dev devices[2] = {{0}, {1}};
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } rates;
int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned int f) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "scripted error"; }
int nvmlDeviceGetCount_v2(unsigned int *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int i, dev **out) { *out = &devices[i]; return 0; }
int nvmlDeviceGetName(dev *d, char *name, unsigned int n) {
  strncpy(name, "Scripted GPU", n); return 0; }
int nvmlDeviceGetPowerUsage(dev *d, unsigned int *mw) {
  *mw = reads[d->index]++ % 2 ? 400000 : 300000; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(dev *d, unsigned long long *mj) {
  if (d->index) return 3;
  *mj = (reads[0] / 3) * 5000ULL; return 0; }
int nvmlDeviceGetClockInfo(dev *d, int kind, unsigned int *mhz) {
  *mhz = kind == 1 ? 1410 : 2619; return 0; }
int nvmlDeviceGetMemoryInfo(dev *d, memory *m) {
  m->total = 80ULL << 30; m->used = 3ULL << 30; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetUtilizationRates(dev *d, rates *r) { r->gpu = 90; r->memory = 40; return 0; }
int nvmlDeviceGetTemperature(dev *d, int sensor, unsigned int *c) { *c = 61; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(dev *d, unsigned long long *bits) {
  *bits = d->index ? 0x4 : 0x0; return 0; }
int nvmlDeviceGetPersistenceMode(dev *d, int *on) { *on = 1; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(dev *d, unsigned int *mw) {
  *mw = d->index ? 500000 : 700000; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(dev *d, unsigned int *mw) { *mw = 700000; return 0; }
int nvmlDeviceGetApplicationsClock(dev *d, int kind, unsigned int *mhz) { return 3; }
int nvmlDeviceGetDefaultApplicationsClock(dev *d, int kind, unsigned int *mhz) { return 3; }
int nvmlDeviceGetMaxClockInfo(dev *d, int kind, unsigned int *mhz) { *mhz = 1980; return 0; }
"""

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
#!{python}
import json, os, shutil, subprocess, sys
words = sys.argv[1:]
if words[:1] == ["--version"]:
    print({version!r})
    sys.exit(0)
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
    """NVML, NVTX and the CUDA runtime, scripted; the folder that holds them."""
    library(folder, "libnvidia-ml.so.1", NVML)
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


def nsys(folder: Path) -> Path:
    """An `nsys` that runs the program and leaves an SQLite export, as --export sqlite does."""
    text = WRAPPER.format(
        python=sys.executable,
        name="nsys",
        version="NVIDIA Nsight Systems version 2026.2.1.210",
        option="--output",
        ending=".sqlite",
    )
    return program(folder, "nsys", text)


def ncu(folder: Path) -> Path:
    """An `ncu` that runs the program and leaves a report."""
    text = WRAPPER.format(
        python=sys.executable,
        name="ncu",
        version="Version 2026.1.0.0 (build 1)",
        option="--export",
        ending=".ncu-rep",
    )
    return program(folder, "ncu", text)
