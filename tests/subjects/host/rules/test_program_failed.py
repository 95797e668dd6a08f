"""program-failed: what the program printed as it ended."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from sightline.formats.nvidia._nsys.program_error import find_last_error
from support import exports
from support.rules import answers, assert_silent
from synth_nsys import Export

RULE = "program-failed"
US = 1_000
TRACEBACK = """\
Downloading data
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    loss = model(batch)
  File "model.py", line 3, in forward
    raise ValueError("x")
"""


def ended(folder: Path, text: str, name: str = "pid_7_stderr.log") -> Run:
    """Three kernels with pauses between them, and what was printed."""
    export = Export()
    for n in range(3):
        at = n * 900_000
        export.api("cudaLaunchKernel", at, at + 5 * US, n + 1)
        export.kernel("k", at + 10 * US, at + 310 * US, n + 1)
    export.add(
        "ProcessStreams", globalPid=7, filenameId=export.text(name), contentId=export.text(text)
    )
    return exports.opened(folder, export)


def test_an_exception_comes_first_and_nothing_gains(tmp_path: Path) -> None:
    run = ended(tmp_path, TRACEBACK + "ValueError: x\n")
    (found,) = answers(run, RULE)
    assert "The program ended with an error: ValueError: x." in found.summary
    assert sightline.findings(run)[0].rule == RULE
    assert not [f for f in sightline.findings(run) if f.gain_ns]


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB.", "batch"),
        ("ImportError: dynamic module does not define PyInit_basic", "install or build"),
        ("KeyError: 'x'", "fix the error"),
    ],
)
def test_the_fix_is_the_errors(tmp_path: Path, error: str, fix: str) -> None:
    (found,) = answers(ended(tmp_path, f"{TRACEBACK}{error}\n"), RULE)
    assert fix in found.fix


def test_memory_is_told_in_the_words_of_who_runs(tmp_path: Path) -> None:
    text = "thread 'main' (1) panicked at a.rs:7:5:\nCUDA_ERROR_OUT_OF_MEMORY\n"
    (found,) = answers(ended(tmp_path, text), RULE)
    assert "nvidia-smi" in found.fix and "torch" not in found.fix


def test_without_gpu_rows_it_is_why(tmp_path: Path) -> None:
    export = Export()
    export.add(
        "ProcessStreams",
        globalPid=7,
        filenameId=export.text("/tmp/nvidia/pid_7_stderr.log"),
        contentId=export.text(f"{TRACEBACK}ImportError: cannot open /home/ada/x.so\n"),
    )
    export.add("OSRT_API", start=1, end=9, globalTid=1, nameId=export.text("read"))
    run = exports.opened(tmp_path, export)
    (why,) = run.table("quality").filter(pl.col("kind") == "no_device_ops").to_dicts()
    assert (
        "recorded: the program ended with an error: ImportError: cannot open /home/…/x.so"
        in (why["text"])
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Error (L2norm): 4.26e-11\n", "pid_7_stderr.log"),
        ("UserWarning: deprecated\nError: 3 % of the points\n", "pid_7_stderr.log"),
        (f"{TRACEBACK}ValueError: x\n", "pid_7_stdout.log"),
        ("", "pid_7_stderr.log"),
        ("CUDA error: peer access\n" + "step\n" * 9, "pid_7_stderr.log"),
        ("max CUDA error: 1.2e-7\n", "pid_7_stderr.log"),
        ("config.yaml not found\nstep 1: error: 0.3\n", "pid_7_stderr.log"),
    ],
    ids=["a figure", "a warning", "standard output", "nothing", "went on", "a difference", "words"],
)
def test_what_ended_no_program(tmp_path: Path, text: str, name: str) -> None:
    assert_silent(ended(tmp_path, text, name), RULE)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("terminate called after throwing an instance of 'E'\n  what():  x\n", "terminate called"),
        ("sh: line 1: 77 Segmentation fault (core dumped) ./a\n", "Segmentation fault"),
        ("a: a.c:3: main: Assertion `n > 0' failed.\n", "Assertion"),
        (f"{TRACEBACK}{'a.' * 300}Error: x\n", "a.a.a."),
        # nvhpc's OpenACC runtime, gfortran's library, Julia and Open MPI, as they write it.
        (
            "host:0x1 device:0x2 size:80 presentcount:0+1 line:39 name:a\n"
            "FATAL ERROR: variable in data clause is partially present on the device: name=b\n"
            " file:/a/main.cpp main line:62\n",
            "partially present",
        ),
        ("At line 9 of file a.f90\nFortran runtime error: End of file\n", "End of file"),
        ("ERROR: LoadError: Out of GPU memory\nStacktrace:\n [1] a\n", "Out of GPU memory"),
        ("MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\n", "MPI_ABORT"),
        # Rust since 1.73, and with the thread's number as later ones have it: the message follows.
        (
            "thread 'main' (46010) panicked at src/gpu.rs:77:50:\n"
            'upload: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")\n'
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
            "CUDA_ERROR_OUT_OF_MEMORY",
        ),
        ("thread 'main' panicked at a.rs:7:5\nnote: run with x\n", "panicked at a.rs:7:5"),
        # Interpreters and shells that could not begin, and a command line that was refused.
        ("python3: can't open file '/a/b.py': [Errno 2] No such file or directory\n", "b.py"),
        ("/usr/bin/python: No module named train\n", "No module named train"),
        (
            "  File \"a.py\", line 3\n    x = (\n        ^\nSyntaxError: '(' was never closed\n",
            "never closed",
        ),
        ("sh: 1: ./solver: not found\n", "./solver: not found"),
        ("bash: line 1: ./solver: No such file or directory\n", "./solver"),
        (
            "usage: a.py [-h] --data DATA\na.py: error: the following arguments are required: "
            "--data\n",
            "--data",
        ),
        # What the checks around CUDA and HIP calls print last, as samples and courses write them.
        ("step 3\nCUDA error at a.cu:42 code=2(cudaErrorMemoryAllocation)\n", "a.cu:42"),
        ("GPUassert: an illegal memory access was encountered a.cu 12\n\n", "GPUassert"),
        ("CUDA Runtime Error at: a.cu:9\nout of memory cudaMalloc(&p, n)\n", "CUDA Runtime Error"),
        ("HIP error: 'invalid argument'(1) at a.hip:7\n", "invalid argument"),
    ],
)
def test_what_c_programs_print(text: str, line: str) -> None:
    found = find_last_error(text)
    assert found is not None and line in found
    assert len(found) <= 160


def test_the_loader_of_a_c_library_that_is_too_new(tmp_path: Path) -> None:
    """The undefined name is in a library of Nsight Systems: the program is not to blame."""
    export = Export()
    line = (
        "./a: symbol lookup error: /opt/nvidia/nsight-systems/2021.3.3/libToolsInjection64.so: "
        "undefined symbol: __libc_dlclose, version GLIBC_PRIVATE\n"
    )
    name = export.text("/tmp/nvidia/pid_7_stderr.log")
    export.add("ProcessStreams", globalPid=7, filenameId=name, contentId=export.text(line))
    export.add("OSRT_API", start=1, end=9, globalTid=1, nameId=export.text("read"))
    run = exports.opened(tmp_path, export)
    (why,) = run.table("quality").filter(pl.col("kind") == "no_device_ops").to_dicts()
    assert "symbol lookup error" in why["text"]
    assert why["remedy"].startswith("Update Nsight Systems")


def worked(folder: Path, error: str) -> Run:
    """1,000 kernels, and then the end."""
    export = Export()
    for n in range(1_000):
        export.api("cudaLaunchKernel", n * 20 * US, n * 20 * US + 5 * US, n + 1)
        export.kernel("k", n * 20 * US + 8 * US, n * 20 * US + 18 * US, n + 1)
    name, text = export.text("pid_7_stderr.log"), export.text(f"{TRACEBACK}{error}\n")
    export.add("ProcessStreams", globalPid=7, filenameId=name, contentId=text)
    return exports.opened(folder, export)


def test_an_error_after_long_work_is_a_remark(tmp_path: Path) -> None:
    (found,) = answers(worked(tmp_path, "KeyError: 'x'"), RULE)
    assert (found.severity, found.is_asked) == ("info", False)
    assert "It had run 1,000 GPU operations by then" in found.summary


def test_who_ends_a_recording_by_hand_has_no_error(tmp_path: Path) -> None:
    assert_silent(worked(tmp_path / "a", "KeyboardInterrupt"), RULE)
    (found,) = answers(ended(tmp_path / "b", f"{TRACEBACK}KeyboardInterrupt\n"), RULE)
    assert "let it run until it computes" in (found.fix or "")
