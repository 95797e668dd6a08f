"""Whom to probe, and names that need no kernel: containers, stubs, memory, mapped files."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from record.probe.programs import Target
from sightline.record.probe.names import ProcessNames, SymbolFiles, name_of_stub, strip_stub
from sightline.record.probe.processes import (
    Memory,
    Root,
    find_file,
    is_running,
    list_container,
    list_descendants,
    read_environment,
    read_mappings,
)


@pytest.mark.parametrize("form", ["docker-{}.scope", "{}", "cri-containerd-{}.scope"])
def test_processes_of_a_container(form: str) -> None:
    """A real control group with the name that a container engine would give it."""
    places = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
    groups = next((p for p in places if (p / "cgroup.procs").is_file()), None)
    if groups is None:
        pytest.skip("there is no unified hierarchy of control groups")
    container = secrets.token_hex(32)  # of its own: other tests run beside this one
    group = groups / form.format(container)
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error.strerror}")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        try:
            (group / "cgroup.procs").write_text(str(child.pid))
        except OSError as error:
            pytest.skip(f"no process can be put into a control group: {error.strerror}")
        assert list_container(container) == [child.pid]
        assert list_container(container[:12]) == [child.pid]
        assert list_container(container[1:13]) == []
        assert list_container("f" * 12) == []
    finally:
        child.communicate()
        group.rmdir()


def test_descendants_that_still_run() -> None:
    script = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '60']);"
        " print(p.pid, flush=True); input(); p.kill(); p.wait()"
    )
    with Target(sys.executable, "-c", script) as target:
        pids = list_descendants(target.pid)
        assert pids[0] == target.pid and len(pids) == 2
        target.tell("")
        target.process.wait(10)
        assert not is_running(target.pid) and list_descendants(target.pid) == []


def test_files_are_found_when_they_were_deleted_or_replaced(tmp_path: Path, program: Path) -> None:
    copy = tmp_path / "libcopy.so"
    shutil.copy(program.parent / "libcuda.so.1", copy)
    library = ctypes.CDLL(str(copy))
    assert library
    me = os.getpid()
    mapping = next(m for m in read_mappings(me) if m.path.endswith("libcopy.so") and m.executable)
    first = find_file(me, mapping)
    assert first is not None and Path(first.path).read_bytes() == copy.read_bytes()
    other = tmp_path / "other"
    other.write_bytes(b"something else")
    other.replace(copy)
    mapping = next(m for m in read_mappings(me) if "libcopy.so" in m.path and m.executable)
    if os.geteuid() != 0:
        pytest.skip("only root opens what is mapped and has no name")
    found = find_file(me, mapping)
    assert found is not None
    assert Path(found.path).read_bytes() == (program.parent / "libcuda.so.1").read_bytes()


def test_a_root_is_held_when_its_process_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    root = Root(child.pid)
    child.communicate()
    assert Path(root.path, "etc").is_dir()
    with pytest.raises(OSError, match="No such"):
        Root(child.pid)


def test_texts_in_memory() -> None:
    long = ctypes.create_string_buffer(b"_Z" + b"x" * 9000)
    memory = Memory(os.getpid())
    assert memory.read_text(ctypes.addressof(long)) == "_Z" + "x" * 9000
    assert memory.read_text(8) is None
    assert memory.read(ctypes.addressof(long), 2) == b"_Z"
    assert memory.read(1 << 70, 2) == b""


def test_names_of_stubs() -> None:
    """Symbols of programs that nvcc 13.0 and hipcc made."""
    assert name_of_stub("_ZZ28__device_stub__Z5saxpyifPfS_ifPfS_E8__handle") == "_Z5saxpyifPfS_"
    template = "_ZZL33__device_stub__Z5scaleIfEvPT_S0_iPffiE8__handle"
    assert name_of_stub(template) == "_Z5scaleIfEvPT_S0_i"
    assert name_of_stub("_ZZ4mainE8__handle") is None
    assert strip_stub("_Z20__device_stub__saxpyifPfS_") == "_Z5saxpyifPfS_"
    assert strip_stub("_Z5saxpyifPfS_") == "_Z5saxpyifPfS_"


def test_handles_lead_to_names() -> None:
    names = ProcessNames(os.getpid(), SymbolFiles())
    names.tell(0x10, "_Z5saxpyifPfS_")
    names.tell_same(0x20, 0x10)
    names.tell_same(0x30, 0x20)
    assert [names.find_kernel(h) for h in (0x10, 0x20, 0x30, 0x40)] == ["_Z5saxpyifPfS_"] * 3 + [
        None
    ]
    names.tell_same(0x50, 0x60)
    names.tell_same(0x60, 0x50)  # a program that says so hangs nobody
    assert names.find_kernel(0x50) is None


def test_environments() -> None:
    with Target(sys.executable, "-c", "print(1, flush=True); input()") as target:
        assert read_environment(target.pid).get("PATH") == os.environ.get("PATH")
    assert read_environment(4_190_000) == {}
