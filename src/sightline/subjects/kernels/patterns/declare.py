"""What a pattern is: which calls of operators it means, and what of their time has to stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import polars as pl

from sightline.roofline.operators.arguments import Arguments
from sightline.subjects.kernels.patterns.calls import Calls, code_name

# What a match keeps: bytes that still have to move. None: the arguments do not match.
Keep = int | None
OneCall = Callable[[Arguments], Keep]
SeveralCalls = Callable[[Sequence[Arguments]], Keep]

MATCHES = {"call": pl.Int64, "match": pl.Int64, "keep_bytes": pl.Float64, "keep_ns": pl.Float64}


@dataclass(frozen=True)
class Pattern:
    """A row of the table: calls that do a thing in a slow way, and the way that is faster.

    `find` gives the matches in the columns MATCHES: a call, the number of the match that it is part
    of, and what one match keeps at least, by the bytes that still have to move and in ns. `rule`
    speaks of it. `with_backward`: the kernels of the calls' backward operators are part of it.
    `with_host`: calls go away with their kernels, and so does what the host does for them, and in
    `ranges` (rank, pid, tid, start_ns, end_ns), where that is elsewhere.
    """

    name: str
    title: str
    find: Callable[[Calls], pl.DataFrame]
    cause: str
    fix: str
    source: str
    rule: str = "operator-patterns"
    confidence: str = "medium"
    with_backward: bool = True
    with_host: bool = True
    ranges: Callable[[Calls], pl.DataFrame] | None = None


def make_matches(rows: Iterable[tuple[int, int, float, float]]) -> pl.DataFrame:
    """Matches of rows (call, match, bytes kept, ns kept)."""
    return pl.DataFrame(list(rows), schema=MATCHES, orient="row")


def keep_nothing(calls: pl.DataFrame) -> pl.DataFrame:
    """Matches of these calls (`call`), each by itself, of which nothing has to stay."""
    return calls.select("call", match="call", keep_bytes=pl.lit(0.0), keep_ns=pl.lit(0.0))


def match_each(names: str, keep: OneCall) -> Callable[[Calls], pl.DataFrame]:
    """Every call by itself whose whole name is `names`, a pattern, and whose arguments match."""

    def find(calls: Calls) -> pl.DataFrame:
        whole = re.compile(names).fullmatch
        known = {
            kind: found
            for kind, (name, args) in enumerate(calls.kinds)
            if args is not None and whole(name) and (found := keep(args)) is not None
        }
        if not known:
            return make_matches(())
        bytes_of = pl.DataFrame(
            {"kind": list(known), "keep_bytes": list(known.values())},
            schema={"kind": pl.Int64, "keep_bytes": pl.Float64},
        )
        return (
            calls.table.join(bytes_of, on="kind", maintain_order="left")
            .select("call", "keep_bytes", match="call", keep_ns=pl.lit(0.0))
            .select(*MATCHES)
        )

    return find


def match_row(
    *links: str,
    keep: SeveralCalls,
    after: str | None = None,
    before: str | None = None,
    meant: int | None = None,
) -> Callable[[Calls], pl.DataFrame]:
    """Calls that follow each other on a thread: a pattern of the whole name for each, in order.

    A link that ends in ` ?`, ` *` or ` {8,}` may be absent or come so often. What has to stand
    `before` or `after` them is not part of the match; `keep` gets the calls of the match alone.
    `meant`: only so many of them from the first on are what could be saved.
    """

    def find(calls: Calls) -> pl.DataFrame:
        codes = []
        for link in links:
            code = _code_link(link, calls.names)
            if code is None:  # most programs have most links nowhere
                return make_matches(())
            codes.append(code)
        ends = [None if end is None else _code_link(end, calls.names) for end in (after, before)]
        if (after and not ends[0]) or (before and not ends[1]):
            return make_matches(())
        behind = f"(?<={ends[0]})" if ends[0] else ""
        ahead = f"(?={ends[1]})" if ends[1] else ""
        pattern = re.compile(behind + "".join(codes) + ahead)
        judge = cache(lambda kinds: _judge(calls, kinds, keep))
        rows: list[tuple[int, int, float, float]] = []
        for found in pattern.finditer(calls.text):
            places = range(*found.span())
            kept = judge(tuple(calls.kind_of[i] for i in places))
            if kept is not None:
                rows += ((calls.call_of[i], found.start(), kept, 0.0) for i in places[:meant])
        return make_matches(rows)

    return find


def _code_link(link: str, names: Sequence[str]) -> str | None:
    """A class of the characters that stand for these names; None where none has to be there."""
    name, _, times = link.partition(" ")
    whole = re.compile(name).fullmatch
    chars = "".join(code_name(i) for i, known in enumerate(names) if whole(known))
    if not chars:
        return "" if times in ("*", "?") else None
    return f"[{chars}]{times}"


def _judge(calls: Calls, kinds: tuple[int, ...], keep: SeveralCalls) -> Keep:
    several = [args for kind in kinds if (args := calls.kinds[kind][1]) is not None]
    return keep(several) if len(several) == len(kinds) else None
