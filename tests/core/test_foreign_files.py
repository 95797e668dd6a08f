"""Files in folders of another user: links, swaps and rights."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.core.foreign_files import (
    Descriptor,
    Owner,
    act_as,
    find_owner,
    hold_folder,
    open_file,
    open_folder,
)
from sightline.errors import RequestError
from sightline.record.collect import server
from sightline.record.monitor.history import HistoryWriter, Limits
from sightline.record.monitor.rounds import Round
from sightline.record.probe.compiled import CompiledFunctions, place_map
from sightline.record.probe.processes import find_file, read_mappings
from support import fakes, recording
from support.command import sightline

USER = Owner(12345, 12345, (23456,))
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give away")


def open_root(path: Path) -> Descriptor:
    return Descriptor(os.open(path, os.O_PATH))


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of another user, below which root keeps nothing."""
    with tempfile.TemporaryDirectory(prefix="f") as top:
        Path(top).chmod(0o755)
        folder = Path(top, "home")
        folder.mkdir()
        os.chown(folder, USER.user, USER.group)
        yield folder


@pytest.fixture
def vault(home: Path) -> Path:
    """A folder of root's beside it."""
    folder = home.with_name("vault")
    folder.mkdir()
    return folder


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/b", "a/b"),
        ("a/./b/", "a/b"),
        ("", "."),
        ("/near/b", "a/b"),
        ("/a/up", "a"),
        ("/far", "a"),  # an absolute link is one of this root
        ("/../../a", "a"),
        ("/a/b/../..", "."),
        ("/out", "etc"),
    ],
)
def test_folders_below_a_root(tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "near").symlink_to("a")
    (tmp_path / "a" / "up").symlink_to("../a")
    (tmp_path / "far").symlink_to("/a")
    (tmp_path / "out").symlink_to("../../../../../../../etc")
    found = open_folder(path, open_root(tmp_path))
    assert Path(found.path).samefile(tmp_path / expected)


def test_folders_that_lead_nowhere(tmp_path: Path) -> None:
    root = open_root(tmp_path)
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "file").touch()
    held = open_root(Path("/etc"))
    (tmp_path / "magic").symlink_to(held.path)  # the kernel would lead to /etc
    for path, error in [
        ("/round", "Too many levels"),
        ("/file", "Not a directory"),
        ("/none/b", "No such file"),
        ("/magic", "No such file"),
    ]:
        with pytest.raises(OSError, match=error):
            open_folder(path, root)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server_:
        folder = open_root(tmp_path)
        server_.bind(f"{folder.path}/socket")
        for name in ("link", "pipe", "socket"):
            with pytest.raises(PermissionError, match="not the program's own"):
                open_file(name, folder)
    assert Path(open_file("file", folder).path).read_text() == "x"
    assert open_file("file", folder, {os.geteuid()}).number
    with pytest.raises(PermissionError):
        open_file("file", folder, {os.geteuid() + 1})


@as_root
def test_rights_of_another_user(home: Path, vault: Path) -> None:
    secret, of_group = vault / "secret", vault / "of_group"
    for path, group, mode in ((secret, 0, 0o660), (of_group, 23456, 0o640)):
        path.write_text(path.name)
        os.chown(path, 0, group)
        path.chmod(mode)
    for refused in (
        secret.read_text,
        secret.unlink,
        lambda: secret.chmod(0o666),
        lambda: os.chown(home, 0, 0),
        (vault / "new").touch,
    ):
        with pytest.raises(PermissionError):
            act_as(USER, refused)
    assert act_as(USER, of_group.read_text) == "of_group"
    act_as(USER, (home / "new").touch)
    assert (home / "new").stat().st_uid == USER.user
    assert secret.read_text() == "secret"  # and this thread has all its rights
    assert find_owner(os.getpid()) == Owner(0, os.getegid(), tuple(os.getgroups()))


