"""Root records another user's program, whose folders are that user's: no file of root's is lost."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sightline.errors import InputError, RequestError
from sightline.record.collect import attach, kineto_door
from sightline.record.collect.kineto_door import Order
from sightline.record.probe.processes import Root
from support.asking import Program, find_shared_python

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give away")
USER = 12345
SECRET = "root's own"

# Swaps a folder for a link to another, and back, as fast as it can.
SWAP = """\
import os, sys
folder, victim = sys.argv[1:]
print("ready", flush=True)
while True:
    try:
        os.rename(folder, folder + ".aside")
        os.symlink(victim, folder)
        os.unlink(folder)
        os.rename(folder + ".aside", folder)
    except OSError:
        pass
"""


class Place:
    """A folder of the user, and one of root's that everybody may look into."""

    def __init__(self, top: Path) -> None:
        top.chmod(0o755)
        self.home, self.vault = top / "home", top / "vault"
        self.sockets, self.traces = self.home / "sockets", self.home / "traces"
        for folder in (self.home, self.sockets, self.traces):
            folder.mkdir()
            os.chown(folder, USER, USER)
        self.vault.mkdir(mode=0o755)
        self.programs: list[Program] = []

    def start(self, **told: object) -> Program:
        self.programs.append(Program(self.sockets, self.traces, user=USER, **told))
        return self.programs[-1]

    def hide(self, name: str) -> Path:
        """A file of root's, in root's folder, that the user may not read."""
        secret = self.vault / name
        secret.write_text(SECRET)
        secret.chmod(0o600)
        return secret


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(kineto_door, "POLL_S", 0.3)
    monkeypatch.setattr(kineto_door, "LATE_S", 0.2)
    monkeypatch.setattr(kineto_door, "QUIET_S", 0.2)
    with tempfile.TemporaryDirectory(prefix="f") as top:  # the user gets past no folder of pytest's
        made = Place(Path(top))
        yield made
        for program in made.programs:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.process.wait()
            assert program.process.stdout is not None
            program.process.stdout.close()


def client_of(program: Program) -> kineto_door.Client:
    found = kineto_door.find_client(program.pid)
    assert found is not None
    return found


def is_untouched(secret: Path) -> bool:
    state = secret.lstat()
    rights = stat.S_IMODE(state.st_mode)
    return (rights, state.st_uid, secret.read_text()) == (0o600, 0, SECRET)


def lead_to(folder: Path, victim: Path) -> None:
    """What the folder's owner may do at any moment."""
    folder.rename(folder.with_name(folder.name + ".aside"))
    folder.symlink_to(victim)


