"""Runs the command line on thousands of damaged inputs, each in a bounded child, and counts.

    make attack                 ten minutes, all cores
    ATTACK_SECONDS=60 make attack
    python tests/attack/campaign.py --seed 7 --only 1234       one input again

A child is forked from a process that has loaded sightline and used none of it, may have 8 GB and
60 s, and writes its output to files. Of each answer is checked: the exit code (0, or 2 with a
message; 1 is for gates, and there is none; 3 is a bug), the time, that the answer's content hash is
that of the file that was given, and that what is missing of it is said.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from blake3 import blake3  # noqa: E402

from attack.mutate import damage  # noqa: E402
from attack.seeds import ENDLESS, Seed, write_seeds  # noqa: E402
from sightline import registry  # noqa: E402
from sightline.cli.main import main as run_command  # noqa: E402
from sightline.model.source import Source  # noqa: E402
from sightline.opening.recognise import match_importers  # noqa: E402

MEMORY_BYTES, LONGEST_S = 8 << 30, 60
_PART = 64 << 20
COLUMNS = ("runs", "answered", "refused", "exit 1", "exit 3", "died", "hung", "other's", "unsaid")


@dataclass
class Outcome:
    """What a child left behind."""

    code: int | None  # None: ended by a signal
    hung: bool
    out: bytes
    err: str


@dataclass
class Counted:
    """The table that is printed, and the first examples of what must not be."""

    table: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    bad: list[str] = field(default_factory=list)

    def add(self, kind: str, what: str, example: str | None = None) -> None:
        self.table[kind][what] += 1
        if example is not None:
            self.bad.append(f"{what}: {example}")


def run_bounded(words: list[str], cache: Path, folder: Path) -> Outcome:
    """The command in a forked child."""
    out, err = folder / "out", folder / "err"
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), encoding="utf-8")
            sys.stderr = io.TextIOWrapper(io.FileIO(2, "wb", closefd=False), encoding="utf-8")
            os.environ.update(SIGHTLINE_CACHE=str(cache), TMPDIR=str(folder))
            tempfile.tempdir = str(folder)
            os.chdir(folder)
            try:
                code = run_command(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    limit, status = time.monotonic() + LONGEST_S, None
    pause = 0.002
    while status is None and time.monotonic() < limit:
        done, value = os.waitpid(pid, os.WNOHANG)
        if done:
            status = value
        else:
            time.sleep(pause)
            pause = min(pause * 1.3, 0.05)
    hung = status is None
    if hung:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    code = None if hung or not os.WIFEXITED(status or 0) else os.WEXITSTATUS(status or 0)
    return Outcome(code, hung, out.read_bytes(), err.read_text(errors="replace"))


def hash_file(path: Path) -> str:
    """What an answer must say that it is about, worked out here on our own."""
    data = path.read_bytes()
    starts = range(0, max(len(data), 1), _PART)
    parts = b"".join(blake3(data[s : s + _PART]).digest() for s in starts)
    return hashlib.blake2b(parts, digest_size=16).hexdigest()


def read_answer(out: bytes) -> dict[str, Any] | None:
    """The report as data; None where it is none."""
    with contextlib.suppress(ValueError):
        data = json.loads(out)
        if isinstance(data, dict) and "recordings" in data:
            return data
    return None


def count_rows(answer: dict[str, Any]) -> int:
    """Rows that hold recorded things."""
    return sum(n for name, n in answer["counts"].items() if name not in ("quality", "recordings"))


def list_said(answer: dict[str, Any]) -> set[str]:
    """The warnings and errors of an answer."""
    return {row["kind"] for row in answer["limits"] if row["severity"] in ("warning", "error")}


class Campaign:
    """Inputs one after the other, each made from its number alone."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.seeds = _write_seeds_apart(folder / "seeds")
        self.cache = folder / "cache"
        self.whole: dict[str, dict[str, Any]] = {}
        for one in self.seeds:
            if one.recording is None:
                self.whole[one.kind] = self._answer(one)
        self._keep_cache()
        self._load_ahead()

    def _load_ahead(self) -> None:
        """Load here what commands load: each child would do it again, which is half of its time."""
        listed = self.folder / "modules"
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
                os.environ["SIGHTLINE_CACHE"] = str(self.folder / "ahead")
                for one in self.seeds:
                    asked = str(one.recording or one.path)
                    run_command(["report", asked, "--json"])
                    run_command(["export", asked, "--to", "perfetto", "-o", str(listed)])
                    run_command(["flame", asked, "-o", f"{listed}.html"])
                listed.unlink(missing_ok=True)
                listed.write_text("\n".join(sys.modules))
            os._exit(0)
        os.waitpid(pid, 0)
        for name in listed.read_text().splitlines():
            if name.split(".")[0] in (
                "sightline",
                "polars",
                "rich",
                "google",
                "yaml",
                "simpleeval",
            ):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        for one in self.seeds:  # compiles the patterns of all importers
            match_importers(Source(one.files[0], ""), "strong")
            match_importers(Source(one.files[0], ""), "weak")
        gc.freeze()

    def _answer(self, one: Seed) -> dict[str, Any]:
        outcome = run_bounded(["report", str(one.path), "--json"], self.cache, self.folder)
        answer = read_answer(outcome.out)
        if outcome.code != 0 or answer is None:
            raise SystemExit(f"the whole {one.kind} is not read: {outcome.err}")
        return answer

    def _keep_cache(self) -> None:
        """A cache that holds the trace, and an answer that it gives."""
        one = next(s for s in self.seeds if s.kind == "cache")
        outcome = run_bounded(["report", str(one.recording), "--json"], one.path, self.folder)
        answer = read_answer(outcome.out)
        if answer is None:
            raise SystemExit(f"the trace is not read: {outcome.err}")
        self.whole["cache"] = answer

    def attack(self, number: int, counted: Counted) -> None:
        """Damage one input, ask about it, and judge what came."""
        rng = random.Random(f"{self.seed} {number}")
        one, other = rng.choice(self.seeds), rng.choice(self.seeds)
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        target = work / one.path.name
        if one.path.is_dir():
            shutil.copytree(one.path, target, symlinks=True)
        else:
            shutil.copy(one.path, target)
        files = [p for p in Seed(one.kind, target).files if p.name not in ("lock", "CACHEDIR.TAG")]
        victim = rng.choice(files)
        how, made = damage(victim.read_bytes(), rng, rng.choice(other.files).read_bytes())
        victim.write_bytes(made)
        asked = str(one.recording or target)
        cache = target if one.kind == "cache" else work / "cache"
        words = self._words(rng, one, asked, target)
        outcome = run_bounded(words, cache, work)
        example = f"--seed {self.seed} --only {number}: {how} of {one.kind}/{victim.name}"
        self._judge(one, how, words, outcome, target, counted, example)

    def _words(self, rng: random.Random, one: Seed, asked: str, target: Path) -> list[str]:
        if one.kind == "rules":
            return ["report", asked, "--json", "--rules", str(target)]
        more = (
            ["stats", rng.choice(list(registry.list_names("analyses"))), asked, "--json"],
            ["findings", asked, "--vendor", "--json"],
            ["flame", asked, "-o", "out.html"],
            ["export", asked, "--to", rng.choice(("csv", "parquet", "chrome", "perfetto")),
             "-o", "exported"],
            ["sql", asked, "SELECT * FROM host_ops", "--json"],
            ["import", asked, "-o", "kept"],
            ["report", asked, "-o", "page.html"],
        )  # fmt: skip
        return rng.choice(more) if rng.random() < 0.4 else ["report", asked, "--json"]

    def _judge(
        self,
        one: Seed,
        how: str,
        words: list[str],
        outcome: Outcome,
        target: Path,
        counted: Counted,
        example: str,
    ) -> None:
        counted.add(one.kind, "runs")
        last = outcome.err.strip().splitlines()[-1:] or [""]
        example = f"{example}\n    {' '.join(words)[:160]}\n    {last[0][:200]}"
        if outcome.hung:
            counted.add(one.kind, "hung", example)
        elif outcome.code is None or outcome.code not in (0, 1, 2, 3):
            counted.add(one.kind, "died", f"{example} (code {outcome.code})")
        elif outcome.code in (1, 3) or "Traceback" in outcome.err:
            counted.add(one.kind, f"exit {outcome.code}", example)
        elif outcome.code == 2:
            counted.add(one.kind, "refused")
        else:
            counted.add(one.kind, "answered")
            if words[0] == "report" and "--json" in words:
                self._judge_answer(one, how, outcome, target, counted, example)

    def _judge_answer(
        self, one: Seed, how: str, outcome: Outcome, target: Path, counted: Counted, example: str
    ) -> None:
        answer = read_answer(outcome.out)
        if answer is None:
            counted.add(one.kind, "died", example + " (no answer in the output)")
            return
        if one.kind == "cache":
            # Whatever is in the cache, the recording is whole: the answer is the same.
            if answer != self.whole["cache"]:
                counted.add(one.kind, "other's", example)
            return
        asked = one.recording or target
        if asked.is_file() and [r["content"] for r in answer["recordings"]] != [hash_file(asked)]:
            counted.add(one.kind, "other's", example)
        if how != "cut" or one.kind in ENDLESS or one.recording is not None:
            return
        whole = self.whole[one.kind]
        said = list_said(answer) - list_said(whole)
        if count_rows(answer) < count_rows(whole) and not said:
            counted.add(one.kind, "unsaid", example)


