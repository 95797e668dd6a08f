"""Runs the command line on thousands of damaged inputs, each in a bounded child, and counts.

    make attack                 ten minutes on all cores, and 10,000 inputs at least
    ATTACK_SECONDS=60 ATTACK_LEAST=0 make attack
    python tests/attack/campaign.py --seed 7 --only 1234       one input again

One command of several is asked about each damaged input, by a forked child, and about every 50th
by a fresh interpreter, too (children.py says what that means). Half of the inputs lie under the
same names, with the same times, before a cache that holds what their forerunners left. Of each
outcome is judged: the exit code (0, or 2 with a message; 1 is for gates, and there is none; 3 is a
bug), the time, that the answer's content hash is that of the file that was given, and that what is
missing of a file that was cut is said.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from attack import judging  # noqa: E402
from attack.children import Outcome, Place, load_ahead, run_apart, run_forked, run_fresh  # noqa: E402
from attack.judging import Answer, Counted  # noqa: E402
from attack.mutate import damage  # noqa: E402
from attack.seeds import ENDLESS, Seed, write_programs, write_seeds  # noqa: E402
from attack.structured import is_text  # noqa: E402
from sightline.core import registry  # noqa: E402
from sightline.core.model.source import Source  # noqa: E402
from sightline.opening.recognise import match_importers  # noqa: E402

FRESH_EVERY = 50
_IMPORT = ["-o", "made"]


@dataclass(frozen=True)
class Inputs:
    """What is damaged, and what is said of it while it is whole."""

    seeds: list[Seed]
    programs: Path
    whole: dict[tuple[str, str], Answer]  # by kind and command


@dataclass(frozen=True)
class Case:
    """One damaged input and the command that is asked about it."""

    seed: Seed
    how: str
    victim: str
    target: Path  # what was damaged: a file, or the folder that it lies in
    words: list[str]
    example: str
    is_whole: bool  # what is left of a text ends with a line, as if its tool had ended there

    @property
    def asked(self) -> Path:
        """What the command opens."""
        return self.seed.recording or self.target


def prepare_inputs(folder: Path, every: int = 1) -> Inputs:
    """Write all inputs, load what commands load, and ask about each input while it is whole.

    Of the kinds only every n-th is kept.
    """
    programs = write_programs(folder / "programs")
    seeds = write_seeds_apart(folder / "seeds")[::every]
    _load_ahead(seeds, Place(_make(folder / "ahead"), folder / "cache-ahead", programs))
    whole = {}
    for one in seeds:
        # What fills the cache is damaged there.
        cache = one.path if one.kind == "cache" else folder / "cache"
        for words in (["import", *_IMPORT, "--replace"], ["report", "--json"]):
            words.insert(1, str(one.asked))
            outcome = run_forked(words, Place(_make(folder / "whole"), cache, programs))
            answer = judging.read_answer(words, outcome, folder / "whole")
            if outcome.code != 0 or answer is None:
                raise SystemExit(f"the whole {one.kind} is not read: {outcome.err}")
            whole[one.kind, words[0]] = answer
    return Inputs(seeds, programs, whole)


def _make(folder: Path) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    return folder


def write_seeds_apart(folder: Path) -> list[Seed]:
    """The inputs, made by a child: Polars' threads do not survive a fork."""

    def write() -> None:
        os.environ["SIGHTLINE_CACHE"] = str(folder / "cache")
        made = [
            (s.kind, str(s.path), str(s.recording) if s.recording else None)
            for s in write_seeds(folder)
        ]
        (folder / "listed.json").write_text(json.dumps(made))

    run_apart(write)
    return [
        Seed(kind, Path(path), Path(recording) if recording else None)
        for kind, path, recording in json.loads((folder / "listed.json").read_text())
    ]


def _load_ahead(seeds: list[Seed], place: Place) -> None:
    """Load and compile all that the commands of the campaign do."""
    asked = str(seeds[0].path)
    load_ahead(
        [
            *(["report", str(one.asked), "--json"] for one in seeds),
            ["export", asked, "--to", "perfetto", "-o", "exported"],
            ["flame", asked, "-o", "flame.html"],
            ["report", asked, "-o", "page.html"],
        ],
        place,
    )
    for one in seeds:  # compiles the patterns of all importers
        for file in one.files[:1]:
            match_importers(Source(file, ""), "strong")
            match_importers(Source(file, ""), "weak")
    gc.freeze()


