"""LTTng while a program runs: a session of its own, what it traces, and its end in any case.

Commands: lttng(1), lttng-create(1), lttng-enable-channel(1), lttng-enable-event(1),
lttng-add-context(1), lttng-enable-rotation(1), lttng-snapshot(1), lttng-sessiond(8).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sightline.core.cleanup import register_cleanup, unregister_cleanup
from sightline.record.collect.watchers import restore_signals

READY_S = 5.0  # a session daemon answers within 0.1 s
_COMMAND_S = 30.0  # stopping waits until all buffers are written
# What Trace Compass' analyses of the kernel need (its documentation, "LTTng Kernel Analysis"), by
# the names of lttng-modules since 2.7 (irq.h, net.h).
KERNEL_EVENTS = (
    "sched_switch,sched_waking,sched_wakeup_new,sched_process_fork,sched_process_exit,"
    "irq_handler_entry,irq_handler_exit,irq_softirq_entry,irq_softirq_exit,"
    "timer_hrtimer_expire_entry,timer_hrtimer_expire_exit,block_rq_issue,block_rq_complete,"
    "net_dev_queue,net_if_receive_skb,lttng_statedump_process_state"
)
# What may ask for a snapshot without ending a program that does not know it: signals of one's own.
_SIGNALS = {"SIGUSR1": signal.SIGUSR1, "SIGUSR2": signal.SIGUSR2}
# Of the machine that records: the metadata names it (lttng-ust and lttng-modules, `env`).
_IDENTITY = re.compile(rb'\b(?:hostname|product_uuid)\s*=\s*"([^"\n]{0,255})"')


_BUFFERS = ("--subbuf-size=1M", "--num-subbuf=8")
# lttng-enable-rotation(1): --timer takes us, ms, s, m or h; --size takes k, M or G.
PERIOD = re.compile(r"[0-9]{1,12}(?:us|ms|s|m|h)")
SIZE = re.compile(r"[0-9]{1,15}[kMG]?")


def split_events(events: Sequence[str]) -> tuple[str, str]:
    """Patterns of user space, which name their provider (`hip:*`), and events of the kernel."""
    user = [event for event in events if ":" in event]
    return ",".join(user), ",".join(event for event in events if ":" not in event)


def list_userspace(
    name: str, folder: Path, *, snapshot: bool, events: str, kernel: str
) -> list[list[str]]:
    """The commands that make a session and enable its events of user space; all, if none is named.

    Where only events of the kernel are named, there are none of user space.
    """
    session, mode = f"--session={name}", ["--overwrite"] if snapshot else []
    chosen = ["enable-event", "--userspace", session, "--channel=user", events or "--all"]
    return [
        ["create", name, f"--output={folder}", *(["--snapshot"] if snapshot else [])],
        ["enable-channel", "--userspace", session, *_BUFFERS, *mode, "user"],
        *([chosen] if events or not kernel else []),
        ["add-context", "--userspace", session, "--channel=user", "--type=vpid", "--type=vtid"],
    ]


def rotate_session(name: str, rotate: str) -> list[str]:
    """The command that begins a new chunk after each size or period."""
    kind = "timer" if PERIOD.fullmatch(rotate) else "size"
    return ["enable-rotation", f"--session={name}", f"--{kind}={rotate}"]


def is_kernel_traceable() -> bool:
    """Whether LTTng's kernel modules are installed, and may be loaded."""
    modinfo = shutil.which("modinfo")
    if os.geteuid() != 0 or modinfo is None:
        return False
    done = subprocess.run(  # noqa: S603  # fixed arguments, no shell
        [modinfo, "lttng_tracer"], capture_output=True, check=False, timeout=_COMMAND_S
    )
    return done.returncode == 0