def _write_seeds_apart(folder: Path) -> list[Seed]:
    """The inputs, made by a child: Polars' threads do not survive a fork."""
    folder.mkdir(parents=True)
    listed = folder / "listed.json"
    pid = os.fork()
    if pid == 0:
        try:
            os.environ["SIGHTLINE_CACHE"] = str(folder / "cache")
            made = [
                (s.kind, str(s.path), str(s.recording) if s.recording else None)
                for s in write_seeds(folder)
            ]
            listed.write_text(json.dumps(made))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return [
        Seed(kind, Path(path), Path(recording) if recording else None)
        for kind, path, recording in json.loads(listed.read_text())
    ]


def load_everything() -> None:
    """Import what a command would import; nothing is computed, so that no thread is started."""
    for kind in ("importers", "analyses", "rules", "exporters", "model.tables"):
        list(registry.load_members(kind))
    import rich.console  # noqa: F401

    import sightline.report.html.page
    import sightline.report.kept
    import sightline.report.sql
    import sightline.report.terminal  # noqa: F401


def run_campaign(
    seed: int, seconds: float, most: int, only: int | None, worker: int, of: int
) -> Counted:
    """The inputs of one worker, until the time or the number is over."""
    counted = Counted()
    with tempfile.TemporaryDirectory(prefix="sightline-attack-") as place:
        campaign = Campaign(seed, Path(place))
        until = time.monotonic() + seconds
        for number in _numbers(only, worker, of, most):
            if time.monotonic() > until:
                break
            campaign.attack(number, counted)
    return counted


