"""Metrics and jobs by NATS, as cc-metric-collector and cc-slurm-adapter send them.

Metrics are line protocol (cc-backend, pkg/metricstore/lineprotocol.go); jobs are events of it,
job,function=start_job event="{JSON}" (internal/api/nats.go). A broker knows who may publish, and
the service only who it is itself there: so it listens to none that lets anybody in (cc-backend
1.5.4: ingest by NATS asked for no password). With `durable` messages come from a stream of
JetStream, and are acknowledged once they are on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sightline.cluster.config import Broker
from sightline.cluster.documents import add_cluster
from sightline.cluster.points import PointReader
from sightline.cluster.store import DoubleError, FullError, Store
from sightline.core.line_protocol import read_events
from sightline.core.text import clean_text
from sightline.errors import RequestError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

MOST_MESSAGE = 16 << 20  # bytes, as of a request (doors/http/messages.py)
# Ours: messages that wait are written together, as each write waits for the disk.
_TOGETHER, _TOGETHER_BYTES = 256, 4 << 20
_QUEUED = 4096
_AGAIN_S = 10.0
_REASONS = 20

Take = Callable[[Sequence[bytes]], None]


class Listener:
    """What a broker sends, into a store. `say` is told of what could not be kept, once each."""

    def __init__(
        self,
        broker: Broker,
        cluster: str,
        store: Store,
        say: Callable[[str], None],
        reader: PointReader | None = None,
        keep_ns: int = 1 << 62,
    ) -> None:
        self._broker, self._cluster, self._store, self._say = broker, cluster, store, say
        self._reader, self._keep_ns = reader or PointReader(), keep_ns
        self._said: set[str] = set()

    def run(self, ended: threading.Event) -> None:
        """Listen until the end; a broker that is away is asked again."""
        while not ended.is_set():
            try:
                asyncio.run(self._listen(ended))
            except Exception as error:  # whatever the library raises: the jobs of others go on
                self._tell(f"{type(error).__name__}: {error}")
                ended.wait(_AGAIN_S)

    def take_metrics(self, messages: Sequence[bytes]) -> None:
        """Keep the points of messages: all are on the disk then. Raises FullError, OSError."""
        whole = b"\n".join(one for one in messages if self._is_short(one))
        try:
            oldest = time.time_ns() - self._keep_ns
            batch = self._reader.read(whole, self._cluster, oldest_ns=oldest)
        except ValueError as error:  # too many points in all: one message costs no other
            if len(messages) == 1:
                self._tell(str(error))
            else:
                for one in messages:
                    self.take_metrics([one])
            return
        for reason in batch.reasons:
            self._tell(reason)
        self._store.write_points(batch)

    def take_jobs(self, messages: Sequence[bytes]) -> None:
        """Begin and end jobs. Raises FullError, OSError."""
        for message in messages:
            if not self._is_short(message):
                continue
            try:
                for name, tags, text in read_events(message):
                    if name == "job":
                        self._change_job(tags.get("function", ""), json.loads(text))
            except DoubleError:  # sent again, as brokers may
                continue
            except (ValueError, RecursionError, RequestError) as error:
                self._tell(str(error))

    def _change_job(self, function: str, document: Any) -> None:
        """Raises RequestError."""
        document = add_cluster(document, self._cluster)
        if function == "start_job":
            self._store.start_job(document)
        elif function == "stop_job":
            self._store.stop_job(document)
        else:
            raise RequestError("an event of a job has function=start_job or stop_job")

    def _is_short(self, message: bytes) -> bool:
        if len(message) > MOST_MESSAGE:
            self._tell(f"a message has over {MOST_MESSAGE:,} bytes")
        return len(message) <= MOST_MESSAGE

    def _tell(self, reason: str) -> None:
        """Once each: a collector that is set up wrongly sends the same each ten seconds."""
        text = clean_text(reason)[:300]
        if text not in self._said and len(self._said) < _REASONS:
            self._said.add(text)
            self._say(f"NATS: not kept: {text}")

    # -- the broker ---------------------------------------------------------------------------

    async def _listen(self, ended: threading.Event) -> None:
        work = asyncio.create_task(self._follow_all())
        end = asyncio.create_task(_wait(ended))
        try:
            await asyncio.wait([end, work], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()  # raises what it ended with
        finally:
            for task in (end, work):
                task.cancel()
            await asyncio.gather(end, work, return_exceptions=True)

    async def _follow_all(self) -> None:
        """All subjects, until one of them fails."""
        client = await self._connect()
        takes = [(subject, "metrics", self.take_metrics) for subject in self._broker.metrics]
        takes += [(subject, "jobs", self.take_jobs) for subject in self._broker.jobs]
        works = [asyncio.create_task(self._follow(client, *one)) for one in takes]
        try:
            await asyncio.gather(*works)
        finally:
            for one in works:
                one.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            with contextlib.suppress(Exception):
                await client.close()

    async def _connect(self) -> Client:
        import nats

        broker = self._broker
        options: dict[str, Any] = {"token": broker.token} if broker.token else {}
        if broker.user:
            options = {"user": broker.user, "password": broker.password}
        if broker.url.startswith("tls://"):
            options["tls"] = ssl.create_default_context(cafile=broker.ca or None)

        async def tell(error: Exception) -> None:
            self._tell(str(error) or type(error).__name__)

        return await nats.connect(
            broker.url, name="sightline", error_cb=tell, max_reconnect_attempts=-1, **options
        )

    async def _follow(self, client: Client, subject: str, kind: str, take: Take) -> None:
        if self._broker.durable:
            await self._pull(client, subject, f"{self._broker.durable}-{kind}", take)
            return
        queue: asyncio.Queue[Msg] = asyncio.Queue(_QUEUED)
        await client.subscribe(subject, cb=queue.put)
        while True:
            messages = [await queue.get()]
            size = len(messages[0].data)
            while not queue.empty() and len(messages) < _TOGETHER and size < _TOGETHER_BYTES:
                messages.append(queue.get_nowait())
                size += len(messages[-1].data)
            await self._keep(take, messages)

    async def _pull(self, client: Client, subject: str, durable: str, take: Take) -> None:
        """From a stream that has the subject: what is acknowledged is on the disk."""
        import nats.errors

        stream = client.jetstream()
        mine = await stream.pull_subscribe(subject, durable=durable)
        while True:
            try:
                messages = await mine.fetch(_TOGETHER, timeout=1)
            except (TimeoutError, nats.errors.TimeoutError):
                continue
            is_kept = await self._keep(take, messages)
            for message in messages:
                await (message.ack() if is_kept else message.nak(delay=_AGAIN_S))

    async def _keep(self, take: Take, messages: Sequence[Msg]) -> bool:
        """Whether they are on the disk, or are none: what is full or fails may take them later."""
        try:
            await asyncio.to_thread(take, [message.data for message in messages])
        except (FullError, OSError) as error:
            self._tell(str(error))
            return False
        return True


async def _wait(ended: threading.Event) -> None:
    while not ended.is_set():
        await asyncio.sleep(0.2)