class Lttng:
    """A session: made before the program starts, ended and destroyed when it has."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        snapshot: bool = False,
        snapshot_on: str | None = None,
        rotate: str | None = None,
        events: Sequence[str] = (),
    ) -> None:
        self.folder, self.name = folder, name
        self.notes: list[str] = []
        self._snapshot = snapshot or snapshot_on is not None
        self._snapshot_on = snapshot_on
        self._user, self._kernel = split_events(events)
        self._daemon: subprocess.Popen[bytes] | None = None
        self._is_made = False
        register_cleanup(self.stop)
        try:
            self._start(rotate)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int | None:
        """The session daemon's, where it is ours."""
        return None if self._daemon is None else self._daemon.pid

    def _start(self, rotate: str | None) -> None:
        with_kernel = is_kernel_traceable()
        if self._ask("list") is not None:
            self._start_daemon(with_kernel)
        first, *rest = list_userspace(
            self.name, self.folder, snapshot=self._snapshot, events=self._user, kernel=self._kernel
        )
        self._tell(*first)
        self._is_made = True
        for words in rest:
            self._tell(*words)
        mode = ["--overwrite"] if self._snapshot else []
        session = f"--session={self.name}"
        if with_kernel and (self._kernel or not self._user):
            self._start_kernel(session, [*_BUFFERS, *mode])
        if rotate is not None:
            self._tell(*rotate_session(self.name, rotate))
        if self._snapshot_on is not None and self._snapshot_on not in _SIGNALS:
            self._add_trigger(self._snapshot_on)
        self._tell("start", self.name)

    def _start_daemon(self, with_kernel: bool) -> None:
        words = ["lttng-sessiond", *([] if with_kernel else ["--no-kernel"])]
        self._daemon = subprocess.Popen(  # noqa: S603  # fixed arguments, no shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=restore_signals,
        )
        limit = time.monotonic() + READY_S
        while (problem := self._ask("list")) is not None:
            if time.monotonic() > limit or self._daemon.poll() is not None:
                raise OSError(f"lttng-sessiond does not answer: {problem}")
            time.sleep(0.02)

    def _start_kernel(self, session: str, buffers: Sequence[str]) -> None:
        """Events of the kernel. What cannot be traced is noted; the rest is."""
        enable = ["enable-event", "--kernel", session, "--channel=kernel"]
        for words in (
            ["enable-channel", "--kernel", session, *buffers, "kernel"],
            [*enable, self._kernel or KERNEL_EVENTS],
            *([] if self._kernel else [[*enable, "--syscall", "--all"]]),
        ):
            if (problem := self._ask(*words)) is not None:
                self.notes.append(f"LTTng does not trace the kernel: {problem}")
                return

    def _add_trigger(self, event: str) -> None:
        """A snapshot at the first event of user space of this name: `NAME`, or `NAME if FILTER`.

        Once only: two snapshots may hold the same events.
        """
        name, _, condition = event.partition(" if ")
        matches = ["--condition=event-rule-matches", "--type=user:tracepoint", f"--name={name}"]
        if condition:
            matches.append(f"--filter={condition}")
        once = "--rate-policy=once-after:1"
        self._tell(
            "add-trigger",
            f"--name={self.name}",
            *matches,
            "--action=snapshot-session",
            self.name,
            once,
        )

    @property
    def on_signal(self) -> dict[int, Callable[[], None]]:
        """What a signal that a snapshot is asked for by does."""
        if self._snapshot_on not in _SIGNALS:
            return {}
        return {_SIGNALS[self._snapshot_on]: self._record_once}

    def _record_once(self) -> None:
        """A snapshot now, unless there is one: two may hold the same events."""
        if not self._has_snapshot():
            problem = self._ask("snapshot", "record", f"--session={self.name}", "--name=signal")
            if problem is not None:
                self.notes.append(f"LTTng wrote no snapshot: {problem}")

    def _has_snapshot(self) -> bool:
        """Whether one was written while the program ran."""
        return any(self.folder.rglob("metadata"))

    def stop(self, *, keep_identity: bool = False) -> None:
        """Write down what is recorded, and end the session, and the daemon if it is ours."""
        unregister_cleanup(self.stop)
        if self._is_made:
            self._is_made = False
            problem = self._ask("stop", self.name)
            if self._snapshot_on is not None:
                if self._snapshot_on not in _SIGNALS:
                    self._ask("remove-trigger", self.name)
                if not self._has_snapshot():
                    text = (
                        f"{self._snapshot_on!r} never happened: the latest events were kept instead"
                    )
                    self.notes.append(f"LTTng: {text}")
            if (
                self._snapshot
                and problem is None
                and not (self._snapshot_on is not None and self._has_snapshot())
            ):
                problem = self._ask("snapshot", "record", f"--session={self.name}", "--name=end")
            problem = self._ask("destroy", self.name) or problem
            if problem is not None:
                self.notes.append(f"LTTng did not end properly: {problem}")
            if not keep_identity:
                hide_identity(self.folder)
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._daemon.wait(_COMMAND_S)
            if self._daemon.poll() is None:
                self._daemon.kill()
                self._daemon.wait()
            self._daemon = None

    def _tell(self, *words: str) -> None:
        problem = self._ask(*words)
        if problem is not None:
            raise OSError(f"lttng {words[0]}: {problem}")

    def _ask(self, *words: str) -> str | None:
        """Run a command of LTTng's; what went wrong, or None."""
        try:
            done = subprocess.run(  # noqa: S603  # no shell
                [shutil.which("lttng") or "lttng", "--no-sessiond", *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {_COMMAND_S:g} s"
        if done.returncode == 0:
            return None
        lines = (done.stderr or done.stdout).strip().splitlines()
        return lines[0][:200] if lines else f"it ended with {done.returncode}"


def hide_identity(folder: Path) -> None:
    """Overwrite the names of the machine in the metadata, whose lengths stay as they are."""
    for path in folder.rglob("metadata"):
        with contextlib.suppress(OSError):
            data = path.read_bytes()
            hidden = _IDENTITY.sub(_hide, data)
            if hidden != data:
                path.write_bytes(hidden)


def _hide(found: re.Match[bytes]) -> bytes:
    begin, end = (at - found.start() for at in found.span(1))
    return found[0][:begin] + b"-" * (end - begin) + found[0][end:]