class Campaign:
    """Inputs one after the other, each made from its number alone."""

    def __init__(self, seed: int, inputs: Inputs, folder: Path) -> None:
        self.seed, self.inputs, self.folder = seed, inputs, folder

    def attack(self, number: int, counted: Counted) -> None:
        """Damage one input, ask about it, and judge what came."""
        rng = random.Random(f"{self.seed} {number}")
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        case = self._damage(rng, work, f"--seed {self.seed} --only {number}")
        caches = (self.folder / "cache", work / "cache")
        cache = case.target if case.seed.kind == "cache" else rng.choice(caches)
        again = _make(work / "again")
        if number % FRESH_EVERY == 0 and cache == case.target:
            shutil.copytree(cache, again / "cache", symlinks=True)
        outcome = run_forked(case.words, Place(work, cache, self.inputs.programs))
        self._judge(case, outcome, work, counted)
        if number % FRESH_EVERY == 0:
            fresh = run_fresh(case.words, Place(again, again / "cache", self.inputs.programs))
            self._compare(case, (outcome, work), (fresh, again), counted)

    def _damage(self, rng: random.Random, work: Path, example: str) -> Case:
        one, other = rng.choice(self.inputs.seeds), rng.choice(self.inputs.seeds)
        target = work / one.path.name
        if one.path.is_dir():
            shutil.copytree(one.path, target, symlinks=True)
        else:
            shutil.copy(one.path, target)
        files = [p for p in Seed(one.kind, target).files if p.name not in ("lock", "CACHEDIR.TAG")]
        victim = rng.choice(files)
        how, made = damage(victim.read_bytes(), rng, rng.choice(other.files).read_bytes())
        victim.write_bytes(made)
        os.utime(victim, (1_700_000_000, 1_700_000_000))
        words = _choose_command(rng, one, target)
        return Case(
            one, how, victim.name, target, words,
            f"{example}: {how} of {one.kind}/{victim.name}\n    {' '.join(words)[:160]}",
            is_text(made) and made.endswith((b"\n", b"}", b"]", b">")),
        )  # fmt: skip

    def _judge(self, case: Case, outcome: Outcome, work: Path, counted: Counted) -> None:
        kind = case.seed.kind
        counted.add(kind, "runs")
        counted.slowest[kind] = max(counted.slowest[kind], outcome.seconds)
        said = outcome.err.strip().splitlines() or [""]
        # Of a bug the first line says which, of all else the last.
        example = f"{case.example}\n    {said[0 if outcome.code == 3 else -1][:250]}"
        if outcome.hung:
            counted.add(kind, "hung", example)
        elif outcome.code is None or outcome.code not in (0, 1, 2, 3):
            counted.add(kind, "died", f"{example} (code {outcome.code})")
        elif outcome.code in (1, 3) or "Traceback" in outcome.err:
            counted.add(kind, f"exit {outcome.code}", example)
        elif outcome.code == 2 and not outcome.err.strip():
            counted.add(kind, "died", example + " (exit 2 without a word)")
        elif outcome.code == 2 and kind == "cache" and case.words[0] != "stats":
            # Of a whole recording only an analysis may say that it lacks what it needs.
            counted.add(kind, "died", example + " (refused for its cache)")
        elif outcome.code == 2:
            counted.add(kind, "refused")
        elif not judging.says_what_it_is_about(case.words):
            counted.add(kind, "other")
        else:
            answer = judging.read_answer(case.words, outcome, work)
            if answer is None:
                counted.add(kind, "died", example + " (no answer in the output)")
            else:
                self._judge_answer(case, answer, counted, example)

    def _judge_answer(self, case: Case, answer: Answer, counted: Counted, example: str) -> None:
        kind, command = case.seed.kind, case.words[0]
        whole = self.inputs.whole[kind, "import" if command == "sql" else command]
        if not self._is_about_it(case, answer, whole):
            counted.add(kind, "other's", example)
        if not judging.says_what_is_missing(case.words):
            counted.add(kind, "other")
            return
        said = answer.said - whole.said
        counted.add(kind, "lossy" if said else "whole")
        is_seen = case.how == "cut" and kind not in ENDLESS and case.seed.recording is None
        is_seen = is_seen and not case.is_whole
        if is_seen and answer.rows < whole.rows and not said:
            counted.add(kind, "unsaid", example)

    def _is_about_it(self, case: Case, answer: Answer, whole: Answer) -> bool:
        """Whether an answer is about the recording that the command was given."""
        if case.seed.recording is not None:
            # Whatever is in the cache or in rules, the recording is whole: the answer is the same.
            same_cache = case.seed.kind != "cache" or case.words[0] == "sql" or answer == whole
            return answer.contents == whole.contents and same_cache
        if case.target.is_file():
            return answer.contents == (judging.hash_file(case.target),)
        if case.seed.kind == "run_folder":  # each of its files is a recording
            held = {judging.hash_file(p) for p in case.target.iterdir()}
            return set(answer.contents) <= held
        if case.seed.kind == "store":  # says itself what it was made of
            return case.victim == "run.json" or answer.contents == whole.contents
        changed = case.seed.path / case.victim
        same = (case.target / case.victim).read_bytes() == changed.read_bytes()
        return same == (answer.contents == whole.contents)

    def _compare(
        self,
        case: Case,
        forked: tuple[Outcome, Path],
        fresh: tuple[Outcome, Path],
        counted: Counted,
    ) -> None:
        """A fresh interpreter must say the same."""
        codes = [outcome.code for outcome, _ in (forked, fresh)]
        answers = [judging.read_answer(case.words, *one) for one in (forked, fresh)]
        if codes[0] != codes[1] or answers[0] != answers[1]:
            last = fresh[0].err.strip()[-200:]
            counted.add(case.seed.kind, "unlike", f"{case.example}\n    exit {codes}: {last}")


