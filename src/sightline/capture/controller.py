"""One capture of many nodes: one start on all their clocks, then who is slow and why.

A clock is compared as NTP does (RFC 5905, section 8; asking.compare_times). Kineto takes a start in
whole ms.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from sightline.capture.asking import CLOCKS, Direct, Tree, compare_times, take_first
from sightline.capture.client import Client, take_data
from sightline.capture.relay import Question, Told
from sightline.capture.request import CaptureRequest
from sightline.core.model import run_folder
from sightline.core.units import format_several
from sightline.core.whole_file import write_whole
from sightline.errors import InputError, RequestError, SightlineError
from sightline.fleet.answer import Answer, choose_ranks, judge_ranks
from sightline.fleet.rank_file import RankFile, read_ranks, write_ranks
from sightline.fleet.read import collect_ranks
from sightline.record.collect.kineto_door import LATE_S, POLL_S, WARM_UP_S

_TRACE = re.compile(r"(?:rank|proc)[\w-]{1,100}\.torch-0\.json(?:\.gz)?")  # names are the nodes'
PERIOD_S = 0.25  # between two questions how far a node is, at least
# For each node that one asks: a question takes 0.5 ms of its processor (docs/scale.md), so 10 %.
_EACH_S = 0.005
_PATIENCE = 0.04  # of what was waited for already: who waits for long waits so much longer (ours)
# Behind the end of what is recorded: Kineto writes, the node reduces (node.TRACE_S and more).
_MOST_S = 900.0
MOST_FETCHED = 512 << 20  # bytes of traces that come by themselves
WORST, ALL, NONE = "worst", "all", "none"


@dataclass
class Asked:
    """One node: its clock against ours, and what became of its part."""

    client: Client
    name: str
    offset_ns: int = 0  # its clock less ours
    uncertainty_ns: int = 0
    listeners: list[dict[str, Any]] = field(default_factory=list)
    has_gpu: bool = True
    state: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @property
    def ahead_ns(self) -> int:
        """By how much its clock is taken to be ahead: not at all, if that is as likely.

        A cluster's clocks are kept together by NTP or PTP, mostly better than a question tells.
        """
        return self.offset_ns if abs(self.offset_ns) > self.uncertainty_ns else 0


@dataclass(frozen=True)
class Wanted:
    """What is to be captured; `warm_up_s` None: as long as the nodes' devices ask for."""

    job: str | None = None
    ranks: tuple[int, ...] = ()
    seconds: float = 2.0
    steps: int = 0
    align: int = 100
    wanted: tuple[str, ...] = ("shapes",)
    warm_up_s: float | None = None
    traces: str = WORST
    pids: tuple[int, ...] = ()


@dataclass
class Outcome:
    """What came of a capture. `answer` None: fewer than two ranks could be reduced."""

    nodes: list[Asked]
    answer: Answer | None
    problems: list[str]
    files: list[Path]
    starts_apart_ns: int | None  # between the first events of the first and the last rank

    @property
    def uncertainty_ns(self) -> int:
        """Of the clocks that were compared, the worst."""
        return max((node.uncertainty_ns for node in self.nodes if not node.problem), default=0)


def look_around(clients: Sequence[Client], asker: Direct | Tree | None = None) -> list[Asked]:
    """Who listens on each node, and how its clock stands; `asker` None: asked one by one."""
    questions = (*CLOCKS, Question("GET", "/v1/node"))
    found = (asker or Direct()).ask([(client, questions) for client in clients])
    nodes = []
    for client, told in zip(clients, found, strict=True):
        try:
            nodes.append(_read_node(client, told))
        except SightlineError as error:
            nodes.append(Asked(client, client.address.name, problem=_write(error)))
    return nodes


def _read_node(client: Client, found: list[Told] | SightlineError) -> Asked:
    if isinstance(found, SightlineError):
        raise found
    name = client.address.name
    *clocks, last = found
    offset, uncertainty = compare_times(name, clocks)
    told = take_data(name, last.answer)
    try:
        return Asked(
            client, str(told["node"])[:64], offset, uncertainty,
            list(told["listeners"]), bool(told["has_gpu"]),
        )  # fmt: skip
    except (TypeError, KeyError) as error:
        raise InputError(f"{name} is not a daemon of sightline") from error