@contextmanager
def swapping(folder: Path, victim: Path) -> Iterator[None]:
    process = subprocess.Popen(
        [find_shared_python(), "-c", SWAP, str(folder), str(victim)],
        stdout=subprocess.PIPE, user=USER, group=USER, extra_groups=[],
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def before_each(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, trick: Callable[[], None]
) -> None:
    """Play a trick once, right before a function of the system is called."""
    original, played = getattr(owner, name), []

    def call(*arguments: object, **options: object) -> object:
        if not played:
            played.append(True)
            trick()
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


def test_another_users_program_is_recorded(place: Place, tmp_path: Path) -> None:
    program = place.start()
    openings = attach.list_openings([program.pid])
    outcome = attach.record_processes(openings, tmp_path, 0.1, (), lambda text: None, warm_up_s=0)
    assert outcome.problems == []
    (path,) = outcome.files
    assert "aten::mm" in path.read_text()
    assert path.stat().st_uid == 0
    left = [entry.name for entry in (*place.traces.iterdir(), *place.sockets.iterdir())]
    assert [name.partition("client")[0] for name in left] == ["dynoconfig"]


def test_the_thread_that_acts_for_a_user_is_the_only_one(place: Place) -> None:
    program = place.start()
    kineto_door.tell_clients([client_of(program)], Order("x", 0.1, 0))
    assert (os.geteuid(), os.getegid()) == (0, 0)
    secret = place.hide("x")
    assert secret.read_text() == SECRET  # this thread has all its rights
    before = os.umask(0o022)
    os.umask(before)
    assert before != 0


def test_a_folder_that_is_swapped_while_the_socket_is_made(place: Place) -> None:
    """The socket's folder is a link to root's now and then: any step may meet it."""
    secret = place.hide("dynolog")
    client = client_of(place.start())
    os.kill(client.pid, signal.SIGSTOP)
    with swapping(place.sockets, place.vault):
        for _ in range(150):
            with suppress(RequestError):
                kineto_door.tell_clients([client], Order("x", 0.1, 0), most_s=0.0)
            assert is_untouched(secret)
    assert [path.name for path in place.vault.iterdir()] == ["dynolog"]


@pytest.mark.parametrize("step", ["bind", "select", "close"])
def test_a_folder_that_is_swapped_before_a_step(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    client = client_of(place.start())
    os.kill(client.pid, signal.SIGSTOP)
    secrets = [place.hide(name) for name in ("dynolog", "other")]
    if step == "bind":
        secrets.pop(0).unlink()  # nothing is in its way
    owner = kineto_door.select if step == "select" else socket.socket
    if step != "select":
        monkeypatch.setattr(kineto_door.socket, "socket", type("Socket", (socket.socket,), {}))
        owner = kineto_door.socket.socket
    before_each(monkeypatch, owner, step, lambda: lead_to(place.sockets, place.vault))
    with suppress(RequestError):
        kineto_door.tell_clients([client], Order("x", 0.1, 0), most_s=0.05)
    assert place.sockets.is_symlink()  # the trick was played
    assert all(is_untouched(secret) for secret in secrets)
    assert sorted(p.name for p in place.vault.iterdir()) == [s.name for s in secrets]


def test_an_answer_goes_to_who_asked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What root writes is believed by services that anybody may write to: it gets to none."""
    program = place.start()
    client = client_of(program)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.bind(str(place.vault / Path(client.socket).name))
        (place.vault / Path(client.socket).name).chmod(0o666)
        service.setblocking(False)
        receive = kineto_door.Door.receive

        def receive_and_swap(door: kineto_door.Door) -> object:
            request = receive(door)
            if not place.sockets.is_symlink():
                lead_to(place.sockets, place.vault)
            return request

        monkeypatch.setattr(kineto_door.Door, "receive", receive_and_swap)
        told, _ = kineto_door.tell_clients([client], Order("x", 0.1, 0), most_s=0.5)
        assert place.sockets.is_symlink()
        assert told == []
        with pytest.raises(BlockingIOError):
            service.recv(1 << 16)


@pytest.mark.parametrize("step", ["copyfileobj", "replace", "sleep"])
def test_traces_folder_that_is_swapped(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before the trace is read, or removed: root's file of the same name stays, unread."""
    program = place.start()
    client, root = client_of(program), Root(program.pid)
    secret = place.hide(f"x_{program.pid}.json")
    secret.write_text(SECRET + "}")  # as a trace ends
    kineto_door.tell_clients([client], Order("x", 0.1, 0))
    owner = {"copyfileobj": shutil, "replace": Path, "sleep": kineto_door.time}[step]
    before_each(monkeypatch, owner, step, lambda: lead_to(place.traces, place.vault))
    target = tmp_path / "t.json"
    with suppress(InputError):
        kineto_door.take_trace(client, root, "x", target, most_s=1)
    assert place.traces.is_symlink()
    assert (secret.stat().st_mode & 0o777, secret.read_text()) == (0o600, SECRET + "}")
    assert not target.exists() or "root's" not in target.read_text()


def test_traces_folder_that_is_swapped_all_the_time(place: Place, tmp_path: Path) -> None:
    name = "x_{}.json"
    for attempt in range(4):
        program = place.start(ends=True)
        client, root = client_of(program), Root(program.pid)
        secret = place.hide(name.format(program.pid))
        kineto_door.tell_clients([client], Order("x", 0.1, 0))
        program.process.wait()
        with swapping(place.traces, place.vault), suppress(InputError):
            kineto_door.take_trace(client, root, "x", tmp_path / f"{attempt}.json", most_s=1)
        time.sleep(0.01)
        assert is_untouched(secret)
        repair(place.traces)


def repair(folder: Path) -> None:
    """As it was: who swaps may be ended between two steps."""
    aside = folder.with_name(folder.name + ".aside")
    if folder.is_symlink():
        folder.unlink()
    if aside.is_dir():
        aside.rename(folder)
