"""The rounds of `sightline watch`: each one into the history, the exporter and the policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sightline.record.monitor.history import HistoryWriter
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.notices import Notifier
from sightline.record.monitor.policies import VIOLATED, Policies
from sightline.record.monitor.readings import GPU, HOST, Event, Source
from sightline.record.monitor.rounds import Clock, run_rounds

Say = Callable[[str], None]
# What others are told: an XID is not the less news for the one before it.
_TOLD = (VIOLATED, "xid", "device-lost")


@dataclass
class Watch:
    """What is done with each round. What is None is not wanted."""

    sources: Sequence[Source]
    latest: Latest
    say: Say
    history: HistoryWriter | None = None
    policies: Policies | None = None
    notifier: Notifier | None = None

    def run(self, period_s: float, clock: Clock) -> None:
        """Until the clock says so."""
        failed: set[str] = set()

        def note_failure(name: str, error: Exception) -> None:
            if name not in failed:
                failed.add(name)
                self.say(f"{name} fails: {type(error).__name__}: {error}")

        full, removed = False, 0
        for now in run_rounds(self.sources, period_s, clock, note_failure):
            self.latest.note_devices(self.sources)
            if self.policies is not None:
                now.events += self.policies.judge(now)
            self.latest.put(now)
            for event in now.events:
                self.say(describe(event))
                if self.notifier is not None and event.kind in _TOLD:
                    self.notifier.send(event)
            if self.history is not None:
                self.history.set_devices(list(self.latest.devices.values()))
                written = self.history.write(now)
                if self.history.begun_anew > removed:
                    removed = self.history.begun_anew
                    self.say(
                        "The history was removed while it was being written: its contents are "
                        f"gone, and a new one was started in {self.history.folder}"
                    )
                if not written and not full:
                    why = self.history.why_lost
                    self.say(f"The history cannot be written ({why}): rounds are lost until it can")
                elif written and full:
                    self.say(
                        f"The history is written again; {self.history.lost_rounds} rounds lost"
                    )
                full = not written
        if self.history is not None and self.history.lost_rounds:
            self.say(f"{self.history.lost_rounds} rounds were lost: {self.history.why_lost}")


def describe(event: Event) -> str:
    """One line: what, and of what."""
    entity = event.entity
    names = [f"GPU {entity.device_id}"] if entity.device_id is not None else []
    names += [entity.source] if entity.source else []
    where = ", ".join(names) or ("the GPUs" if entity.kind == GPU else entity.kind)
    return event.text if entity.kind == HOST and not names else f"{where}: {event.text}"
