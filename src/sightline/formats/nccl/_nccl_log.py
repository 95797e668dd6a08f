"""What NCCL itself says in a log (NCCL_DEBUG=INFO): its lines, and the rest without them.

A line begins with host, process, thread and device: "node:71:92 [0] NCCL INFO text"; a warning has
its place in NCCL's sources before the word. Where a program prints half a line, NCCL's stands
behind it, and the other half follows (src/debug.cc).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.text import replace_surrogates
from sightline.core.units import format_several
from sightline.formats._stacks import note_bad_lines

_HEAD = re.compile(
    r"(?P<host>\w[\w.-]{0,252}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) \[-?\d{1,4}\](?: \S{1,120})?$"
)
_PREFIX = re.compile(r"\s*(?:\[?[\w.,-]{1,40}\]?: ?)?\s*$")
_REACH = 500  # characters in which a head lies
_COMM = re.compile(r"comm 0x\w+ rank (\d{1,9}) n[Rr]anks (\d{1,9}) .*?(?:commId (0x\w+) )?- Init")
_CHANNEL = re.compile(
    # Older versions give no number of connections, and call it a ring.
    r"(?:Channel|Ring) (\d{1,4})(?:/\w+)? : (\d{1,9})\[\w+\] -> (\d{1,9})\[\w+\]"
    r"(?: \[(send|receive)\])? via (\S.*)"
)
# A line of NCCL without its head; its version is printed so by the first rank.
_HEADLESS = re.compile(r"^.*(?:NCCL (?:INFO|WARN)| via (?:P2P|SHM|NET)).*$", re.MULTILINE)
# Another line of NCCL behind the first, and a line that ends before its text.
_AGAIN = re.compile(r":\d{1,10}:\d{1,10} \[-?\d{1,4}\](?: \S{1,120})? NCCL (?:INFO|WARN) ")
_HALF = re.compile(
    r"^\w[\w.-]{0,252}:\d{1,10}:\d{1,10} \[-?\d{1,4}\]?(?: (?:N|NC|NCC|NCCL)?)?$"
    r"|^\w[\w.-]{0,252}:\d{1,10}:(?:\d{1,10} ?\[?)?$",
    re.MULTILINE,
)
_LEVELS = ("INFO", "WARN", "ERROR", "ABORT", "TRACE", "CALL", "VERSION")
_RING = re.compile(r"Channel (\d{1,4})/(\d{1,4}) *:(?: +\d+)+\s*$")
_VERSION = re.compile(r"NCCL version (\S{1,40})")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_FEW = 3  # lines that are not NCCL's
_SHOWN = 8  # warnings of different texts that are quoted

_Communicator = tuple[str | None, int | None]  # its id, and how many ranks it has
CHANNELS: dict[str, type[pl.DataType]] = {
    "group": pl.String,
    "group_size": pl.Int64,
    "channel": pl.Int64,
    "source_rank": pl.Int64,
    "target_rank": pl.Int64,
    "end": pl.String,
    "transport": pl.String,
    "via": pl.String,
}


@dataclass(frozen=True)
class Said:
    """One line of NCCL's: of which thread, INFO or WARN, and its text."""

    thread: tuple[str, str, str]  # host, process, thread
    level: str
    text: str


def split_log(text: str) -> tuple[str, list[Said]]:
    """The text without NCCL's lines, halves of other lines joined again; and NCCL's lines."""
    rest: list[str] = []
    said: list[Said] = []
    hosts: set[str] = set()
    for line in text.splitlines(keepends=True):
        at = line.find(" NCCL ")
        begin = max(0, at - _REACH)
        # Nearly all begin their lines: looking for the head elsewhere takes ten times longer.
        head = _HEAD.match(line, 0, at) if 0 <= at <= _REACH else None
        if head is None and at >= 0:
            head = _HEAD.search(line[begin:at])
        if head is None:
            rest.append(line)
            continue
        before, host = line[: begin + head.start()], head["host"]
        if _PREFIX.match(before):
            hosts.add(host)
        else:
            # "-1node": what stands before the host's name is the program's.
            known = max((h for h in hosts if host.endswith(h)), key=len, default=host)
            rest.append(before + host[: len(host) - len(known)])
            host = known
        level, _, words = line[at + 6 :].strip().partition(" ")
        said.append(Said((host, head["pid"], head["tid"]), level, words.strip()))
    return "".join(rest), said


