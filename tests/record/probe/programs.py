"""Programs that call GPU libraries of our own, built with the C compiler, and probes of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from sightline.record.probe.available import find_obstacle

HERE = Path(__file__).parent
LIBRARIES = {"RUNTIME": "libcudart.so.13", "DRIVER": "libcuda.so.1", "NCCL": "libnccl.so.2"}


@cache
def obstacle(backend: str) -> str | None:
    if backend == "bpf" and shutil.which("cc") is None:
        return "there is no C compiler"
    return find_obstacle(backend)


def needs(*backends: str) -> None:
    """Skip a test, with the exact reason, where the kernel lets no probe be placed."""
    for backend in backends:
        if (why := obstacle(backend)) is not None:
            pytest.skip(f"{backend}: {why}")


def build_program(folder: Path) -> Path:
    """The libraries of fake_gpu.c and the program that calls them."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    # The runtime is linked with the driver, so that comes first.
    for part in ("DRIVER", "RUNTIME", "NCCL"):
        name = LIBRARIES[part]
        more = [f"-L{folder}", "-l:libcuda.so.1"] if part == "RUNTIME" else []
        compile_c(folder / name, HERE / "fake_gpu.c", "-O2", "-fPIC", "-shared", f"-D{part}",
                  f"-Wl,-soname,{name}", *more)  # fmt: skip
    linked = [f"-l:{name}" for name in LIBRARIES.values()]
    compile_c(folder / "program", HERE / "program.c", "-O1", "-g", "-fno-omit-frame-pointer",
              "-rdynamic", f"-L{folder}", *linked, f"-Wl,-rpath,{folder}", "-lpthread")  # fmt: skip
    return folder / "program"


def compile_c(target: Path, source: Path, *options: str) -> None:
    first = [o for o in options if not o.startswith(("-l", "-L", "-Wl"))]
    last = [o for o in options if o not in first]
    subprocess.run(["cc", *first, "-o", target, source, *last], check=True, capture_output=True)


class Target:
    """A running program that does what it is told, line by line."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.read()
        self.pid = self.process.pid

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line: str) -> float:
        """Do it and wait; ns of each call."""
        self.tell(line)
        return float(self.read())

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.kill()
            self.end()


class Probe:
    """`sightline probe` beside a program."""

    def __init__(self, *options: str | Path) -> None:
        command = [sys.executable, "-m", "sightline", "probe", *map(str, options)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if "stop with Ctrl-C" in line:
                return
        raise AssertionError("".join(self.said))

    def wait(self) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, "".join(self.said) + err


def read_code(pid: int, library: str, offset: int) -> bytes:
    """The first bytes of a function as they are in a process's memory: 0xcc is a breakpoint."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split()
        if len(fields) == 6 and fields[5].endswith(library) and "x" in fields[1]:
            start, end = (int(x, 16) for x in fields[0].split("-"))
            inside = offset - int(fields[2], 16)
            if 0 <= inside < end - start:
                with Path(f"/proc/{pid}/mem").open("rb") as memory:
                    memory.seek(start + inside)
                    return memory.read(4)
    raise AssertionError(f"{library} is not mapped")


def find_cudart() -> Path | None:
    """A real libcudart: of the wheel, or of a CUDA toolkit."""
    import importlib.util

    found = importlib.util.find_spec("nvidia")
    folders = [Path(p) for p in (found.submodule_search_locations or ()) if found] if found else []
    places = [f for folder in folders for f in folder.rglob("libcudart.so.1[23]")]
    places += [p for p in (Path("/usr/local/cuda/lib64/libcudart.so.13"),) if p.exists()]
    return next(iter(places), None)


def find_nvcc() -> str | None:
    return shutil.which("nvcc") or (
        "/usr/local/cuda/bin/nvcc" if os.access("/usr/local/cuda/bin/nvcc", os.X_OK) else None
    )


def wait_until(true: object, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
