"""A service that runs: its server, and what is done now and then until it ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightline.cluster.alarms import Alarms
from sightline.cluster.broker import Listener
from sightline.cluster.config import Config, Tracing
from sightline.cluster.feeds import Feeds, read_limits
from sightline.cluster.notes import Notes
from sightline.cluster.points import PointReader
from sightline.cluster.running import Running
from sightline.cluster.search import Search
from sightline.cluster.store import LimitsOf, Store
from sightline.cluster.tracing import MakeReport, Tracer
from sightline.core.model.run import Run
from sightline.core.whole_file import write_whole
from sightline.doors.http.server import ClusterServer
from sightline.doors.http.service import Login, Service
from sightline.record.monitor.notices import Notifier
from sightline.subjects.jobs.job import Job

# cc-metric-store's documentation: checkpoints each 12 h; the log is read again after a kill, and
# ten minutes of it take seconds.
_CHECKPOINT_S = 600.0
_OLD_S = 3_600.0
_TICK_S = 1.0
_DAY_NS = 86_400 * 10**9

Say = Callable[[str], None]


class ClusterService:
    """Everything that a configuration asks for, from `__init__` until `close`."""

    def __init__(
        self,
        config: Config,
        say: Say,
        make_report: MakeReport,
        *,
        limits: LimitsOf | None = None,
        provider: Login | None = None,
        take_over: bool = False,
    ) -> None:
        """Open the store and listen; nothing is answered before `serve`. Raises SightlineError."""
        self._config, self._say = config, say
        with contextlib.ExitStack() as opened:  # of what cannot be used nothing stays open
            self.store = Store(
                config.store,
                config.keeping,
                limits or read_limits(config.sources.limits),
                bucket=config.bucket,
                take_over=take_over,
            )
            opened.callback(self.store.close)
            self._told = 0  # of the store's losses
            self.tell_losses()
            self.running = Running(self.store)
            self.search = Search(self.store, self.running)
            opened.callback(self.search.close)
            self.notes = Notes(config.store / "notes.sqlite")
            opened.callback(self.notes.close)
            self.tracer = Tracer(config.store, self.notes, config.tracing, make_report)
            keep_ns = (config.keeping.samples_days or 36_500) * _DAY_NS
            reader = PointReader(config.units)
            self.service = Service(
                config.cluster,
                self.store,
                self.search,
                self.notes,
                config.rules,
                tracer=self.tracer if can_trace(config.tracing) else None,
                reader=reader,
                secure=bool(config.certificate) or any("." in name for name in config.names),
                provider=provider,
                keep_ns=keep_ns,
            )
            context = None
            if config.certificate:
                from sightline.capture.server import make_context

                context = make_context(config.certificate, config.key)
            self.server = ClusterServer(
                self.service,
                config.host,
                config.port,
                names=config.names,
                context=context,
                plain=config.plain,
            )
            opened.pop_all()  # now it is for `close` to do
        self.listener: Listener | None = None
        if config.broker is not None:
            self.listener = Listener(
                config.broker, config.cluster, self.store, say, reader, keep_ns
            )
        self.notifier, self.alarms = _make_alarms(config, self.notes, say)
        self.feeds = Feeds(config.sources, config.cluster, self.store, _ask_series(config))
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, more: Callable[[], object] | None = None, each_s: float = 10.0) -> None:
        """Start what is done beside the answers; `more` each so many seconds."""
        works = (self._keep, self._judge, self._read, self._listen)
        if more is not None:
            self._threads.append(threading.Thread(target=self._repeat, args=(more, each_s)))
        self._threads += [threading.Thread(target=work) for work in works]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def close(self) -> None:
        """End it all; what is in memory is written."""
        self._ended.set()
        self.server.server_close()
        for thread in self._threads:
            thread.join(60)
        if self.notifier is not None:
            self.notifier.close()
        self.search.close()
        self.notes.close()
        self.store.close()

    def _keep(self) -> None:
        """Checkpoints and retention."""
        written, cleaned = time.monotonic(), 0.0
        while not self._ended.wait(_TICK_S):
            now = time.monotonic()
            self.tell_losses()
            if now - written > _CHECKPOINT_S or self.store.is_heavy:
                self._try("the store", lambda: self.store.checkpoint(gently=True))
                written = time.monotonic()
            if now - cleaned > _OLD_S:
                self._try("the store", self.store.drop_old)
                cleaned = now

    def tell_losses(self) -> None:
        """What of the store could not be read, each once."""
        losses = self.store.losses
        for lost in losses[self._told :]:
            self._say(f"the store: {lost}")
        self._told = len(losses)

    def judge(self) -> float:
        """Judge all jobs that run once, tell and record; seconds until the next time."""
        wait = self.running.refresh(self._heed)
        self.alarms.keep_only({known.key for known in self.store.list_live()})
        return wait

    def _heed(self, key: str, job: Job, problems: list[dict[str, Any]]) -> None:
        self.tracer.heed(key, job, problems)
        self.alarms.heed(key, job, problems)

    def _judge(self) -> None:
        """Jobs that run, now and then."""
        wait = 0.0
        while not self._ended.wait(wait):
            wait = 60.0
            try:
                wait = self.judge()
            except Exception as error:  # the next round is tried all the same
                self._say(f"jobs that run could not be judged: {error}")

    def _read(self) -> None:
        sources = self._config.sources
        if not (sources.slurm or sources.clustercockpit):
            return
        wait = 0.0
        while not self._ended.wait(wait):
            self.feeds.read(self._say)
            wait = max(10.0, 60 * sources.every_minutes)

    def _listen(self) -> None:
        if self.listener is not None:
            self.listener.run(self._ended)

    def _repeat(self, work: Callable[[], object], each_s: float) -> None:
        while not self._ended.wait(each_s):
            self._try("what is simulated", work)

    def _try(self, what: str, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:  # a thread that ends would end it for all jobs
            self._say(f"{what}: {error}")


def _make_alarms(config: Config, notes: Notes, say: Say) -> tuple[Notifier | None, Alarms]:
    """Raises RequestError for a webhook that is no address, or a command that cannot be read."""
    telling = config.telling
    if not telling.on:
        return None, Alarms(telling, notes, lambda text, data: None)
    notifier = Notifier(
        telling.webhook or None, telling.command or None, lambda text: say(f"tell: {text}")
    )
    return notifier, Alarms(telling, notes, notifier.tell)


def can_trace(tracing: Tracing) -> bool:
    """Whether the command that records is there."""
    import shutil

    return shutil.which(tracing.command[0]) is not None


def _ask_series(config: Config) -> Callable[[Run], Run] | None:
    if not config.sources.prometheus:
        return None
    from sightline.record.monitor.prometheus_server import open_server
    from sightline.subjects.jobs.prometheus import add_series

    fetch = open_server(config.sources.prometheus)
    return lambda run: add_series(run, fetch, lambda job: True)[0]


def make_report(recording: Path, target: Path) -> None:
    """The page of a recording, as `sightline report` writes it."""
    from sightline.session import open_session
    from sightline.views.html.page import write

    write_whole(target, write(open_session([str(recording)])))
