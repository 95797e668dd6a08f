"""Faults of the machine under real commands: full disks, kills, crowds, clocks, forbidden folders.

    make attack                 after the campaign
    python tests/attack/faults.py --quick

Full disks and clocks are tried on fresh interpreters, crowds and kills also on forks of a process
that has loaded sightline (children.py): without the start of an interpreter the sixteen begin
within a millisecond, and a kill falls into the work itself. Clocks jump in three ways: recordings
from the past and the future, wall clocks that say another year at each look, and, where libfaketime
is installed, whole commands in other years.

Each fault must leave right answers, and nothing removed that is not sightline's: beside the cache
lies a tree of somebody's files, checked by hash at the end. A small disk needs permission to mount
one (root); without it files may not grow instead (RLIMIT_FSIZE).
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from attack.children import Place, await_child, load_ahead, start_forked  # noqa: E402
from support import traces as t  # noqa: E402

COMMAND = [sys.executable, "-m", "sightline.doors.cli.main"]
WORDS = ["stats", "kernels"]
FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"
COUNT = 24  # recordings, each with a kernel of its own name


def write_recordings(folder: Path) -> list[Path]:
    """Recordings that differ in a name only: one taken for another shows."""
    return [
        t.write(folder, [t.kernel(f"kernel_{n:02}", 0, 5), t.op("op", 0, 3)], f"trace{n:02}.json")
        for n in range(COUNT)
    ]


def write_canary(folder: Path) -> None:
    """Somebody's files, some with names that are like ours."""
    for name in (
        "thesis/chapter.txt", "run.json", "proj/run.json", f"{'0' * 32}/run.json", "seen/note",
        "answers/a.json", "scratch-1-mine/data", "using/1-x", "sightline-entry.json", "lock",
    ):  # fmt: skip
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"years of work {name}")


