"""How long the commands that a person types first take, and what the time goes into.

    python benchmarks/start.py [RECORDING] [--times N]

RECORDING is examples/cpu-training.json.gz (82 kB) unless another is named. Three tables, medians of
N (default 7) processes each, taken in turn so that other people's work falls on all alike:

commands  wall and processor time beside two floors: an empty Python, and one that imports Polars.
          "first view" has an empty cache, "again" the cache that a first view has left
imports   of a first view, by `-X importtime`: time in each package's own modules, and how many.
          Measuring makes them slower, so their sum is more than their share of the table above
stages    of a first view, one after another on one thread: processor time of each

Wall times on a shared machine hold other people's work; the processor's time is what to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "examples" / "cpu-training.json.gz"
STAGES = """
import gc, json, sys, time
gc.set_threshold(100_000, 50, 100)
took, last = {}, 0.0
def done(stage):
    global last
    took[stage], last = time.process_time() - last, time.process_time()
done("interpreter")
import polars
done("import of Polars")
import sightline.doors.cli.report, sightline.session
import sightline.answer.cache, sightline.views.terminal.screen
done("import of what reads and reports")
run = sightline.open(sys.argv[1])
done("recognise, read, write the cache")
from sightline.diagnosis.diagnose import load_rules_for
load_rules_for(run)
done("import of rules")
from sightline.answer.summary import answer_run
data = answer_run(run)
done("rules, analyses")
text = sightline.views.terminal.screen.render_screen(data).plain
done("screen")
print(json.dumps(took))
"""


def run_process(words: list[str], cache: str) -> tuple[float, float, str, str]:
    """Wall and processor seconds, standard output and standard error."""
    # Where Python may not keep what it compiles, compiling is two thirds of a start.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    kept |= {"SIGHTLINE_CACHE": cache, "PYTHONPYCACHEPREFIX": f"{Path(cache).parent}/bytecode"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, env=kept, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, work, done.stdout, done.stderr


def list_commands(recording: str) -> dict[str, tuple[list[str], bool]]:
    """The command line of each row, and whether it finds an empty cache."""
    python = [sys.executable, "-c"]
    ours = [sys.executable, "-m", "sightline"]
    return {
        "python -c pass": ([*python, "pass"], False),
        'python -c "import polars"': ([*python, "import polars"], False),
        "sightline --version": ([*ours, "--version"], False),
        "sightline --help": ([*ours, "--help"], False),
        "sightline doctor": ([*ours, "doctor"], False),
        "sightline RECORDING, first view": ([*ours, recording], True),
        "sightline RECORDING, again": ([*ours, recording], False),
    }


def sum_imports(errors: str) -> tuple[Counter[str], Counter[str]]:
    """Own time in ns and number of modules by package, from what -X importtime has printed."""
    taken: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for line in errors.splitlines():
        fields = line.removeprefix("import time:").split("|")
        if len(fields) == 3 and fields[0].strip().isdecimal():
            name = fields[2].strip().split(".")[0]
            known = name if name in ("sightline", "polars", "rich", "numpy") else "all others"
            known = "polars" if name.startswith("_polars") else known
            taken[known] += 1000 * int(fields[0])
            count[known] += 1
    return taken, count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", nargs="?", type=Path, default=RECORDING)
    parser.add_argument("--times", type=int, default=7)
    args = parser.parse_args()
    recording = str(args.recording)
    commands = list_commands(recording)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    imports: list[tuple[Counter[str], Counter[str]]] = []
    stages: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.times + 1):
            for name, (words, cold) in commands.items():
                cache = f"{folder}/cold-{number}" if cold else f"{folder}/warm"
                taken = run_process(words, cache)
                if number:  # the first round fills the warm cache, and Python's own
                    times[name].append(taken[:2])
            measured = [sys.executable, "-X", "importtime", *commands["sightline --help"][0][1:-1]]
            imports.append(
                sum_imports(run_process([*measured, recording], f"{folder}/{number}")[3])
            )
            inside = [sys.executable, "-c", STAGES, recording]
            stages.append(json.loads(run_process(inside, f"{folder}/stages-{number}")[2]))
    print(f"medians of {args.times}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(f"{'':38}{'wall ms':>9}{'cpu ms':>9}")
    for name, pairs in times.items():
        wall, work = (1e3 * median(p[i] for p in pairs) for i in (0, 1))
        print(f"{name:38}{wall:9.0f}{work:9.0f}")
    print(f"\n{'imports of a first view, -X importtime':38}{'own ms':>9}{'modules':>9}")
    for name in sorted(imports[0][0], key=lambda n: -imports[0][0][n]):
        own = median(taken[name] for taken, _ in imports) / 1e6
        print(f"{name:38}{own:9.0f}{imports[0][1][name]:9}")
    print(f"\n{'stages of a first view':38}{'':9}{'cpu ms':>9}")
    for name in stages[0]:
        print(f"{name:38}{'':9}{1e3 * median(s[name] for s in stages):9.0f}")
    print(f"{'all':38}{'':9}{1e3 * median(sum(s.values()) for s in stages):9.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
