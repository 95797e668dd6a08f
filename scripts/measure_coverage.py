"""How much of each rule and each analysis the tests run, without recordings from outside.

Every member must be covered to LEAST per cent of its lines: what no test runs, none protects.
Usage: scripts/measure_coverage.py [paths of tests] (default: those of rules and analyses)
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = 90.0
MEMBERS = ("src/sightline/subjects/",)


def measured(tests: list[str]) -> dict[str, float]:
    """Covered lines of each file under MEMBERS, %; exits where a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        tool = [sys.executable, "-m", "coverage"]
        data = f"--data-file={folder}/data"
        sources = f"--source={','.join(MEMBERS)}"
        pytest = ["-m", "pytest", "-q", "-n", "0", "-m", "not corpus", *tests]
        done = subprocess.run([*tool, "run", data, sources, *pytest], cwd=ROOT)
        if done.returncode:
            sys.exit(done.returncode)
        target = Path(folder) / "coverage.json"
        subprocess.run([*tool, "json", data, "-q", "-o", target], cwd=ROOT, check=True)
        files = json.loads(target.read_text())["files"]
    return {name: file["summary"]["percent_covered"] for name, file in sorted(files.items())}


def main() -> int:
    """Print the table; 1 where a member is covered too little."""
    shares = measured(sys.argv[1:] or ["tests/subjects"])
    for name, share in shares.items():
        print(f"{share:6.1f} %  {name}")
    low = [name for name, share in shares.items() if share < LEAST]
    print(f"{len(shares)} files, {len(low)} of them under {LEAST:.0f} %")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
