"""Which tests a change asks for: `make test-quick` runs them.

    python scripts/choose_tests.py [FILE ...]

Without files: all that differs from where this branch left `main`, and what is not committed. Of a
module of src/sightline those are chosen that lie in the mirrored folder of tests/, or import it,
themselves or through what tests share (tests/support, tests/synth and so on); of a test itself; of
documentation, the tests that run it. It is for the loop while one works: `make test` runs all.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Of files that are no modules: what runs or compares them, by how their path begins.
OTHERS = {
    "docs/contributing.md": ("tests/test_docs.py", "tests/test_newcomer.py"),
    "docs/": ("tests/test_docs.py",),
    "README.md": ("tests/test_docs.py", "tests/views/test_report.py"),
    "changes/": ("tests/test_changes.py",),
    "examples/": ("tests/test_examples.py",),
    "lab/": ("tests/lab",),
    "native/": ("tests/native",),
    "web/": ("tests/web",),
    "pyproject.toml": ("tests/test_packaging.py",),
}


def list_changed(root: Path) -> list[str]:
    """Paths below the root that differ from where the branch began, or are not committed."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
        return done.stdout.split("\0") if done.returncode == 0 else []

    base = "HEAD"
    for branch in ("origin/main", "main"):
        if found := "".join(git("merge-base", "HEAD", branch)).strip():
            base = found
            break
    changed = git("diff", "--name-only", "-z", base)
    changed += git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({path for path in changed if path})


def name_module(path: str) -> str | None:
    """The dotted name of a module of the product or of the tests; None for other files."""
    for folder in ("src/", "tests/"):
        if path.startswith(folder) and path.endswith(".py"):
            return path[len(folder) : -3].replace("/", ".").removesuffix(".__init__")
    return None


def list_imports(path: Path) -> set[str]:
    """Dotted names that a file imports, and for `from a import b` both a and a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def list_tests(root: Path) -> list[str]:
    """All test files, as paths below the root."""
    return sorted(p.relative_to(root).as_posix() for p in (root / "tests").rglob("test_*.py"))


def list_mirrored(path: str, root: Path) -> Iterator[str]:
    """Tests of a module's mirrored folder: of src/sightline/a/b.py tests/a, b's own first."""
    folder = Path("tests") / Path(path).relative_to("src/sightline").parent
    yield (folder / f"test_{Path(path).stem}.py").as_posix()
    if folder != Path("tests"):  # whose files are about all of the product
        yield from (
            p.relative_to(root).as_posix() for p in sorted((root / folder).glob("test_*.py"))
        )


def list_importing(modules: set[str], root: Path) -> list[str]:
    """Tests that import one of the modules, or what tests share that imports one."""
    imports = {
        p.relative_to(root).as_posix(): list_imports(p) for p in (root / "tests").rglob("*.py")
    }
    asked, reached = set(modules), set()
    while asked:
        found = {path for path, names in imports.items() if names & asked} - reached
        reached |= found
        shared = (path for path in found if not Path(path).name.startswith("test_"))
        asked = {name for path in shared if (name := name_module(path))}
    return sorted(path for path in reached if Path(path).name.startswith("test_"))


def list_naming(name: str, root: Path) -> list[str]:
    """Tests whose text names a script."""
    return [test for test in list_tests(root) if name in (root / test).read_text("utf-8")]


def choose_tests(changed: Iterable[str], root: Path) -> list[str]:
    """Paths to give to pytest, those that are the change's own first; each once."""
    own: list[str] = []
    others: list[str] = []
    modules: set[str] = set()
    for path in changed:
        name = Path(path).name
        module = name_module(path)
        if path.startswith("tests/") and name.startswith("test_"):
            own.append(path)
        elif path.startswith("src/sightline/"):
            own += list_mirrored(path, root)
        elif path.startswith("scripts/"):
            others += list_naming(name, root)
        else:
            start = next((start for start in OTHERS if path.startswith(start)), None)
            others += OTHERS[start] if start else ()
        if module and not name.startswith("test_"):
            modules.add(module)
    others += list_importing(modules, root)
    return [path for path in dict.fromkeys([*own, *others]) if (root / path).exists()]


if __name__ == "__main__":
    print("\n".join(choose_tests(sys.argv[1:] or list_changed(ROOT), ROOT)))
