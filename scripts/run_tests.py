"""Run the tests: all but those that rest on time side by side, then those one at a time.

    python scripts/run_tests.py [--quick] [PYTEST'S WORDS ...]

A test marked `timing` (docs/contributing.md) runs after all others, with no neighbour, and at most
twice more where it fails: each repeat is printed and counted. mypy runs beside the others. The last
lines are the counts of both. `--quick` runs what the change at hand asks for, in at most a minute,
and none that rests on time (scripts/choose_tests.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from choose_tests import ROOT, choose_tests, list_changed

NOTHING_CHOSEN = 5  # pytest's exit code
# Of a function's cases, and of a file's long tests (tests/support/sampling.py); all: `make sweep`.
SAMPLE_SECONDS, CASES_EACH, LONG_SECONDS = 0.2, 4, 0.2
LONG_ALONE_SECONDS = 1.0  # of a file's long tests that rest on time
QUICK_SECONDS = 38  # what has begun by then still ends, and the start takes some seconds
# One more than cores: a third of its time a worker waits for a program that it started.
WORKERS = (os.cpu_count() or 1) + 1


# Every core has a test: the threads that Polars would start beside it only take turns with it.
ONE_THREAD = {"POLARS_MAX_THREADS": "1"}


def list_timing() -> list[str]:
    """Files with a test that is marked `timing`: no other is loaded for the pass of those alone."""
    files = (ROOT / "tests").rglob("test_*.py")
    return sorted(str(f.relative_to(ROOT)) for f in files if "mark.timing" in f.read_text("utf-8"))


def run_pytest(counts: Path, *words: str, threads: dict[str, str] | None = None) -> int:
    """One pass; its exit code, and its counts in the file."""
    sample = f"--sample={SAMPLE_SECONDS}"
    command = [sys.executable, "-m", "pytest", "-q", f"--counts={counts}", sample, *words]
    print("==", " ".join(command[1:]), flush=True)
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, **(threads or {})}).returncode
    return 0 if code == NOTHING_CHOSEN else code


def run_both(folder: Path, words: list[str]) -> tuple[int, list[Path]]:
    """All but `timing`, then these; the worse exit code, and both files of counts."""
    together, alone = folder / "together.json", folder / "alone.json"
    side_by_side = ("-n", str(WORKERS), "--dist", "loadgroup")
    one_by_one = ("-n", "0", "-rR", "-m", "timing", f"--long={LONG_ALONE_SECONDS}")
    words = [f"--cases-each={CASES_EACH}", *words]
    first = ("-p", "no:rerunfailures", "-m", "not timing", f"--long={LONG_SECONDS}", *words)
    # A campaign tries all cores, too.
    threads = {} if os.environ.get("SIGHTLINE_CAMPAIGNS", "0") not in ("", "0") else ONE_THREAD
    has_paths = any((ROOT / word.split("::")[0]).exists() for word in words)
    codes = (
        run_pytest(together, *side_by_side, *first, threads=threads),
        run_pytest(alone, *one_by_one, *words, *([] if has_paths else list_timing())),
    )
    return max(codes, key=abs), [together, alone]


def run_quick(folder: Path, words: list[str]) -> tuple[int, list[Path]]:
    """What the change asks for, with a limit of time."""
    tests = choose_tests(list_changed(ROOT), ROOT)
    if not tests:
        print("nothing changed that a test is chosen by: make test runs all")
        return 0, []
    counts = folder / "quick.json"
    more = ("-n", str(WORKERS), "--dist", "loadgroup", "-p", "no:rerunfailures")
    limit = f"--seconds={QUICK_SECONDS}"
    return run_pytest(counts, *more, "-m", "not timing", limit, *words, *tests), [counts]


def format_counts(parts: list[dict[str, Any]]) -> str:
    """The last lines: repeats one by one, then the sums."""
    repeated = [test for part in parts for test in part["repeated"]]
    lines = [f"repeated: {test}" for test in repeated]
    sums = {name: sum(part[name] for part in parts) for name in ("passed", "skipped", "failed")}
    lines += [f"{name:9}{count:6}" for name, count in {**sums, "repeats": len(repeated)}.items()]
    return "\n".join(lines)


def main() -> int:
    """The worst exit code of all."""
    words = sys.argv[1:]
    quick = "--quick" in words
    words = [word for word in words if word != "--quick"]
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile("w+") as said:
        types = None
        if not words and not quick:
            print("== mypy, beside the tests", flush=True)
            types = subprocess.Popen(
                [sys.executable, "-m", "mypy"], cwd=ROOT, stdout=said, stderr=subprocess.STDOUT
            )
        code, files = (run_quick if quick else run_both)(Path(place), words)
        if types is not None and types.wait() != 0:
            said.seek(0)
            print(said.read())
            code = code or 1
        print(format_counts([json.loads(f.read_text("utf-8")) for f in files if f.exists()]))
    return code


if __name__ == "__main__":
    sys.exit(main())
