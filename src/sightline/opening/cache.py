"""The cache of imports: one small store per recording, keyed by what the recording contains.

    sightline-cache-1/          in the folder that SIGHTLINE_CACHE names
      (core/model/cache_folder.py) 0f3a…/  serve-7c1b…/      entries: folders with a signed marker
      (cache_entry.py) answers/  seen/           small files that say of themselves whether they are
      whole added                     bytes of the entries since the last trimming
      using/                    which entries each running process reads
      scratch-PID-…/            what is being made (scratch.py)

An entry appears by one rename and is never written to again. What cannot be verified is made
again, and what carries no marker of ours is never removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from sightline.core.model.cache_folder import (
    find_cache_folder,
    is_temporary,
    list_cache_folders,
    open_cache_folder,
)
from sightline.errors import StoreError
from sightline.opening.answers import read_answer
from sightline.opening.cache_entry import measure_entry, read_marker, verify_entry, write_marker
from sightline.opening.content import read_memo
from sightline.opening.scratch import is_abandoned, make_scratch, remove_scratch

try:
    import fcntl
except ImportError:  # no such locks on Windows: processes do not see each other there
    fcntl = None  # type: ignore[assignment]

DEFAULT_LIMIT_BYTES = 20 * 10**9

# The cache may outgrow its limit by a twentieth, or by so many small entries.
_SHARE, _ADDED_LINES, _ADDED_BYTES = 20, 10_000, 1 << 20
_MANY = 20_000  # memos of 65 bytes each, after which trimming looks at them, too
_in_use: dict[Path, set[str]] = {}  # by folder: entries that this process reads
_notes: dict[Path, int] = {}  # by folder: the locked file that tells other processes


def name_entry(content: str, salt: str) -> str:
    """Name of the cache entry for a file's content, read by the importer that `salt` describes."""
    return hashlib.blake2b(f"{content} {salt}".encode(), digest_size=16).hexdigest()


def find_entry(name: str, content: str | None) -> Path | None:
    """The whole entry of that name, made of that content; it stays while this process runs."""
    for folder in list_cache_folders():
        with _locked(folder, exclusive=False):
            _note_use(folder, name)
            if verify_entry(folder / name, name, content):
                with contextlib.suppress(OSError):
                    os.utime(folder / name)
                return folder / name
    return None


def keep_entry(name: str, content: str | None, make: Callable[[Path], None]) -> Path:
    """Have an entry made in an empty folder, and put it in place. Raises StoreError, as `make`.

    What another process put there meanwhile is taken, if it is whole.
    """
    folder = open_cache_folder()
    try:
        scratch = make_scratch(folder)
    except OSError as error:
        raise _explain_unwritable(folder, error) from error
    try:
        make(scratch)
        write_marker(scratch, name, content)
        with _locked(folder, exclusive=False):
            _note_use(folder, name)
            _put_in_place(scratch, folder / name, content)
    except OSError as error:
        raise _explain_unwritable(folder, error) from error
    finally:
        remove_scratch(scratch)
    for found in os.listdir(folder):  # noqa: PTH208  # of thousands, few become a path
        if found.startswith("scratch-") and is_abandoned(folder / found):  # of processes that died
            remove_scratch(folder / found / "work")
    if not is_temporary(folder):
        _trim_when_due(folder, folder / name)
    return folder / name


def _put_in_place(scratch: Path, entry: Path, content: str | None) -> None:
    """One rename. Of two writers at once the first wins; what is not a whole entry makes room.

    A damaged entry of ours is removed; what carries no marker is kept under another name.
    """
    for _ in range(10):
        try:
            scratch.rename(entry)
            return
        except OSError:
            if not entry.exists() and not entry.is_symlink():
                raise
        if verify_entry(entry, entry.name, content):
            return
        with contextlib.suppress(OSError):
            if read_marker(entry) is None:
                away = Path(tempfile.mkdtemp(prefix="not-ours-", dir=entry.parent))
                entry.rename(away / entry.name)
            else:
                room = make_scratch(entry.parent)
                entry.rename(room / "damaged")
                remove_scratch(room)
    raise OSError(17, "another process writes the same entry")


def _explain_unwritable(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write to the cache in {folder}",
        why=(error.strerror or str(error)).lower(),
        hint="Name a folder with room:  SIGHTLINE_CACHE=FOLDER sightline ...",
    )


def forget_use() -> None:
    """Read nothing any more: other processes may remove what this one has opened."""
    _in_use.clear()
    while _notes:
        os.close(_notes.popitem()[1])