def capture(
    nodes: Sequence[Asked],
    wanted: Wanted,
    folder: Path,
    say: Callable[[str], None],
    asker: Direct | Tree | None = None,
) -> Outcome:
    """Record the job's ranks on these nodes, and keep what they say in a folder.

    Raises RequestError where nobody listens, InputError where no rank was recorded.
    """
    chosen = [node for node in nodes if not node.problem and _select(node, wanted)]
    if not chosen:
        raise _find_nobody(nodes, wanted)
    identity, asker = os.urandom(8).hex(), asker or Direct()
    has_gpu = any(node.has_gpu for node in chosen)
    warm_up_s = (WARM_UP_S if has_gpu else 0.0) if wanted.warm_up_s is None else wanted.warm_up_s
    # All clients ask once more until then, and have Kineto's warm-up before them.
    lead_s = POLL_S + warm_up_s + LATE_S
    start_ns = time.time_ns() + round(lead_s * 1e9)
    request = CaptureRequest(
        identity, 0, wanted.seconds, warm_up_s, wanted.job, wanted.ranks,
        wanted.steps, wanted.align, wanted.wanted, wanted.pids,
    )  # fmt: skip
    _begin(asker, chosen, request, start_ns)
    begun = [node for node in chosen if not node.problem]
    if not begun:
        raise RequestError("no node began", why=chosen[0].problem)
    count = sum(len(node.state.get("expected", ())) for node in begun)
    what = f"{wanted.seconds:g} s in {lead_s:.0f} s, once all nodes have the order"
    if wanted.steps:
        what = f"{wanted.steps} steps, starting at a multiple of {wanted.align:,}"
    on = "this node" if len(begun) == 1 else format_several(len(begun), "node")
    say(f"{format_several(count, 'process', 'processes')} on {on} record {what}")
    if not wanted.steps:  # no node is done before
        time.sleep(max(start_ns / 1e9 + wanted.seconds - time.time(), 0.0))
    _wait(asker, begun, identity, lead_s + wanted.seconds + _MOST_S)
    return _gather(asker, list(nodes), begun, identity, wanted, folder)


def _select(node: Asked, wanted: Wanted) -> list[dict[str, Any]]:
    return [
        one
        for one in node.listeners
        if wanted.job in (None, one.get("job"))
        and (not wanted.ranks or one.get("rank") in wanted.ranks)
        and (not wanted.pids or one.get("pid") in wanted.pids)
    ]


def _find_nobody(nodes: Sequence[Asked], wanted: Wanted) -> RequestError:
    problem = next((node.problem for node in nodes if node.problem), None)
    jobs = sorted({str(one.get("job")) for node in nodes for one in node.listeners})
    if jobs:
        return RequestError(
            f"no process of job {wanted.job} listens"
            if wanted.job
            else f"none of these {'processes' if wanted.pids else 'ranks'} listens",
            why=f"those that listen belong to {', '.join(jobs[:5])}",
            hint="Who there is:  sightline capture --who",
        )
    return RequestError(
        "no process listens",
        why=problem
        or "no program there was started with KINETO_USE_DAEMON=1, or none has contacted the "
        "daemon yet",
        hint="Start the job with KINETO_USE_DAEMON=1; PyTorch asks every 5 s.",
    )


def _begin(
    asker: Direct | Tree, nodes: Sequence[Asked], request: CaptureRequest, start_ns: int
) -> None:
    asked = []
    for node in nodes:
        start_ms = round((start_ns + node.ahead_ns) / 1e6)
        body = replace(request, start_ms=start_ms).encode()
        asked.append((node.client, (Question("POST", "/v1/captures", body),)))
    for node, found in zip(nodes, asker.ask(asked), strict=True):
        told = take_first(node.client.address.name, found)
        if isinstance(told, Exception):
            node.problem = _write(told)
        else:
            node.state = told


def _wait(asker: Direct | Tree, nodes: Sequence[Asked], identity: str, most_s: float) -> None:
    """Until every node is done, or is lost: that it does not answer once is no loss."""
    began = time.monotonic()
    limit = began + most_s
    waiting = list(nodes)
    silent: dict[int, int] = {}
    question = (Question("GET", f"/v1/captures/{identity}"),)
    while waiting and time.monotonic() < limit:
        at_once = _EACH_S * min(asker.width or len(waiting), len(waiting))
        time.sleep(max(PERIOD_S, at_once, _PATIENCE * (time.monotonic() - began)))
        told = asker.ask([(node.client, question) for node in waiting])
        for node, found in zip(list(waiting), told, strict=True):
            state = take_first(node.client.address.name, found)
            if isinstance(state, Exception):
                silent[id(node)] = silent.get(id(node), 0) + 1
                if silent[id(node)] < 3:
                    continue
                node.problem = _write(state)
                waiting.remove(node)
            elif state.get("state") == "done":
                node.state = state
                waiting.remove(node)
    for node in waiting:
        node.problem = f"{node.name} was not done in time"