def read_channels(said: Sequence[Said]) -> pl.DataFrame:
    """A row for each end of a channel, by the communicator that its thread was making.

    Channels that are made later are made by other threads: theirs is known where the log has one
    communicator only.
    """
    making: dict[tuple[str, str, str], _Communicator] = {}
    every: set[_Communicator] = set()
    rows: list[tuple[_Communicator | None, re.Match[str]]] = []
    for line in said:
        if " - Init" in line.text and (comm := _COMM.search(line.text)) is not None:
            making[line.thread] = (comm[3], int(comm[2]))
            every.add(making[line.thread])
        elif (
            line.text.startswith(("Channel ", "Ring "))
            and (found := _CHANNEL.match(line.text)) is not None
        ):
            rows.append((making.get(line.thread), found))
    only = every.pop() if len(every) == 1 else (None, None)
    transports = {via: _name_transport(via) for via in {found[5] for _, found in rows}}
    return pl.DataFrame(
        [
            (
                *(comm or only),
                *(int(found[n]) for n in (1, 2, 3)),
                found[4],
                *transports[found[5]],
            )
            for comm, found in rows
        ],
        schema=CHANNELS,
        orient="row",
    )


def note_missing_channels(said: Sequence[Said], text: str) -> list[Quality]:
    """Notes on channels of which nothing is said, and on lines that are damaged.

    Where a communicator is made, each of its channels is listed as "Channel 03/16", of sixteen.
    """
    listed: dict[tuple[tuple[str, str, str], int], set[int]] = {}
    bad = len(_HEADLESS.findall(text)) + len(_HALF.findall(text))
    hosts = {line.thread[0] for line in said}
    others = [row.strip() for row in text.splitlines() if row.strip()]
    # What is left of a line is its host, and perhaps a process: host:17:19 [0] NCCL INFO …
    heads = (re.match(r"^(.+?)(?::\d*){1,2}$", row) for row in others)
    bad += sum(head is not None and head[1] in hosts for head in heads)
    if len(others) <= _FEW:  # of NCCL alone: what is left of a line is the beginning of its host
        bad += sum(host.startswith(row) for row in others for host in hosts)
    for line in said:
        bad += line.text != "" and "Channel".startswith(line.text)
        bad += not line.text and (line.level not in _LEVELS or line.level == "INFO")
        if (ring := _RING.match(line.text)) is not None and ring[2] not in ("0", "00"):
            listed.setdefault((line.thread, int(ring[2])), set()).add(int(ring[1]))
        elif ring is not None:
            bad += 1  # of no channel: a connection of one, which is cut off
        elif " via " in line.text or line.text.startswith("Chan") or "] -> " in line.text:
            bad += _CHANNEL.match(line.text) is None and (
                " : " not in line.text or "->" in line.text or "[" in line.text
            )
        bad += bool(_AGAIN.search(line.text))
    missing = sum(total - len(known) for (_, total), known in listed.items() if total > len(known))
    notes = note_bad_lines(bad, "line of NCCL")
    if missing:
        text = "channels that NCCL numbers are not listed: lines of the log are missing"
        notes.append(Quality("missing_channels", "warning", text, missing))
    return notes


def _name_transport(text: str) -> tuple[str, str]:
    """The transport, and the text as a whole."""
    first = re.split(r"[/ ]", text, maxsplit=1)[0]
    return replace_surrogates(first), replace_surrogates(text.strip())


def find_version(said: Sequence[Said]) -> str | None:
    """The version of NCCL, where it said so."""
    found = (_VERSION.search(f"{line.level} {line.text}") for line in said)
    return next((match[1] for match in found if match), None)


def note_warnings(said: Sequence[Said]) -> list[Quality]:
    """What NCCL warned of, each text once."""
    count: dict[str, int] = {}
    for line in said:
        if line.level in ("WARN", "ERROR", "ABORT"):
            words = _ADDRESS.sub("(address)", replace_surrogates(line.text)[:300])
            count[words] = count.get(words, 0) + 1
    most = sorted(count.items(), key=lambda item: -item[1])
    notes = [Quality("nccl_warning", "warning", f"NCCL: {words}", n) for words, n in most[:_SHOWN]]
    if len(most) > _SHOWN:
        more = f"NCCL: warnings of {format_several(len(most) - _SHOWN, 'more text')}"
        notes.append(Quality("nccl_warning", "warning", more, sum(n for _, n in most[_SHOWN:])))
    return notes
