"""A reader of recordings without the packages that only single commands need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.places import EXAMPLES

ABSENT = ("duckdb", "scipy", "textual")
TRACE = str(EXAMPLES / "simulated-dataloader.json.gz")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a Python that has none of these packages."""
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({ABSENT!r}))\n"  # an import of None fails
        "from sightline.doors.cli.main import main\n"
        f"sys.exit(main({list(words)!r}))\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ("report", TRACE, "--no-html"),
        ("compare", TRACE, TRACE),
        ("critical-path", TRACE),
        ("stats", "breakdown", TRACE),
        ("ranks", str(EXAMPLES / "simulated-straggler")),
        ("mig", "--help"),
    ],
)
def test_what_needs_none_of_them(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(tmp_path, *words)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert "not installed" not in done.stderr


def test_sql_says_what_to_install(tmp_path: Path) -> None:
    done = run(tmp_path, "sql", TRACE, "SELECT 1")
    assert done.returncode != 0
    assert "pip install duckdb" in done.stderr
    assert "Traceback" not in done.stderr