def _gather(
    asker: Direct | Tree,
    nodes: list[Asked],
    begun: Sequence[Asked],
    identity: str,
    wanted: Wanted,
    folder: Path,
) -> Outcome:
    held: dict[str, tuple[Asked, RankFile]] = {}
    done = [node for node in begun if not node.problem]
    question = (Question("GET", f"/v1/captures/{identity}/ranks"),)
    files = asker.ask([(node.client, question) for node in done])
    for node, found in zip(done, files, strict=True):
        if isinstance(found, SightlineError):
            node.problem = _write(found)
            continue
        if (sent := found[0].answer).status != 200:
            continue  # what its state says is why
        place = (
            f"{len(held):04d}-{re.sub(r'[^A-Za-z0-9.-]', '_', node.name)}{run_folder.RANKS_ENDING}"
        )
        try:
            moved = move_onto(read_ranks(sent.body, node.name), node.ahead_ns)
        except SightlineError as error:
            node.problem = _write(error)
            continue
        held[place] = node, moved
        write_whole(folder / place, write_ranks(moved))
    problems = [f"{n.name}: {n.problem}" for n in nodes if n.problem]
    for node in done:
        problems += [f"{node.name}: {text}" for text in node.state.get("problems", ())]
    problems += [f"{name}: {why}" for _, file in held.values() for name, why in file.lost]
    reads = [(name, [rank]) for _, file in held.values() for name, rank in file.ranks]
    begins = [rank.begin_ns for _, found in reads for rank in found]
    answer = judge_ranks(collect_ranks(reads, together=True)) if len(begins) > 1 else None
    fetched = _fetch(held, done, identity, wanted, answer, folder, problems)
    facts = {
        "command": [], "question": "timeline", "backends": ["torch"], "state": "ended",
        "seconds": wanted.seconds,
        "notes": [{"kind": "capture", "severity": "warning", "text": text} for text in problems],
    }  # fmt: skip
    if fetched:
        run_folder.write_facts(folder, f"capture-{identity}", facts)
    apart = max(begins) - min(begins) if begins else None
    return Outcome(nodes, answer, problems, fetched, apart)


def move_onto(file: RankFile, offset_ns: int) -> RankFile:
    """Ranks of a clock that is ahead by so much, on ours: as near as the clocks were compared."""
    times = ("start_ns", "end_ns")
    return RankFile(
        [
            (
                name,
                replace(
                    rank,
                    rows=rank.rows.with_columns(pl.col(times) - offset_ns),
                    begin_ns=rank.begin_ns - offset_ns,
                    end_ns=rank.end_ns - offset_ns,
                ),
            )
            for name, rank in file.ranks
        ],
        file.lost,
    )


def _fetch(
    held: dict[str, tuple[Asked, RankFile]],
    done: Sequence[Asked],
    identity: str,
    wanted: Wanted,
    answer: Answer | None,
    folder: Path,
    problems: list[str],
) -> list[Path]:
    """Traces that a person will look at: of the worst ranks and a usual one, or all, or none."""
    if wanted.traces == NONE:
        return []
    ranks = None if wanted.traces == ALL or answer is None else set(choose_ranks(answer))
    names = {
        name: node
        for node, file in held.values()
        for name, rank in file.ranks
        if ranks is None or rank.rank in ranks
    }
    if answer is None:  # what could not be reduced, too
        names |= {name: node for node in done for name in node.state.get("files", ())}
    names = {name: node for name, node in names.items() if _TRACE.fullmatch(name)}
    left, fetched = MOST_FETCHED, []
    for name, node in names.items():
        size = int(node.state.get("files", {}).get(name, 0))
        if size > left and wanted.traces != ALL:
            problems.append(f"{name} stays on {node.name}: it has {size >> 20:,} MiB")
            continue
        left -= size
        if shutil.disk_usage(folder).free < 2 * size:
            raise InputError(f"there is no room for {name} in {folder}")
        got = node.client.ask("GET", f"/v1/captures/{identity}/files/{name}")
        if got.status == 200:
            write_whole(folder / name, got.body)
            fetched.append(folder / name)
    return fetched


def _write(error: object) -> str:
    if isinstance(error, SightlineError):
        return f"{error.what}: {error.why}" if error.why else error.what
    return str(error)


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """A capture as data, without the ranks' own answer."""
    return {
        "nodes": [
            {
                "node": node.name,
                "clock_offset_ns": node.offset_ns,
                "clock_uncertainty_ns": node.uncertainty_ns,
                "processes": len(node.state.get("expected", ())),
                "recorded": node.state.get("told", 0),
                "problem": node.problem,
            }
            for node in outcome.nodes
        ],
        "starts_apart_ns": outcome.starts_apart_ns,
        "clock_uncertainty_ns": outcome.uncertainty_ns,
        "problems": outcome.problems,
        "traces": [path.name for path in outcome.files],
    }


def encode_outcome(outcome: Outcome) -> str:
    """The same as text."""
    return json.dumps(describe_outcome(outcome), indent=1)