def _note_use(folder: Path, name: str) -> None:
    """Tell other processes that an entry is read by this one, for as long as it runs."""
    _in_use.setdefault(folder, set()).add(name)
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        if folder not in _notes:
            (folder / "using").mkdir(exist_ok=True, mode=0o700)
            descriptor, _ = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=folder / "using")
            _notes[folder] = descriptor
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(_notes[folder], f"{name}\n".encode())


def _list_in_use(folder: Path) -> set[str]:
    """Entries that this process or another one reads; the notes of ended ones are removed."""
    names = set(_in_use.get(folder, ()))
    using = folder / "using"
    for note in using.iterdir() if using.is_dir() and fcntl is not None else ():
        with contextlib.suppress(OSError), note.open("rb") as file:
            names_there = set(file.read().decode("ascii", "replace").split())
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                names |= names_there
            else:
                note.unlink()
    return names


@contextlib.contextmanager
def _locked(folder: Path, *, exclusive: bool) -> Iterator[None]:
    """No entry is removed while another process looks for one. Where nothing can be locked: as is.

    Entries are verified when they are taken, so that a file system without locks costs an error
    message at worst.
    """
    descriptor = None
    if fcntl is not None:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _trim_when_due(folder: Path, entry: Path) -> None:
    """Trim when a twentieth of the limit was added since the last time.

    Looking at all entries takes a second where there are hundreds: not with each new one.
    """
    limit = _find_limit()
    added = folder / "added"
    with contextlib.suppress(OSError):
        with added.open("ab") as file:
            file.write(f"{measure_entry(entry)}\n".encode())
        with added.open("rb") as file:
            sizes = [int(n) for n in file.read(_ADDED_BYTES).split() if n.isdigit()]
        if _SHARE * sum(sizes) < limit and len(sizes) < _ADDED_LINES:
            return
        added.unlink()
    trim_cache(limit)


def _find_limit() -> int:
    text = os.environ.get("SIGHTLINE_CACHE_BYTES", "")
    return int(text) if text.isdecimal() else DEFAULT_LIMIT_BYTES


def trim_cache(limit_bytes: int | None = None) -> None:
    """Remove the entries used longest ago until the rest fits SIGHTLINE_CACHE_BYTES."""
    _remove(_find_limit() if limit_bytes is None else limit_bytes)


def clear_cache() -> int:
    """Remove all that is ours and that no process reads; the number of bytes that were freed."""
    folder = find_cache_folder()
    forget_use()
    freed = _remove(0)
    with contextlib.suppress(OSError):
        for name in ("using", "seen", "answers"):
            if (folder / name).is_dir():
                (folder / name).rmdir()
        rest = {p.name for p in folder.iterdir()}
        if rest <= {"lock", "added", "CACHEDIR.TAG"}:
            for name in rest:
                (folder / name).unlink()
            folder.rmdir()
    return freed


def _remove(limit_bytes: int) -> int:
    """Remove what is ours down to a limit; the number of bytes. Foreign files stay where they are.

    What goes is renamed first, so that no reader finds half an entry.
    """
    folder = find_cache_folder()
    if folder not in list_cache_folders():
        return 0
    freed = 0
    gone: list[Path] = []
    with _locked(folder, exclusive=True):
        used = _list_in_use(folder)
        sizes: list[tuple[float, int, Path]] = []
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if (marker := read_marker(path)) is not None and marker["name"] == path.name:
                    sizes.append((path.stat().st_mtime, measure_entry(path), path))
                elif is_abandoned(path):
                    gone.append(path / "work")
        sizes += _list_small(folder, "answers", read_answer)
        with contextlib.suppress(OSError):
            if not limit_bytes or sum(1 for _ in (folder / "seen").iterdir()) > _MANY:
                sizes += _list_small(folder, "seen", read_memo)
        total = 0
        for _, size, path in sorted(sizes, reverse=True):
            total += size
            if total <= limit_bytes or path.name in used:
                continue
            freed += size
            with contextlib.suppress(OSError):
                if path.is_dir():
                    room = make_scratch(folder)
                    gone.append(room)
                    path.rename(room / "entry")
                else:
                    path.unlink()
    for path in gone:
        remove_scratch(path)
    return freed


def _list_small(
    folder: Path, name: str, is_ours: Callable[[Path], object]
) -> list[tuple[float, int, Path]]:
    """Answers or memos that are ours: they say so themselves."""
    found = []
    for path in (folder / name).glob("*"):
        with contextlib.suppress(OSError):
            if is_ours(path) is not None:
                stat = path.stat()
                found.append((stat.st_mtime, stat.st_size, path))
    return found
