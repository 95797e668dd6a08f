"""Processes and containers, the files that they have mapped, and what their memory says.

proc(5): /proc/PID/maps, map_files, mem, environ, cgroup. All of it may vanish while it is read.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from sightline.core.foreign_files import Descriptor, open_file, open_folder

_LINE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) (....) ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+) +(/.*)$"
)
_DELETED = " (deleted)"


@dataclass(frozen=True)
class Mapping:
    """A part of a file in a process's memory."""

    start: int
    end: int
    offset: int  # in the file
    device: str
    inode: int
    path: str  # as the process sees it
    executable: bool

    @property
    def file(self) -> tuple[str, int]:
        """What tells files apart, whatever they are called."""
        return self.device, self.inode


def read_mappings(pid: int) -> list[Mapping]:
    """All mapped files of a process; none where it has ended. Raises PermissionError."""
    try:
        content = Path(f"/proc/{pid}/maps").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    found = []
    for line in content.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        start, end, rights, offset, device, inode, path = match.groups()
        found.append(
            Mapping(
                int(start, 16), int(end, 16), int(offset, 16), device.decode(), int(inode),
                os.fsdecode(path), b"x" in rights,
            )
        )  # fmt: skip
    return found


class Root(Descriptor):
    """The root folder of a process, held so that its files are found when it has ended."""

    def __init__(self, pid: int) -> None:
        """Raise OSError where the process has ended."""
        super().__init__(os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC))


def find_file(pid: int, mapping: Mapping, root: Root | None = None) -> Descriptor | None:
    """The mapped file, opened for reading; None where it cannot be opened from here any more.

    By its own path from its root, if that is still the same file: it may have been replaced, and a
    container may have mounted something over it.
    """
    folder, name = os.path.split(mapping.path.removesuffix(_DELETED))
    with contextlib.suppress(OSError):
        top = Root(pid) if root is None else root
        found = open_file(name, open_folder(folder, top))
        if os.fstat(found.number).st_ino == mapping.inode:
            return found
    with contextlib.suppress(OSError):
        area = f"{mapping.start:x}-{mapping.end:x}"
        link = Descriptor(os.open(f"/proc/{pid}/map_files/{area}", os.O_PATH | os.O_CLOEXEC))
        if stat.S_ISREG(os.fstat(link.number).st_mode):  # to open a device may do something
            return Descriptor(os.open(link.path, os.O_RDONLY | os.O_CLOEXEC))
    return None


def list_descendants(pid: int) -> list[int]:
    """The process and all that it started, of these the ones that still run."""
    try:
        found = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []
    return [process for process in found if is_running(process)]


def list_container(name: str) -> list[int]:
    """The processes of a container: `name` is its id, or its first 12 characters or more.

    Docker, containerd, CRI-O and Podman put the id into the name of the control group
    (docker-ID.scope, /docker/ID, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope).
    """
    part = re.compile(rf"(?:^|[/\-:]){re.escape(name)}[0-9a-f]*(?:\.scope)?(?:/|$)", re.MULTILINE)
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if part.search(Path(f"/proc/{pid}/cgroup").read_text()):
                found.append(pid)
    return found


def is_running(pid: int) -> bool:
    """Whether the process has not ended; one that only waits to be reaped has."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def read_environment(pid: int, root: Path = Path("/")) -> dict[str, str]:
    """The variables that the process was started with; none where they cannot be read."""
    try:
        content = (root / f"proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in content.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


class Memory:
    """The memory of a process, read-only. Nothing in it stops the process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def read(self, address: int, size: int) -> bytes:
        """Up to `size` bytes; none where there is nothing or the process has ended."""
        try:
            file = os.open(f"/proc/{self._pid}/mem", os.O_RDONLY)
        except OSError:
            return b""
        try:
            return os.pread(file, size, address)
        except (OSError, OverflowError):
            return b""
        finally:
            os.close(file)

    def read_words(self, addresses: list[int]) -> list[int]:
        """The 8-byte number at each address; 0 where nothing is mapped or the process has ended."""
        try:
            file = os.open(f"/proc/{self._pid}/mem", os.O_RDONLY)
        except OSError:
            return [0] * len(addresses)
        try:
            return [_read_word(file, address) for address in addresses]
        finally:
            os.close(file)

    def read_text(self, address: int, most: int = 1 << 16) -> str | None:
        """The text at an address up to its end; None where there is none."""
        found = b""
        for piece in self._pages(address, most):
            end = piece.find(b"\0")
            if end >= 0:
                return (found + piece[:end]).decode(errors="replace")
            found += piece
        return None

    def _pages(self, address: int, most: int) -> Iterator[bytes]:
        """Pieces that end with a page: what follows may not be mapped."""
        read = 0
        while read < most:
            piece = self.read(address + read, 4096 - (address + read) % 4096)
            if not piece:
                return
            read += len(piece)
            yield piece


def _read_word(file: int, address: int) -> int:
    try:
        found = os.pread(file, 8, address)
    except (OSError, OverflowError):
        return 0
    return int.from_bytes(found, "little") if len(found) == 8 else 0


def find_own_number(pid: int) -> int:
    """The process's number as it sees it itself, in its container."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return pid
    numbers = re.search(r"^NSpid:\s+(.*)$", status, re.MULTILINE)
    return int(numbers[1].split()[-1]) if numbers else pid
