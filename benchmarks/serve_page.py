"""How fast `sightline serve` answers for a run of many events, and what memory it takes.

    python benchmarks/serve_page.py [EVENTS_PER_RANK] [RANKS] [--keep FOLDER]

Writes a simulated training loop (tests/web/million.py) of EVENTS_PER_RANK (default 10 million) as
a store of RANKS recordings (default 1), starts `sightline serve` on it, and asks for random ranges
of each length at the resolution of a screen of 1 200 pixels, all rows in view up to 40. Prints
medians, the slowest, the server's mean processor time, and its memory: what it owns, and the
mapped file pages that the system takes back when it needs them. Panels are asked for once, until
they are made, and then again. --make prints instead what making each of them takes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
MAKE = """
import sys
import sightline
from sightline.views.html.view import PageView
from sightline.views.serve.panels import answer_panel
run = sightline.open(sys.argv[1])
view = PageView(run, served=True)
view.span = (0, 0)  # the index knows it
answer_panel(view, sys.argv[2])
print(sum(run.rows(table) for table in ("device_ops", "host_ops", "device_ranges")))
"""
TIMES, LANES, PIXELS = 20, 40, 1_200


def many_ranks(one: Path, target: Path, ranks: int) -> None:
    """A store of `ranks` recordings like the one in `one`, each a little later."""
    from sightline.core.model.store import ID_SHIFT, read_facts, write_store
    from sightline.core.registry import load

    facts = {k: v for k, v in read_facts(one)[0].items() if k not in ("rank", "rows")}

    def recordings() -> Iterator[tuple[int, dict[str, Any], dict[str, pl.LazyFrame]]]:
        for rank in range(ranks):
            tables = {}
            for name in ("device_ops", "host_ops"):
                rows = pl.scan_parquet(one / name / "rank=0" / "0.parquet", hive_partitioning=False)
                ids = [c for c in load("tables", name).TABLE.ids if c != "recording_id"]
                tables[name] = rows.with_columns(
                    *[pl.col(c) + (rank << ID_SHIFT) for c in ids],
                    *[pl.col(c) + rank * 1_370 for c in ("start_ns", "end_ns")],
                )
            yield rank, facts, tables

    write_store(target, recordings(), sightline_version="benchmark")


def memory(pid: int) -> dict[str, float]:
    """MB that a process has, by kind."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {k: int(found[k].split()[0]) / 1e3 for k in ("RssAnon", "RssFile", "VmHWM")}


def timed(url: str, query: str) -> tuple[float, int]:
    """Milliseconds and bytes of an answer."""
    began = time.perf_counter()
    with urllib.request.urlopen(url + query, timeout=600) as answer:
        size = len(answer.read())
    return 1e3 * (time.perf_counter() - began), size


