"""How Slurm writes times, lengths, sizes, resources and lists of nodes (sacct(1), scontrol(1))."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from sightline.core.host_lists import expand_host_list
from sightline.core.model.declare import Quality
from sightline.core.units import INT64_MAX
from sightline.formats.cluster._jobs import read_real, read_whole, read_word

_LENGTH = re.compile(r"^(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,2}(?:\.\d{1,9})?)$")
_DAYS_HOURS = re.compile(r"^(\d{1,9})-(\d{1,2})$")
_SIZE = re.compile(r"^([\d.]{1,30})\s*([KMGTPE]?)(?:i?B)?([nc]?)$", re.IGNORECASE)
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_SECOND = 10**9
_MOST_NODES = 100_000  # of a job: the largest machines have a tenth of it


def read_time(text: object) -> int | None:
    """'2023-01-16T00:56:11' in ns since 1970, taken as UTC; None for Unknown and what is none."""
    word = read_word(text)
    if word is None:
        return None
    if word.isdecimal():
        return read_whole(int(word) * _SECOND) if 0 < int(word) < 10**10 else None
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    ns = round(moment.timestamp() * 1000) * 1_000_000
    return ns if abs(ns) <= INT64_MAX else None  # the year 0026 is none


def read_length(text: object) -> int | None:
    """'1-02:03:04', '03:04.5' or '5-12' in ns; None for UNLIMITED and what is none."""
    word = read_word(text) or ""
    if (found := _LENGTH.match(word)) is not None:
        days, hours, minutes, seconds = found.groups()
        whole = (int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes)
        return read_whole((whole * 60 + float(seconds)) * _SECOND)
    if (found := _DAYS_HOURS.match(word)) is not None:
        return read_whole((int(found[1]) * 24 + int(found[2])) * 3600 * _SECOND)
    return None


def read_size(text: object, default: str = "") -> int | None:
    """'64G', '500M', '77460K' in bytes; without a letter in units of `default`."""
    return size[0] if (size := read_request(text, default)) is not None else None


def read_request(text: object, default: str = "M") -> tuple[int, str] | None:
    """Bytes, and of what: 'n' of each node, 'c' of each CPU, '' of all (ReqMem: '64Gn', '4Gc')."""
    found = _SIZE.match(read_word(text) or "")
    number = read_real(found[1]) if found is not None else None
    if found is None or number is None:
        return None
    power = _POWERS.get((found[2] or default).upper(), 0)
    size = read_whole(number * 1024**power)
    return None if size is None else (size, found[3].lower())


def read_tres(text: object) -> dict[str, str]:
    """'cpu=8,gres/gpu:a100=4,mem=60G' as names and values."""
    pairs = (part.partition("=") for part in (read_word(text) or "").split(","))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def count_gpus(tres: dict[str, Any]) -> tuple[int | None, str | None]:
    """How many GPUs resources name, and their kind where they say it; None where they name none."""
    kinds = {n.partition(":")[2]: v for n, v in tres.items() if n.startswith("gres/gpu:")}
    kind = next(iter(kinds), None)
    whole = read_whole(tres.get("gres/gpu"))
    if whole is None and kinds:
        whole = sum(read_whole(v) or 0 for v in kinds.values())
    return whole, kind


def count_gres(text: object) -> int | None:
    """GPUs in 'gpu:ampere:8(S:0-1)', 'gpu:8' or 'gpu:a100:4(IDX:0-3),nvme:1'."""
    counts = re.findall(r"gpu(?::[A-Za-z][\w.-]{0,60})?[:=](\d{1,6})", read_word(text) or "")
    return sum(map(int, counts)) if counts else None


def expand_hosts(text: object) -> list[str]:
    """Names in 'node[0201-0203,7],login1'; what is not a list is one name."""
    return list(islice(expand_host_list(read_word(text) or ""), _MOST_NODES))


def read_state(text: object) -> str | None:
    """'CANCELLED by 1000' is cancelled; lists of flags, as JSON has them, by their first word."""
    if isinstance(text, list):
        text = text[0] if text else None
    word = read_word(text)
    return word.split()[0].split("+")[0].lower() if word else None


NO_ZONE = Quality("times_without_zone", "info", "times have no zone: they are taken as UTC")
