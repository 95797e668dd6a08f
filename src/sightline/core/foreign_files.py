"""Files in folders of another user: reached so that their owner cannot lead us elsewhere.

Whoever owns a folder may put a link in the place of any name in it, and of the folder itself,
between two steps of ours. What root then does by path (chmod, read, write, unlink) it does to a
file of root's. So folders and files are opened once, checked, and used by their descriptors; and
what has to be done by name is done with that user's rights (`act_as`), who gains nothing by it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import re
import secrets
import stat
import threading
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")
_MOST_LINKS = 40  # as Linux has it (MAXSYMLINKS, include/linux/namei.h)
# setgroups(2) of the calling thread alone; the function of the C library changes all threads.
# arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h
_SETGROUPS = {"x86_64": 116, "aarch64": 159}
_CAPABILITY_VERSION_3 = 0x20080522  # include/uapi/linux/capability.h


class Descriptor:
    """A file or folder that is held open until this object goes."""

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def path(self) -> str:
        """A path that names what is held and nothing else, as long as this object is there."""
        return f"/proc/self/fd/{self.number}"

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self.number)


@dataclass(frozen=True)
class Owner:
    """A user, with the groups that a process of theirs has."""

    user: int
    group: int
    groups: tuple[int, ...] = ()


def find_owner(pid: int) -> Owner:
    """Whose a process is: its effective user and groups (proc(5), status). Raises OSError."""
    status = Path(f"/proc/{pid}/status").read_text()
    numbers = {
        name: [int(number) for number in re.findall(r"\d+", rest)]
        for name, rest in re.findall(r"^(Uid|Gid|Groups):(.*)$", status, re.MULTILINE)
    }
    return Owner(numbers["Uid"][1], numbers["Gid"][1], tuple(numbers["Groups"]))


def act_as(owner: Owner, work: Callable[[], _T]) -> _T:
    """Do something with a user's rights to files and no others; returns and raises what it does.

    A thread of its own gives up all other rights, and ends with them: there is nothing to restore,
    and the rest of the process keeps its own. To signals and to ptrace the process stays root's.
    Raises PermissionError where rights cannot be given up; a user's own work is done as it is.
    """
    if os.geteuid() == owner.user:
        return work()
    done: Future[_T] = Future()

    def run() -> None:
        try:
            _give_up_rights(owner)
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="sightline-as-owner", daemon=True)
    thread.start()
    thread.join()
    return done.result()


def _give_up_rights(owner: Owner) -> None:
    """Leave the calling thread the rights of a user: groups first, as only root may set them."""
    library = ctypes.CDLL(None, use_errno=True)
    groups = (ctypes.c_uint32 * len(owner.groups))(*owner.groups)
    number = _SETGROUPS.get(platform.machine())
    done = number is not None and not library.syscall(number, len(groups), groups)
    library.setfsgid(ctypes.c_uint32(owner.group))
    library.setfsuid(ctypes.c_uint32(owner.user))
    # Both return what was there before; -1 is nobody and changes nothing (setfsuid(2)).
    done = done and library.setfsgid(ctypes.c_uint32(-1)) == owner.group
    done = done and library.setfsuid(ctypes.c_uint32(-1)) == owner.user
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if not done or library.capset(head, (ctypes.c_uint32 * 6)()):
        raise PermissionError(errno.EPERM, f"cannot switch to user {owner.user}")


def open_folder(path: str, root: Descriptor | None = None) -> Descriptor:
    """A folder below `root` (else below "/"), as who lives in that root sees it.

    Links lead to what they say and never out of the root, whatever is renamed meanwhile; those of
    /proc, which lead to open files, are texts here. Raises OSError.
    """
    top = "/" if root is None else root.path
    walked = [Descriptor(os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))]
    left, links = path.split("/")[::-1], 0
    while left:
        name = left.pop()
        if name == "..":
            del walked[max(len(walked) - 1, 1) :]  # not by the folder's own "..", which may move
        if name in ("", ".", ".."):
            continue
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        entry = Descriptor(os.open(name, flags, dir_fd=walked[-1].number))
        if not stat.S_ISLNK(os.fstat(entry.number).st_mode):
            walked.append(entry)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        text = os.readlink("", dir_fd=entry.number)
        left += text.split("/")[::-1]
        if text.startswith("/"):
            del walked[1:]
    if not stat.S_ISDIR(os.fstat(walked[-1].number).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return walked[-1]


def open_file(name: str, folder: Descriptor, users: Container[int] | None = None) -> Descriptor:
    """A regular file in a folder, for reading; of one of these users, where they are named.

    Raises OSError; PermissionError for a link, a pipe or a device: they lead elsewhere, make who
    opens them wait, or do something when they are opened.
    """
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    entry = Descriptor(os.open(name, flags, dir_fd=folder.number))
    state = os.fstat(entry.number)
    if not stat.S_ISREG(state.st_mode) or (users is not None and state.st_uid not in users):
        raise PermissionError(errno.EPERM, "it is not the program's own file", name)
    return Descriptor(os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC))


@contextlib.contextmanager
def hold_folder(folder: Path) -> Iterator[Path]:
    """A path of a folder of ours that stays the same folder, whoever owns those above it.

    As long as it is held, other processes of root may use the path as well. Of users other than
    root, who have nothing to give away, the path is the folder's own. Raises OSError, also where
    the folder is another user's, who could put links into it.
    """
    if os.geteuid() != 0:
        yield folder
        return
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = Descriptor(os.open(folder, flags))
    if not _is_ours(held):
        why = "it belongs to another user, who could lead root's files elsewhere"
        raise PermissionError(errno.EPERM, why, str(folder))
    yield Path(f"/proc/{os.getpid()}/fd/{held.number}")


def _is_ours(folder: Descriptor) -> bool:
    """Whether a folder is root's, or of whom the file system takes root for (NFS, root_squash)."""
    user = os.fstat(folder.number).st_uid
    if user == 0:
        return True
    name = f".owner-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    made = Descriptor(os.open(name, flags, 0o600, dir_fd=folder.number))
    os.unlink(name, dir_fd=folder.number)
    return os.fstat(made.number).st_uid == user