def processor_ms(pid: int) -> float:
    """Milliseconds of processor time that a process has used, without its children's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1e3 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(label: str, pid: int, url: str, queries: list[str]) -> None:
    """Ask all queries, and print what an answer takes."""
    before = processor_ms(pid)
    found = [timed(url, query) for query in queries]
    mean = (processor_ms(pid) - before) / len(queries)
    times = [t for t, _ in found]
    size = median(n for _, n in found) / 1e3
    print(f"{label:42}{median(times):9.1f}{max(times):9.1f}{mean:12.1f}{size:10.0f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", nargs="?", type=int, default=10_000_000)
    parser.add_argument("ranks", nargs="?", type=int, default=1)
    parser.add_argument("--make", nargs="*", metavar="PANEL", help="only what making panels takes")
    parser.add_argument("--keep", metavar="FOLDER", help="make or use the store in this folder")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        store = folder / f"{args.events}x{args.ranks}.sightline"
        if not store.exists():
            from web.million import write

            one = folder / f"{args.events}.sightline"
            if not one.exists():
                write(one, args.events)
            if args.ranks > 1:
                many_ranks(one, store, args.ranks)
            else:
                one.rename(store)
        if args.make is None:
            measure(store)
        else:
            make_panels(store, args.make)
    return 0


def measure(store: Path) -> None:
    began = time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-m", "sightline.doors.cli.main", "serve", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        ready = time.perf_counter() - began
        after = memory(server.pid)
        page = urllib.request.urlopen(url, timeout=600).read()
        content = data_of(page)
        block = next(p for p in content["panels"] if p["name"] == "timeline")["blocks"][0]
        kinds = len(block["names"])
        events, length = block["in_tables"], content["length_ns"]
        lanes = ",".join(map(str, range(min(LANES, len(block["lanes"]["n"])))))
        print(f"{events:,} events, {len(block['lanes']['n'])} rows, load {os.getloadavg()[0]:.1f}")
        print(
            f"prepared in {ready:.1f} s, {after['VmHWM']:,.0f} MB at most; "
            f"page {len(page) / 1e3:.0f} kB"
        )
        print(f"{'':42}{'median ms':>9}{'max ms':>9}{'processor ms':>12}{'kB':>10}")
        rng = random.Random(0)
        for share in (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5):
            span = int(length * share)
            queries = []
            for _ in range(TIMES):
                first = rng.randrange(max(1, length - span + 1))
                # As the page asks: as much again on both sides.
                query = f"window?from={first - span}&to={first + 2 * span}&lanes={lanes}"
                queries.append(f"{query}&column={max(2 * span / PIXELS, 0.1)}")
            ask(f"rows and range, {share:g} of the run shown", server.pid, url, queries)
        moments = [rng.randrange(length) for _ in range(TIMES)]
        name = urllib.parse.quote(block["names"][0])
        part = length // 100
        for label, queries in (
            ("details of an event", [f"facts?id={rng.randrange(events)}" for _ in moments]),
            (
                "next of a name",
                [f"next?at={t}&after=-1&name={rng.randrange(kinds)}" for t in moments],
            ),
            ("breakdown, 1 % of the run", [f"breakdown?from={t}&to={t + part}" for t in moments]),
            ("breakdown, all of the run", [f"breakdown?from=0&to={length}"] * 5),
            ("instances of a kernel", [f"instances?name={name}"] * 5),
        ):
            ask(label, server.pid, url, queries)
        panels = [p["name"] for p in content["panels"] if p["name"] != "timeline"]
        ask_panels(server.pid, url, panels)
        now = memory(server.pid)
        print(
            f"memory now {now['RssAnon']:,.0f} MB own, {now['RssFile']:,.0f} MB mapped file "
            f"pages; {now['VmHWM']:,.0f} MB at most"
        )
    finally:
        server.terminate()
        server.wait()


def ask_panels(pid: int, url: str, names: list[str]) -> None:
    """Ask for each panel, and for the findings' marks, until they are made, and then five times."""
    for name in (*names, "marks"):
        query = "marks" if name == "marks" else f"panel?name={name}"
        try:
            timed(url, query)
        except urllib.error.HTTPError as error:
            print(f"panel {name}: {json.load(error)['error'].splitlines()[0]}")
            continue
        ask(f"panel {name}, made before", pid, url, [query] * 5)


def make_panels(store: Path, names: list[str]) -> None:
    """What making each panel takes, each in a process of its own with nothing kept before."""
    from sightline.views.html.page import list_modules

    known = [module.PANEL.name for module in list_modules() if module.PANEL.name != "timeline"]
    for name in names or ("marks", *known):
        with tempfile.TemporaryDirectory() as cache:
            process = subprocess.Popen(
                [sys.executable, "-c", MAKE, str(store), name],
                env={**os.environ, "SIGHTLINE_CACHE": cache},
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            events = int(process.stdout.read() or 0)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss * 1024
        if process.returncode:
            print(
                f"panel {name}: not made, ended with {process.returncode} at {peak / 1e6:,.0f} MB"
            )
            continue
        print(
            f"panel {name}: {usage.ru_utime + usage.ru_stime:.1f} s of processor time, "
            f"{peak / 1e6:,.0f} MB, {peak / events:,.0f} bytes an event"
        )


def data_of(page: bytes) -> dict[str, Any]:
    """The page's own data."""
    import zlib

    from sightline.core.page_text import decode_text

    body = page.split(b'id="page-data">', 1)[1].split(b"<", 1)[0]
    found: dict[str, Any] = json.loads(zlib.decompress(decode_text(body.decode())))
    return found


if __name__ == "__main__":
    sys.exit(main())