def hash_canary(folder: Path) -> dict[str, str]:
    """Their contents."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.read_bytes()[:13] == b"years of work"
    }


def ask(
    path: Path, cache: Path, before: Callable[[], None] | None = None, **more: str
) -> subprocess.Popen[str]:
    """Start a command that prints the names of a recording's kernels."""
    return subprocess.Popen(
        [*COMMAND, *WORDS, str(path), "--format", "csv"],
        env={**os.environ, "SIGHTLINE_CACHE": str(cache), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before,
        text=True,
    )


class Forked:
    """The same command in a fork of this process, with what is used of Popen."""

    def __init__(
        self,
        path: Path,
        cache: Path,
        folder: Path,
        begin: float = 0.0,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("out", "err"):
            (folder / name).write_bytes(b"")  # of one that is killed at once
        self.returncode: int | None = None
        self._place, self._began = Place(folder, cache, folder), time.monotonic()
        words = [*WORDS, str(path), "--format", "csv"]
        self._pid = start_forked(words, self._place, begin, prepare)

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        outcome = await_child(self._pid, self._began, self._place)
        self.returncode = -signal.SIGKILL if outcome.code is None else outcome.code
        self.returncode = 99 if outcome.hung else self.returncode
        return outcome.out.decode(), outcome.err


def judge(
    path: Path, asked: subprocess.Popen[str] | Forked, *, may_refuse: bool = False
) -> str | None:
    """What is wrong with an answer; None where nothing is."""
    out, err = asked.communicate()
    name = path.stem.replace("trace", "kernel_")
    others = [f"kernel_{n:02}" for n in range(COUNT) if f"kernel_{n:02}" != name]
    if any(other in out for other in others):
        return f"{path.name}: another recording's numbers"
    if asked.returncode == 0 and name not in out:
        return f"{path.name}: no answer, and exit 0"
    if asked.returncode not in (0, 2, -signal.SIGKILL):
        return f"{path.name}: exit {asked.returncode}: {err.strip()[-200:]}"
    if asked.returncode == 2 and not may_refuse:
        return f"{path.name}: refused: {err.strip()[-200:]}"
    return None


def limit_files(size: int) -> Callable[[], None]:
    """No file may be larger."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def fill_disk(recordings: list[Path], place: Path) -> list[str | None]:
    """Commands whose cache lies on a disk that is full, and after it has room again."""
    place.mkdir()
    wrong = []
    words = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    mounted = os.geteuid() == 0 and not subprocess.run(words, check=False).returncode
    try:
        cache = place / "cache"
        for path in recordings:
            before = None if mounted else limit_files(random.choice((0, 200, 3000)))
            wrong.append(judge(path, ask(path, cache, before), may_refuse=True))
        wrong += [judge(path, ask(path, cache)) for path in recordings]
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=False)
    return wrong


def fill_files(recordings: list[Path], cache: Path) -> list[str | None]:
    """Files that end at any size, then the same commands without a limit."""
    wrong = []
    for number, path in enumerate(recordings):
        for size in (0, 40, 700, 3_000)[number % 4 :][:1]:
            wrong.append(judge(path, ask(path, cache, limit_files(size)), may_refuse=True))
    return wrong + [judge(path, ask(path, cache)) for path in recordings]


def forbid_home(recordings: list[Path], place: Path) -> list[str | None]:
    """A home and a cache that cannot be written to, even by root: a file, or mounted read-only."""
    place.write_text("a file where the folder would be")
    wrong = [judge(p, ask(p, place / "cache", HOME=str(place))) for p in recordings[:6]]
    disk = place.with_name("read-only")
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "ro,size=200k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(words, check=False).returncode:
        return wrong
    try:
        # With a cache named there, and with the one that a home has.
        for path in recordings[:6]:
            home = {"HOME": str(disk), "XDG_CACHE_HOME": ""}
            wrong.append(judge(path, ask(path, disk / "cache", **home)))
            wrong.append(judge(path, ask(path, Path(), **home, SIGHTLINE_CACHE="")))
    finally:
        subprocess.run(["umount", str(disk)], check=False)
    return wrong


def kill_often(recordings: list[Path], cache: Path, place: Path, times: int) -> list[str | None]:
    """Commands that are killed at a random moment, and the same ones again."""
    rng = random.Random(5)
    wrong = []
    for n in range(times):
        path = rng.choice(recordings)
        shutil.rmtree(cache / "sightline-cache-1", ignore_errors=True)
        started = Forked(path, cache, place) if n % 2 else ask(path, cache)
        time.sleep(rng.uniform(0.0, 0.3 if n % 2 else 1.2))
        started.kill()
        started.communicate()
        # A fork first: it reads what the killed one has left, as a fresh command does.
        wrong.append(judge(path, Forked(path, cache, place)))
        if n % 10 == 0:
            wrong.append(judge(path, ask(path, cache)))
    return wrong


def crowd(recordings: list[Path], cache: Path, place: Path, times: int) -> list[str | None]:
    """Sixteen first openings of one recording at once; every tenth time by fresh interpreters."""
    wrong = []
    for n in range(times):
        path = recordings[n % len(recordings)]
        shutil.rmtree(cache / "sightline-cache-1", ignore_errors=True)
        if n % 10 == 0:
            wrong += [judge(path, one) for one in [ask(path, cache) for _ in range(16)]]
            continue
        begin = time.monotonic() + 0.3
        started = [Forked(path, cache, place / str(k), begin) for k in range(16)]
        wrong += [judge(path, one) for one in started]
    return wrong


def change_in_place(recordings: list[Path], cache: Path) -> list[str | None]:
    """Recordings from the future and the past, changed in place with the same size and times."""
    wrong = []
    for moment in (10**9, 4 * 10**18, time.time_ns() + 3600 * 10**9):
        one, two = recordings[0], recordings[1]
        held = cache.parent / one.name
        shutil.copy(one, held)
        os.utime(held, ns=(moment, moment))
        wrong.append(judge(one, ask(held, cache)))
        held.write_bytes(two.read_bytes())
        os.utime(held, ns=(moment, moment))
        answer = ask(held, cache).communicate()[0]
        changed = "kernel_01" in answer and "kernel_00" not in answer
        wrong.append(None if changed else f"clock at {moment}: the numbers of before the change")
        held.unlink()
    return wrong


def jump_within() -> None:
    """In a child: the wall clock says another year at each look."""
    rng, real = random.Random(7), time.time_ns
    years = 365 * 86400 * 10**9

    def jump() -> int:
        return real() + rng.choice((-30, -1, 0, 1, 200)) * years

    time.time_ns, time.time = jump, lambda: jump() / 1e9


def move_clock(recordings: list[Path], cache: Path, place: Path) -> list[str | None]:
    """Commands on clocks that jump, between them and within."""
    wrong = []
    library = next(iter(glob.glob(FAKETIME)), None)
    for path in recordings:
        shutil.rmtree(cache / "sightline-cache-1", ignore_errors=True)
        for _ in range(2):
            wrong.append(judge(path, Forked(path, cache, place, prepare=jump_within)))
        for shift in ("+20y", "-20y", "+0") if library is not None else ():
            more = {"LD_PRELOAD": str(library), "FAKETIME": shift, "FAKETIME_NO_CACHE": "1"}
            wrong.append(judge(path, ask(path, cache, **more)))
        wrong.append(judge(path, ask(path, cache)))
    return wrong + change_in_place(recordings, cache)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few of each")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="sightline-faults-") as place:
        folder = Path(place)
        recordings = write_recordings(folder / "recordings")
        recordings = recordings[:4] if quick else recordings
        ahead = folder / "ahead"
        ahead.mkdir()
        load_ahead([[*WORDS, str(recordings[0])]], Place(ahead, ahead / "cache", ahead))
        cache = folder / "scratch"
        write_canary(cache)
        time.sleep(2.2)  # memos are made of files that have rested
        ask(recordings[0], cache).communicate()
        write_canary(cache / "sightline-cache-1" / "mine")
        kept = {
            k: v for k, v in hash_canary(cache).items() if not k.startswith("sightline-cache-1")
        }
        faults: dict[str, Callable[[], list[str | None]]] = {
            "full disk": lambda: fill_disk(recordings, folder / "disk"),
            "files that end": lambda: fill_files(recordings, cache),
            "home not to be written": lambda: forbid_home(recordings, folder / "home"),
            "kills": lambda: kill_often(recordings, cache, folder / "fork", 6 if quick else 50),
            "first openings at once": lambda: crowd(
                recordings, cache, folder / "crowd", 2 if quick else 100
            ),
            "clocks": lambda: move_clock(recordings[: 2 if quick else 8], cache, folder / "clock"),
            "small cache": lambda: [
                judge(p, ask(p, cache, SIGHTLINE_CACHE_BYTES="1")) for p in recordings
            ],
        }
        bad: list[str] = []
        print(f"{'fault':<26}{'commands':>10}{'wrong':>8}")
        for name, run in faults.items():
            found = run()
            wrong = [w for w in found if w is not None]
            bad += wrong
            print(f"{name:<26}{len(found):>10}{len(wrong):>8}", flush=True)
        clear = [*COMMAND, "cache", "clear"]
        subprocess.run(clear, env={**os.environ, "SIGHTLINE_CACHE": str(cache)}, check=True)
        after = hash_canary(cache)
        gone = [name for name in kept if after.get(name) != kept[name]]
        print(f"{'foreign files':<26}{len(kept):>10}{len(gone):>8}")
        for text in [*bad, *(f"removed or changed: {name}" for name in gone)][:20]:
            print(text)
    return 1 if bad or gone else 0


if __name__ == "__main__":
    sys.exit(main())
