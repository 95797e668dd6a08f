"""The cache never gives another recording's numbers, and never removes what is not its own."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.opening import cache
from sightline.opening.cache import forget_use
from support import traces as t
from support.command import Outcome, sightline

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and locks of Linux")


def run(*words: str | Path, cache: Path) -> Outcome:
    """A command, as if it were the next one of a person who types."""
    forget_use()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_CACHE", str(cache))
        return sightline(*words)


def run_on_full_disk(*words: str | Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """A command whose files may not have a single byte, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "sightline.doors.cli.main", *map(str, words)],
        env={**os.environ, "SIGHTLINE_CACHE": str(cache)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        capture_output=True,
        text=True,
        check=False,
    )


def kernels(path: Path, cache: Path) -> str:
    """The names of its kernels, as `sightline sql` prints them."""
    done = run("sql", path, "SELECT name FROM device_ops", "--format", "csv", cache=cache)
    assert done.code == 0, done.err
    return done.out.split("\n", 1)[1].strip()


def age(*paths: Path) -> None:
    """As if the files had been written a while ago: their hashes are remembered only then."""
    import time

    time.sleep(2.1 - min(2.0, time.time() - max(p.stat().st_ctime for p in paths)))


def contents(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def test_full_disk_makes_no_recording_another(tmp_path: Path) -> None:
    """Where memos of hashes come out empty, all recordings had one key."""
    cache = tmp_path / "cache"
    one = t.write(tmp_path, [t.kernel("one", 0, 1)], "one.json")
    two = t.write(tmp_path, [t.kernel("two", 0, 1)], "two.json")
    age(one, two)
    for path in (one, two):
        run_on_full_disk("stats", "kernels", path, cache=cache)
    assert kernels(one, cache) == "one"
    assert kernels(two, cache) == "two"
    assert kernels(one, cache) == "one"


def test_full_disk_is_not_the_recordings_fault(tmp_path: Path) -> None:
    path = t.write(tmp_path, [t.kernel("one", 0, 1)])
    done = run_on_full_disk("stats", "kernels", path, cache=tmp_path / "cache")
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "cannot read" not in done.stderr


def test_a_byte_that_changed_in_the_middle_of_a_large_entry(tmp_path: Path) -> None:
    room = tmp_path / "cache"
    names = [hashlib.sha256(b"%d" % n).hexdigest() for n in range(30_000)]
    path = t.write(tmp_path, [t.kernel(name, n * 10, 5) for n, name in enumerate(names)])
    before = kernels(path, room)
    (rows,) = (p for p in room.rglob("*.parquet") if p.stat().st_size > 1 << 20)
    for place in (3, 2):  # one in the middle of each column would do
        data = bytearray(rows.read_bytes())
        data[len(data) // place] ^= 1
        rows.write_bytes(data)
        assert kernels(path, room) == before
        (rows,) = (p for p in room.rglob("*.parquet") if p.stat().st_size > 1 << 20)


@pytest.mark.parametrize("memo", ["", "0" * 32, "\0" * 65])
def test_damaged_memo_is_not_taken(tmp_path: Path, memo: str) -> None:
    cache = tmp_path / "cache"
    paths = [t.write(tmp_path, [t.kernel(n, 0, 1)], f"{n}.json") for n in ("one", "two")]
    age(*paths)
    assert [kernels(p, cache) for p in paths] == ["one", "two"]
    memos = list(cache.rglob("seen/*"))
    assert len(memos) == 2
    for path in memos:
        path.write_text(memo)
    assert [kernels(p, cache) for p in paths] == ["one", "two"]


def test_copy_with_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    """`cp -p` over a recording: another content with the same size, time and inode."""
    cache = tmp_path / "cache"
    one = t.write(tmp_path, [t.kernel("one", 0, 1)], "one.json")
    two = t.write(tmp_path, [t.kernel("two", 0, 1)], "two.json")
    os.utime(one, ns=(10**18, 10**18))
    os.utime(two, ns=(10**18, 10**18))
    assert one.stat().st_size == two.stat().st_size
    age(one, two)
    assert kernels(one, cache) == "one"
    one.write_bytes(two.read_bytes())
    shutil.copystat(two, one)
    assert kernels(one, cache) == "two"


def test_brackets_in_a_path_are_no_pattern(tmp_path: Path) -> None:
    """`run[1]` is a folder of that name, and `run1` is another one."""
    cache = tmp_path / "cache"
    for name in ("run[1]", "run1", "run*", "run?"):
        path = t.write(tmp_path / name, [t.kernel(name, 0, 1)])
        saved = run("import", path, "-o", tmp_path / f"{name}.sightline", cache=cache)
        assert saved.code == 0, saved.err
    for name in ("run[1]", "run1", "run*", "run?"):
        assert kernels(tmp_path / f"{name}.sightline", cache) == name
        done = run("stats", "kernels", tmp_path / f"{name}.sightline", "--json", cache=cache)
        assert f'"{name}"' in done.out
    # The cache itself may lie in such a place, too.
    assert kernels(tmp_path / "run1" / "trace.json", tmp_path / "cache[1]") == "run1"


def plant(folder: Path) -> dict[str, str]:
    """Somebody's files: among them some that look like ours."""
    for name in ("thesis/chapter.txt", "run.json", "proj/run.json", "0" * 32 + "/run.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("years of work")
    (folder / "seen").mkdir()
    (folder / "seen" / ("1" * 32)).write_text("mine")
    (folder / "scratch-1-mine").mkdir()
    (folder / "scratch-1-mine" / "data").write_text("mine")
    return contents(folder)


@pytest.mark.parametrize("inside", [False, True])
def test_cache_removes_only_its_own(tmp_path: Path, inside: bool) -> None:
    """Trimming and clearing a cache that lies among somebody's files, or holds some of them."""
    cache = tmp_path / "scratch"
    path = t.write(tmp_path, [t.kernel("one", 0, 1)])
    if inside:
        kernels(path, cache)
    (cache).mkdir(exist_ok=True)
    canary = cache if not inside else next(p.parent for p in cache.rglob("CACHEDIR.TAG"))
    before = plant(canary)
    mine = {k: v for k, v in before.items() if not _is_ours(canary / k)}
    os.environ["SIGHTLINE_CACHE_BYTES"] = "1"
    try:
        for number in range(3):
            other = t.write(tmp_path, [t.kernel("k", number, 1)], f"{number}.json")
            assert kernels(other, cache) == "k"
    finally:
        del os.environ["SIGHTLINE_CACHE_BYTES"]
    assert run("cache", "clear", cache=cache).code == 0
    after = contents(canary)
    assert {k: after.get(k) for k in mine} == mine
    assert not list(cache.rglob("*.parquet"))


def _is_ours(path: Path) -> bool:
    return path.read_bytes()[:4] != b"year" and path.read_bytes() != b"mine"


def test_import_replaces_stores_only(tmp_path: Path) -> None:
    """A folder that merely holds a run.json, or a store in which somebody keeps a file."""
    cache = tmp_path / "cache"
    path = t.write(tmp_path, [t.kernel("one", 0, 1)])
    project = tmp_path / "proj.sightline"
    project.mkdir()
    (project / "run.json").write_text('{"name": "my project"}')
    (project / "main.py").write_text("years of work")
    before = contents(project)
    done = run("import", path, "-o", tmp_path / "proj", cache=cache)
    assert done.code == 2
    assert "--replace" in done.err
    assert contents(project) == before
    store = tmp_path / "store.sightline"
    assert run("import", path, "-o", store, cache=cache).code == 0
    assert run("import", path, "-o", store, cache=cache).code == 0
    (store / "notes.txt").write_text("years of work")
    done = run("import", path, "-o", store, cache=cache)
    assert done.code == 2
    assert "notes.txt" in done.err
    assert (store / "notes.txt").read_text() == "years of work"
    assert run("import", path, "-o", store, "--replace", cache=cache).code == 0
    assert not (store / "notes.txt").exists()


def test_first_openings_at_once(tmp_path: Path) -> None:
    """Six processes open the same recording for the first time; tests/attack has sixteen."""
    cache = tmp_path / "cache"
    path = t.write(tmp_path, [t.kernel(f"k{n}", n * 10, 5) for n in range(50)])
    words = [
        sys.executable,
        "-m",
        "sightline.doors.cli.main",
        "stats",
        "breakdown",
        str(path),
        "--json",
    ]
    env = {**os.environ, "SIGHTLINE_CACHE": str(cache)}
    started = [
        subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    ended = [(*p.communicate(), p.returncode) for p in started]
    assert [e[1] for e in ended if e[2]] == []
    assert len({e[0] for e in ended}) == 1


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_cache_that_others_can_write_to_is_not_read(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "cache"
    path = t.write(tmp_path, [t.kernel("one", 0, 1)])
    kernels(path, cache)
    folder = next(p.parent for p in cache.rglob("CACHEDIR.TAG"))
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(mode)
    done = run("stats", "kernels", path, cache=cache)
    assert done.code == 0
    assert "others can write to it" in caplog.text


def test_scratch_of_a_dead_process_is_cleaned(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    one = t.write(tmp_path, [t.kernel("one", 0, 1)], "one.json")
    code = (
        "import os; from sightline.opening.scratch import make_scratch; "
        "from sightline.core.model.cache_folder import open_cache_folder; "
        "work = make_scratch(open_cache_folder()); (work / 'half').write_text('x'); os._exit(9)"
    )
    env = {**os.environ, "SIGHTLINE_CACHE": str(cache)}
    subprocess.run([sys.executable, "-c", code], env=env, check=False)
    assert list(cache.rglob("half"))
    kernels(one, cache)
    assert not list(cache.rglob("half"))


def test_a_new_entry_does_not_look_at_all_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only once a twentieth of the limit was added: else each import would be as slow as many."""
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    looked: list[int] = []
    monkeypatch.setattr(cache, "trim_cache", looked.append)
    for i in range(3):
        t.opened(tmp_path / str(i), [t.kernel(f"k{i}", 0, 5)])
    assert looked == []
    monkeypatch.setenv("SIGHTLINE_CACHE_BYTES", "1000000")
    for i in range(3, 60):
        t.opened(tmp_path / str(i), [t.kernel(f"k{i}", 0, 5)])
    assert 1 <= len(looked) < 57
