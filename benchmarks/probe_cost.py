"""What a probed call costs a program: python benchmarks/probe_cost.py [--rounds 20]. Needs root.

A program calls a function of a library (tests/record/probe/fake_gpu.c), which takes 1 ns, many
times: as it is, probed by each backend of `sightline probe`, and by bpftrace with a map, with which
it is compared. All ways in turn, of each the fastest of the rounds: others use the processors, too.
Then what a probe costs on other first instructions, by bpftrace: the kernel has to step over some.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from probe.programs import Target, build_program, compile_c, read_code, wait_until  # noqa: E402

from sightline.record.probe.backend import Backend  # noqa: E402
from sightline.record.probe.bpf import Programs  # noqa: E402
from sightline.record.probe.perf import Samples  # noqa: E402
from sightline.record.probe.targets import Targets  # noqa: E402

CALLS = 50_000
FUNCTION = "cudaMemcpyAsync"
INSTRUCTIONS = {
    "push %rbp": "push %rbp\n pop %rbp", "nop": "nop", "nop of 5 bytes": ".byte 0x0f,0x1f,0x44,0,0",
    "jmp": "jmp 1f\n1:", "call": "call 1f\n ret\n1:", "endbr64": "endbr64", "sub": "sub $8,%rsp\n"
    " add $8,%rsp", "mov": "mov %rdi,%rax", "xor": "xor %eax,%eax",
}  # fmt: skip


@contextmanager
def probed(target: Target, make: Callable[[], Backend]) -> Iterator[None]:
    """The function probed, and its records read as they come."""
    backend = make()
    (library,) = [x for x in Targets().find(target.pid) if x.path.endswith("libcudart.so.13")]
    site = next(s for s in library.sites if s.function.name == FUNCTION)
    backend.tell_function(0, site.function)
    assert not backend.attach(library.opened, [(site, 0)], target.pid)
    stop = threading.Event()

    def drain() -> None:
        while not stop.wait(0.02):
            backend.read_calls()

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()
        backend.close()


@contextmanager
def traced(target: Target, folder: Path) -> Iterator[None]:
    """What sightline counts, by bpftrace: calls, bytes and time of a function."""
    place = f"{folder / 'libcudart.so.13'}:{FUNCTION}"
    script = (
        f"uprobe:{place} {{ @start[tid] = nsecs; @bytes = sum(arg2); }} uretprobe:{place} "
        "/@start[tid]/ { @calls = count(); @time = sum(nsecs - @start[tid]); delete(@start[tid]); }"
    )
    command = ["bpftrace", "-f", "json", "-p", str(target.pid), "-e", script]
    tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (library,) = [x for x in Targets().find(target.pid) if x.path.endswith("libcudart.so.13")]
    offset = next(s.offset for s in library.sites if s.function.name == FUNCTION)
    # It says that it has attached its probes before it has.
    wait_until(lambda: read_code(target.pid, "libcudart.so.13", offset)[0] == 0xCC)
    try:
        yield
    finally:
        tracer.kill()  # it does not always end when it is asked to
        tracer.wait()


@contextmanager
def bare() -> Iterator[None]:
    yield


def measure_instructions(folder: Path) -> dict[str, float]:
    """ns of a call whose first instruction is this one, with an empty probe of bpftrace's."""
    lines = ["#include <stdio.h>", "#include <time.h>"]
    names = [f"first_{n}" for n in range(len(INSTRUCTIONS))]
    for name, code in zip(names, INSTRUCTIONS.values(), strict=True):
        text = json.dumps(f"{code}\n ret")
        lines.append(f"__attribute__((naked, noinline)) void {name}(void) {{ __asm__({text}); }}")
    lines.append("int main(void) { struct timespec a, b; long n = 20000;")
    for name in names:
        lines.append(
            f"clock_gettime(CLOCK_MONOTONIC, &a); for (long i = 0; i < n; i++) {name}();"
            "clock_gettime(CLOCK_MONOTONIC, &b);"
            'printf("%.1f\\n", ((b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec) / n);'
        )
    lines.append("}")
    (folder / "first.c").write_text("\n".join(lines))
    compile_c(folder / "first", folder / "first.c", "-O1")
    script = f"uprobe:{folder / 'first'}:first_* {{ @ = count(); }}"
    done = subprocess.run(
        ["bpftrace", "-e", script, "-c", str(folder / "first")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    numbers = [line for line in done.stdout.splitlines() if line.replace(".", "").isdigit()]
    return dict(zip(INSTRUCTIONS, map(float, numbers), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        target = Target(build_program(folder))
        ways: dict[str, Callable[[], object]] = {
            "not probed": bare,
            "eBPF, a record of each call": lambda: probed(target, Programs),
            "eBPF, counted only": lambda: probed(target, lambda: Programs(calls=False, sizes=True)),
            "eBPF, with stacks": lambda: probed(target, lambda: Programs(stacks=True)),
            "eBPF, a link for each probe": lambda: probed(target, lambda: Programs(together=False)),
            "perf_event": lambda: probed(target, Samples),
        }
        if shutil.which("bpftrace"):
            ways["bpftrace: calls, bytes, time"] = lambda: traced(target, folder)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds + 1):
            for name, way in ways.items():
                with way():  # type: ignore[attr-defined]
                    found[name].append(target.do(f"c{CALLS}"))
        target.end()
        print(f"{'a call, entry and return':<34}{'ns':>8}{'of bpftrace':>14}")
        fastest = {name: min(times) for name, times in found.items()}
        base = fastest.get("bpftrace: calls, bytes, time")
        for name, ns in fastest.items():
            print(f"{name:<34}{ns:>8.1f}" + (f"{ns / base:>14.2f}" if base else ""))
        if shutil.which("bpftrace"):
            print(f"\n{'first instruction (entry only)':<34}{'ns':>8}")
            for name, ns in measure_instructions(folder).items():
                print(f"{name:<34}{ns:>8.1f}")


if __name__ == "__main__":
    main()
