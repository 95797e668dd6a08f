"""Conditions on live values: what is violated, since when, and when it is over.

A policy is a rule in the forms that `findings --rules` reads (docs/own-rules.md), with `watch:` for
how long it must hold. Its metrics are columns of a history (power_w, sm_active_pct, ...), each with
statistics of the last values: `power_w.avg`, `memory_used_bytes.slope` (per second).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.core.registry import did_you_mean
from sightline.core.units import format_long
from sightline.core.watched_metrics import METRICS
from sightline.core.xids import describe_recovery, describe_xid, look_up_action
from sightline.diagnosis.custom.evaluate import evaluate, fill_text
from sightline.diagnosis.custom.expression import Expression, Missing, Unfit
from sightline.diagnosis.custom.forms import OURS, OwnRule, parse_rule, read_rules
from sightline.errors import InputError, RequestError
from sightline.record.monitor.readings import CURRENT_NS, PROCESS, Entity, Event, Reading
from sightline.record.monitor.rounds import Round
from sightline.record.monitor.running import RunningWindow

DEFAULT = "default"  # the policies that ship: conditions as DCGM's
_DEFAULT_FILE = Path(__file__).with_name("default-policies.yaml")
VIOLATED, OVER = "policy-violated", "policy-over"
_COLUMNS = {metric.column: name for name, metric in METRICS.items()}
# Values of a window that are kept: an hour of a second each. No policy looks further back.
_MOST = 3_600
_LONGEST_NS = _MOST * 10**9


def load_policies(paths: Sequence[str]) -> list[OwnRule]:
    """The policies of files and folders; `default` is what ships.

    Raises InputError, also for a metric that is not watched.
    """
    rules = read_rules([str(_DEFAULT_FILE) if path == DEFAULT else path for path in paths])
    taken: dict[str, OwnRule] = {}
    for rule in rules:
        if rule.tag in taken:
            raise rule.at.wrong(f"the tag '{rule.tag}' is taken by another policy")
        taken[rule.tag] = rule
        unknown = [name for name in rule.metrics if name not in _COLUMNS]
        if unknown:
            raise InputError(
                f"{rule.at.file}, line {rule.at.line}: '{unknown[0]}' is not watched",
                hint=f"What is watched:  sightline watch --list   (in {OURS}'s form: power_w)",
            )
        if rule.watched.over_ns > _LONGEST_NS:
            raise rule.at.wrong(
                "'over' must be an hour or less, since only that much is kept in memory"
            )
    return rules


_ALERT = re.compile(
    r"\s*(?P<metric>[A-Za-z][\w ]*?)\s*(?P<sign>[<>]=?|==|!=)\s*(?P<limit>-?[\d.]+)"
    r"(?:\s+for\s+(?P<length>[\d.]+\s*[a-z]+))?\s*"
)


def parse_alert(text: str) -> OwnRule:
    """A policy in one line: 'temperature > 60', 'sm_active_pct < 5 for 10min'.

    A metric by its name, its column, or its column without the unit. Raises RequestError.
    """
    found = _ALERT.fullmatch(text)
    if found is None:
        raise RequestError(
            f"'{text}' is not a condition", hint="Write it as  --alert 'temperature > 60 for 30s'"
        )
    word = re.sub(r"[^a-z0-9]+", "_", found["metric"].lower())
    column = next((m.column for m in METRICS.values() if word in (m.column, m.plain)), None)
    if column is None:
        raise RequestError(
            f"'{found['metric']}' is not watched",
            why=did_you_mean(word, [m.plain for m in METRICS.values()]),
            hint="What is watched:  sightline watch --list",
        )
    rule: dict[str, Any] = {
        "tag": f"alert-{column.replace('_', '-')}",
        "name": text.strip(),
        "metrics": [column],
        "rule": f"{column}.last {found['sign']} {found['limit']}",
        "hint": f"{text.strip()}: it is {{{column}.last}}",
    }
    if found["length"]:
        rule["watch"] = {"for": found["length"]}
    return parse_rule(rule, f"--alert '{text}'")


@dataclass
class _State:
    """Of one policy for one entity, in ns of the steady clock."""

    since: int | None = None  # when it began to hold
    violated: int | None = None  # when that was
    clear_since: int | None = None
    judged: int | None = None  # when it could be judged last


@dataclass
class Policies:
    """The policies with what is known of each entity. `violations` counts what was violated."""

    rules: Sequence[OwnRule]
    violations: int = 0
    _states: dict[tuple[str, Entity], _State] = field(default_factory=dict)
    # By entity and metric, and by how far back a policy looks.
    _windows: dict[tuple[Entity, str], dict[int, RunningWindow]] = field(default_factory=dict)

    def judge(self, now: Round) -> list[Event]:
        """What is violated since this round, and what is over."""
        kinds = {rule.watched.of for rule in self.rules}
        self._remember(now, [r for r in now.readings if r.entity.kind in kinds])
        found: list[Event] = []
        for rule in self.rules:
            for reading in now.readings:
                if reading.entity.kind == rule.watched.of:
                    event = self._judge(rule, reading.entity, now)
                    found += [event] if event is not None else []
        return found

    def _remember(self, now: Round, readings: Iterable[Reading]) -> None:
        lengths: dict[tuple[str, str], set[int]] = {}  # by kind of entity and metric
        for rule in self.rules:
            for name in rule.metrics:
                wanted = lengths.setdefault((rule.watched.of, _COLUMNS[name]), set())
                wanted.add(max(rule.watched.over_ns, 0))
        used = {metric for _, metric in lengths}
        seen = {reading.entity for reading in now.readings}
        # Processes come and go without end, and none comes back.
        for entity, metric in [k for k in self._windows if _is_gone(k[0], seen)]:
            del self._windows[entity, metric]
        for tag, entity in [k for k in self._states if _is_gone(k[1], seen)]:
            del self._states[tag, entity]
        for reading in readings:
            # What is lost or refused is not known any more.
            for metric in used & reading.missing.keys():
                self._windows.pop((reading.entity, metric), None)
            if "*" in reading.missing:
                for metric in used - reading.values.keys():
                    self._windows.pop((reading.entity, metric), None)
            for metric in used & reading.values.keys():
                windows = self._windows.setdefault((reading.entity, metric), {})
                for length in lengths.get((reading.entity.kind, metric), ()):
                    window = windows.setdefault(length, RunningWindow(length, _MOST))
                    window.add(now.steady_ns, reading.values[metric])

    def _judge(self, rule: OwnRule, entity: Entity, now: Round) -> Event | None:
        state = self._states.setdefault((rule.tag, entity), _State())
        facts = self._list_facts(rule, entity, now.steady_ns)
        outcome = evaluate(rule, facts)
        if outcome.holds is None:  # no reading, or not one that fits: nothing is known, and kept
            return None
        # Over a gap nobody saw it hold.
        if state.judged is not None and now.steady_ns - state.judged > CURRENT_NS:
            state.since = None if state.violated is None else state.since
            state.clear_since = None
        state.judged = now.steady_ns
        if state.violated is None:
            if not outcome.holds:
                state.since = None
                return None
            state.since = now.steady_ns if state.since is None else state.since
            if now.steady_ns - state.since < rule.watched.for_ns:
                return None
            state.violated, state.clear_since = now.steady_ns, None
            self.violations += 1
            text = fill_text(rule.hint, outcome.names) or rule.name
            return Event(now.wall_ns, VIOLATED, entity, f"{rule.tag}: {text}")
        if not _is_clear(rule.watched.clear, outcome.holds, outcome.names):
            state.clear_since = None
            return None
        state.clear_since = now.steady_ns if state.clear_since is None else state.clear_since
        if now.steady_ns - state.clear_since < rule.watched.for_ns:
            return None
        lasted = format_long(state.clear_since - (state.since or state.violated))
        self._states[rule.tag, entity] = _State()
        return Event(now.wall_ns, OVER, entity, f"{rule.tag}: over after {lasted}")

    def _list_facts(self, rule: OwnRule, entity: Entity, steady_ns: int) -> dict[str, Any]:
        facts = {}
        for name in rule.metrics:
            windows = self._windows.get((entity, _COLUMNS[name]), {})
            window = windows.get(max(rule.watched.over_ns, 0))
            if window is None or steady_ns - window.last[0] > CURRENT_NS:
                continue
            # Slow metrics come each half minute: the last one holds until the next.
            window.drop_old(steady_ns)
            facts[name] = window.summarize() | _explain_code(name, window.last[1])
        return facts


def _explain_code(name: str, last: float) -> dict[str, Any]:
    """What a value that is a code means: its severity and text, by the catalogue."""
    if name == "xid":
        code = int(last)
        return {"severity": look_up_action(code).severity, "text": describe_xid(code)}
    return {"text": describe_recovery(last)} if name == "recovery_action" else {}


def _is_gone(entity: Entity, seen: set[Entity]) -> bool:
    """Whether it is a process that was not read."""
    return entity.kind == PROCESS and entity not in seen


def _is_clear(clear: Expression | None, holds: bool, names: Mapping[str, Any]) -> bool:
    if clear is None:
        return not holds
    try:
        return bool(clear.value(names))
    except (Missing, Unfit):
        return False