@as_root
def test_rights_that_cannot_be_given_up(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """What is to be done with a user's rights is not done with root's instead."""
    monkeypatch.setattr("platform.machine", lambda: "unknown")
    with pytest.raises(PermissionError, match="cannot switch to user"):
        act_as(USER, (home / "new").touch)
    assert list_names(home) == []


@as_root
def test_a_held_folder_stays_the_same(home: Path, vault: Path) -> None:
    folder = home / "ours"
    folder.mkdir()
    with hold_folder(folder) as held:
        folder.rename(home / "aside")
        folder.symlink_to(vault)
        (held / "new").write_text("x")
    assert list_names(vault) == [] and list_names(home / "aside") == ["new"]
    with pytest.raises(OSError, match="Not a directory"), hold_folder(folder):
        pass


@as_root
def test_a_folder_of_another_user_is_not_held(home: Path) -> None:
    with pytest.raises(PermissionError, match="it belongs to another user"), hold_folder(home):
        pass
    assert list_names(home) == []


@as_root
def test_a_recording_stays_in_the_folder_that_was_made(home: Path, vault: Path) -> None:
    """The owner of the current folder puts a link in its place while the program runs."""
    trick = f"mv x.sightline aside; ln -s {vault} x.sightline"
    done = recording.run("-o", "x", "--no-report", "--", "sh", "-c", trick, cwd=home)
    assert done.returncode == 0, done.stderr
    assert list_names(vault) == []
    (facts,) = (home / "aside").glob("*.recorded.json")
    assert json.loads(facts.read_text())["state"] == "ended"


@as_root
def test_nothing_is_recorded_into_another_users_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    (home / "x.sightline").mkdir()
    os.chown(home / "x.sightline", USER.user, USER.group)
    done = sightline("run", "-o", "x", "--", "touch", "ran")
    assert done.code == 2
    assert "it belongs to another user" in " ".join(done.err.split())
    assert list_names(home) == ["x.sightline"] and list_names(home / "x.sightline") == []


@as_root
def test_a_history_stays_in_the_folder_that_was_made(home: Path, vault: Path) -> None:
    (vault / "live").mkdir()
    writer = HistoryWriter(home / "h", Limits(), 1.0, seal=lambda folder, ended: None)
    (home / "h").rename(home / "aside")
    (home / "h").symlink_to(vault)
    assert writer.write(Round(1, 1, [], []))
    writer.close()
    assert list_names(vault / "live") == []
    assert len(list_names(home / "aside" / "live")) == 1


@as_root
def test_a_history_of_another_user_is_not_kept_on(home: Path) -> None:
    with pytest.raises(RequestError) as caught:
        HistoryWriter(home, Limits(), 1.0)
    assert "it belongs to another user" in str(caught.value.why)
    assert list_names(home) == []


def test_maps_of_compiled_code_outside_a_container(tmp_path: Path) -> None:
    """/tmp of a container is a link to a folder of this machine."""
    name = Path(place_map(os.getpid())).name
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (outside / name).write_text("1000 10 secret\n")
    root.mkdir()
    (root / "tmp").symlink_to(outside)
    assert CompiledFunctions(str(root), os.getpid()).find(0x1008) is None


@pytest.mark.parametrize("way", ["link", "pipe"])
def test_mapped_files_that_were_swapped(tmp_path: Path, way: str) -> None:
    """The file is held: what its owner puts in its place is neither read nor probed."""
    folder = tmp_path / "libs"
    folder.mkdir()
    path = fakes.library(folder, "libswapped.so", "int answer(void) { return 42; }")
    content = path.read_bytes()
    assert ctypes.CDLL(str(path)).answer() == 42
    mapping = next(m for m in read_mappings(os.getpid()) if m.path == str(path) and m.executable)
    held = find_file(os.getpid(), mapping)
    assert held is not None
    path.rename(tmp_path / "aside")
    if way == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/shadow")
    assert Path(held.path).read_bytes() == content
    again = find_file(os.getpid(), mapping)  # by what is mapped, where that may be opened
    assert again is None or Path(again.path).read_bytes() == content


def test_links_among_a_servers_traces_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "QUIET_S", 0.1)
    place, run = tmp_path / "traces", tmp_path / "run"
    place.mkdir()
    run.mkdir()
    (tmp_path / "secret.json").write_text("secret")

    def post(kind: str, url: str, what: str, timeout_s: float, body: object) -> None:
        if what == "stop_profile":
            (place / "b.json").write_text("{}")
            (place / "a.json").symlink_to(tmp_path / "secret.json")
            (place / "c").symlink_to(tmp_path)

    monkeypatch.setattr(server, "tell_profiler", post)
    copies = server.record_server("vllm", "http://127.0.0.1:9", run, 0, place, lambda text: None)
    assert [copy.name for copy in copies] == ["server-0.json"]
    assert (run / "server-0.json").read_text() == "{}"


def test_a_page_is_not_written_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sightline.doors.cli.report import _write_beside

    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other"
    shutil.copy(__file__, other)
    before = other.read_bytes()
    Path("sightline-report.html").symlink_to(other)
    _write_beside(lambda: "page", [])
    assert other.read_bytes() == before and Path("sightline-report.html").is_symlink()