def _numbers(only: int | None, worker: int, of: int, most: int) -> Iterator[int]:
    return iter([only]) if only is not None else iter(range(worker, most, of))


def merge(all_counted: list[Counted]) -> Counted:
    """The workers' tables as one."""
    merged = Counted()
    for one in all_counted:
        for kind, row in one.table.items():
            merged.table[kind].update(row)
        merged.bad += one.bad
    return merged


def format_table(counted: Counted) -> str:
    """A line for each kind of input, and one for all."""
    total: Counter[str] = Counter()
    lines = [f"{'input':<16}" + "".join(f"{c:>10}" for c in COLUMNS)]
    for kind in sorted(counted.table):
        total.update(counted.table[kind])
        lines.append(f"{kind:<16}" + "".join(f"{counted.table[kind][c]:>10}" for c in COLUMNS))
    lines.append(f"{'all':<16}" + "".join(f"{total[c]:>10}" for c in COLUMNS))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=float(os.environ.get("ATTACK_SECONDS", 600))
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--most", type=int, default=1_000_000, help="inputs at most")
    parser.add_argument("--only", type=int, help="this one")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "1"
    load_everything()
    gc.freeze()
    workers = 1 if args.only is not None else args.workers
    pipes = []
    for worker in range(workers):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            try:
                counted = run_campaign(
                    args.seed, args.seconds, args.most, args.only, worker, workers
                )
                with os.fdopen(write, "w") as out:
                    json.dump({"table": counted.table, "bad": counted.bad}, out)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(write)
        pipes.append(read)
    found = []
    for read in pipes:
        with os.fdopen(read) as told:
            data = json.loads(told.read() or '{"table": {}, "bad": ["died: a worker"]}')
        found.append(Counted({k: Counter(v) for k, v in data["table"].items()}, data["bad"]))
    merged = merge([Counted(defaultdict(Counter, c.table), c.bad) for c in found])
    print(f"seed {args.seed}")
    print(format_table(merged))
    for text in merged.bad[:40]:
        print(text)
    return 1 if merged.bad else 0


if __name__ == "__main__":
    sys.exit(main())
