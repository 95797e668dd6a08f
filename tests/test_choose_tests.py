"""Which tests a change asks for, in a small tree of files."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from support.places import ROOT

FILES = {
    "src/sightline/core/algebra/lanes.py": "",
    "src/sightline/core/units.py": "",
    "tests/core/algebra/test_lanes.py": "from sightline.core.algebra.lanes import place",
    "tests/core/algebra/test_trees.py": "import sightline.core.algebra.trees",
    "tests/views/test_rows.py": "from sightline.core.algebra import lanes",
    "tests/views/test_page.py": "from support.drawn import draw",
    "tests/views/test_text.py": "import sightline",
    "tests/support/drawn.py": "from support.lines import line",
    "tests/support/lines.py": "from sightline.core.algebra.lanes import place",
    "tests/test_units.py": "from sightline.core.units import format_ns",
    "tests/test_docs.py": "",
    "tests/test_rooms.py": "SCRIPT = 'scripts/rooms.py'",
    "docs/rules.md": "",
    "scripts/rooms.py": "",
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts" / "choose_tests.py"
    spec = importlib.util.spec_from_file_location("choose_tests", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (
            "src/sightline/core/algebra/lanes.py",
            ["tests/core/algebra/test_lanes.py", "tests/core/algebra/test_trees.py",
             "tests/views/test_page.py", "tests/views/test_rows.py"],
        ),
        ("src/sightline/core/units.py", ["tests/test_units.py"]),
        ("tests/support/drawn.py", ["tests/views/test_page.py"]),
        ("tests/views/test_text.py", ["tests/views/test_text.py"]),
        ("tests/views/test_gone.py", []),
        ("docs/rules.md", ["tests/test_docs.py"]),
        ("scripts/rooms.py", ["tests/test_rooms.py"]),
        ("LICENSE", []),
    ],
)  # fmt: skip
def test_what_a_change_asks_for(
    script: ModuleType, tree: Path, changed: str, chosen: list[str]
) -> None:
    assert script.choose_tests([changed], tree) == chosen


def test_changes_are_those_since_the_branch_began(script: ModuleType, tree: Path) -> None:
    def git(*words: str) -> None:
        own = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        subprocess.run(["git", "-C", str(tree), *own, *words], check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "begin")
    git("checkout", "-b", "work")
    (tree / "docs/rules.md").write_text("more")
    git("commit", "-a", "-m", "say more")
    (tree / "scripts/rooms.py").write_text("print()")
    (tree / "tests/test_new one.py").write_text("")
    assert script.list_changed(tree) == [
        "docs/rules.md",
        "scripts/rooms.py",
        "tests/test_new one.py",
    ]
