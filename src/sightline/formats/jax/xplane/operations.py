"""What the operations of an XLA accelerator are: by the category that XLA itself gives each.

On the line `XLA Ops` of a TPU stands what its core does, one after the other. What runs
beside it (copies to and from the host's memory, asynchronous collectives) the core only starts, and
waits for its end: `X-start` and `X-done`. The line `Async XLA Ops` has the work itself, from one to
the other; where XLA recorded that of one core only, it is put together from both.
Source: openxla/xla, xla/hlo/ir/hlo_opcode.h; openxla/xprof, utils/xplane_schema (hlo_category).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sightline.formats.jax.xplane.planes import Event

CORE_LINE, ASYNC_LINE = "XLA Ops", "Async XLA Ops"

# Opcodes of collectives, by the name that a collective has here.
COLLECTIVES = {
    "all-reduce": "allreduce", "all-gather": "allgather", "reduce-scatter": "reducescatter",
    "all-to-all": "alltoall", "ragged-all-to-all": "alltoall", "collective-permute": "sendrecv",
    "collective-broadcast": "broadcast", "send": "send", "recv": "recv",
}  # fmt: skip
_COPIES = {"copy": None, "infeed": "HtoD", "outfeed": "DtoH", "host send": "DtoH",
           "host recv": "HtoD"}  # fmt: skip
# They last as long as what they call, which stands in the line, too.
_FRAMES = frozenset({"while", "conditional", "call"})
_OPCODE = re.compile(r"^%?([a-z][a-z-]*)(?:\.[\d.a-z]+)?$")  # without its number
_PART = re.compile(r"^(.+?)[ -](start|done|update)$")
_OPERAND = re.compile(r"%([\w.-]+)\)")
_TEXTS_AT_ONCE = 1 << 12  # operations whose text is read once for all their events
_HOST_SPACE = "S(5)"  # xla/service/memory_space_assignment: memory of the host


class Work(NamedTuple):
    """An operation: its kind as `device_ops` has it, and the collective that it is."""

    event: Event
    kind: str
    collective: str | None = None
    copy_kind: str | None = None


@functools.lru_cache(maxsize=_TEXTS_AT_ONCE)
def split_category(category: str) -> tuple[str, str]:
    """What an operation is of, and which part of it: start, done, update, or all of it."""
    found = _PART.match(category)
    return (found[1], found[2]) if found else (category, "")


def name_category(event: Event) -> str:
    """The category that XLA gives an operation; without one its opcode, which begins its name."""
    told = event.facts.get("hlo_category")
    if told:
        return str(told)
    found = _OPCODE.match(_name(event))
    opcode = found[1] if found else ""
    base = split_category(opcode)[0]
    return opcode if base in COLLECTIVES or base in _COPIES or opcode in _FRAMES else ""


def list_core_work(events: Iterable[Event], *, has_async: bool) -> Iterator[Work | Event]:
    """What a core's line holds; what only frames other operations comes as an `Event`.

    Without a line of the asynchronous work that is put together from its starts and ends.
    """
    started: dict[str, Event] = {}
    for event in sorted(events, key=lambda event: (event.start_ns, event.end_ns)):
        category = name_category(event)
        base, part = split_category(category)
        if category in _FRAMES:
            yield event
            continue
        if not part:
            yield _judge_work(event, base)
            continue
        # The core issues it, or waits for it.
        yield Work(event, "other")
        if part == "start":
            started[_name(event)] = event
        elif part == "done" and not has_async:
            begun = started.pop(_find_start(event), None)
            if begun is not None and begun.start_ns <= event.end_ns:
                whole = begun._replace(end_ns=event.end_ns)
                yield _judge_work(whole, base)


def list_async_work(events: Iterable[Event]) -> Iterator[Work]:
    """The asynchronous work that XLA recorded itself."""
    for event in events:
        yield _judge_work(event, split_category(name_category(event))[0])


def _judge_work(event: Event, base: str) -> Work:
    if base in COLLECTIVES:
        return Work(event, "kernel", COLLECTIVES[base])
    if base in _COPIES:
        return Work(event, "memcpy", None, _COPIES[base] or _find_direction(event.text))
    return Work(event, "kernel")


@functools.lru_cache(maxsize=_TEXTS_AT_ONCE)
def _find_direction(text: str) -> str:
    """Between which memories a copy goes: its text names the space of both."""
    result, _, operand = text.partition("copy-start(") if "copy-start(" in text else ("", "", "")
    to_host = _HOST_SPACE in result.partition("}")[0]
    from_host = _HOST_SPACE in operand.partition(")")[0] or _HOST_SPACE in operand
    if to_host and not from_host:
        return "DtoH"
    return "HtoD" if from_host and not to_host else "DtoD"


def _find_start(event: Event) -> str:
    """The name of what began that which an event waits for: its operand, else by its number."""
    operand = _find_operand(event.text)
    return operand if operand is not None else _name(event).replace("-done", "-start")


@functools.lru_cache(maxsize=_TEXTS_AT_ONCE)
def _find_operand(text: str) -> str | None:
    operands = _OPERAND.findall(text)
    return operands[-1] if operands else None


def _name(event: Event) -> str:
    """An operation's own name, as others' texts spell it."""
    found = re.match(r"%([\w.-]+) =", event.text)
    return found[1] if found else event.name


def describe_work(work: Work) -> dict[str, Any]:
    """What an operation's row has besides its place and times."""
    size = work.event.facts.get("bytes_accessed")
    is_copy = work.kind == "memcpy" and isinstance(size, int) and 0 < size < 2**62
    return {
        "kind": work.kind,
        "name": _name(work.event) if work.kind == "memcpy" else work.event.name,
        "bytes": size if is_copy else None,
        "copy_kind": work.copy_kind,
        "collective": work.collective,
    }