def _choose_command(rng: random.Random, one: Seed, target: Path) -> list[str]:
    asked = str(one.recording or target)
    if one.kind == "rules":
        if rng.random() < 0.5:
            return ["findings", asked, "--json", "--rules", str(target)]
        return ["report", asked, "--json", "--rules", str(target)]
    # What says what is missing comes most often; an import takes a third of a report's time.
    usual = (["import", asked, *_IMPORT], ["report", asked, "--json"])
    if (chance := rng.random()) < 0.7:
        return usual[chance > 0.55]
    if one.kind.startswith(("slurm", "clustercockpit")) and rng.random() < 0.7:
        return rng.choice(
            (
                ["jobs", asked, "--json"],
                ["jobs", asked],
                ["jobs", asked, "--digest", "project"],
                ["job", "17", asked],
                ["job", "1404017", asked, "--json"],
                ["export", asked, "--to", "clustercockpit", "-o", "exported"],
            )
        )
    return rng.choice(
        (
            ["stats", rng.choice(list(registry.list_names("analyses"))), asked, "--json"],
            ["findings", asked, "--vendor", "--json"],
            ["flame", asked, "-o", "out.html"],
            ["export", asked, "--to", rng.choice(("csv", "parquet", "chrome", "perfetto")),
             "-o", "exported"],
            ["sql", asked, "SELECT content FROM recordings ORDER BY recording_id", "--json"],
            ["report", asked, "-o", "page.html"],
            ["report", asked, "--for-llm"],
        )
    )  # fmt: skip


def run_worker(
    campaign: Campaign, numbers: Iterator[int], seconds: float, least: int, counted: Counted
) -> None:
    """The inputs of one worker, until the time is over and no input below `least` is left."""
    until = time.monotonic() + seconds
    for number in numbers:
        if time.monotonic() > until and number >= least:
            break
        campaign.attack(number, counted)


def run_workers(args: argparse.Namespace, inputs: Inputs, folder: Path) -> Counted:
    """All workers, each a fork that tells its counts through a pipe."""
    workers = 1 if args.only is not None else args.workers
    pipes = []
    for worker in range(workers):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            counted = Counted()
            try:
                own = range(worker, args.most, workers) if args.only is None else [args.only]
                campaign = Campaign(args.seed, inputs, folder / f"worker-{worker}")
                run_worker(campaign, iter(own), args.seconds, args.least, counted)
            except BaseException:
                counted.bad.append("died: a worker")
                traceback.print_exc()
            finally:
                with os.fdopen(write, "w") as out:
                    json.dump(vars(counted), out)
                os._exit(0)
        os.close(write)
        pipes.append((pid, read))
    merged = Counted()
    for pid, read in pipes:
        with os.fdopen(read) as told:
            data = json.loads(told.read() or '{"table": {}, "slowest": {}, "bad": ["died"]}')
        os.waitpid(pid, 0)
        table = {kind: Counter(row) for kind, row in data["table"].items()}
        merged.merge(Counted(table, data["slowest"], data["bad"]))  # type: ignore[arg-type]
    return merged


def _measure_work() -> float:
    """Processor time in s of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--least", type=int, default=0, help="inputs at least, however long that takes"
    )
    parser.add_argument("--most", type=int, default=1_000_000, help="inputs at most")
    parser.add_argument("--only", type=int, help="this one")
    parser.add_argument("--every", type=int, default=1, help="of the kinds of input every n-th")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="sightline-attack-") as place:
        inputs = prepare_inputs(Path(place), args.every)
        began, used = time.monotonic(), _measure_work()
        counted = run_workers(args, inputs, Path(place))
        seconds, used = time.monotonic() - began, _measure_work() - used
    runs = sum(row["runs"] for row in counted.table.values())
    print(
        f"seed {args.seed}: {runs} inputs in {seconds:.0f} s, {runs / seconds:.1f} a second, "
        f"{used / max(runs, 1):.3f} s of processor time each"
    )
    print(counted.format_table())
    return 1 if counted.bad else 0


if __name__ == "__main__":
    sys.exit(main())
