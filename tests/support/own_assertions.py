"""Which tests assert nothing: a reader that returned nothing, or an empty page, passes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.places import ROOT, TESTS

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
# From a test's first line to the next line that is not indented and not a comment.
_TEST = re.compile(r"^([ ]*)(?:async )?def (test_\w+)\(.*\n(?:\1[ ]+.*\n|\1[)].*\n|[ ]*\n)*", re.M)
_PLAIN = re.compile(r"^ +assert\b|\bassert_\w+\(|pytest\.(?:raises|warns|fail)\(", re.M)


def list_without(path: Path) -> Iterator[str]:
    """Tests of a file that neither assert anything nor call what does."""
    text = path.read_text("utf-8")
    doubtful = [found[2] for found in _TEST.finditer(text) if not _PLAIN.search(found[0])]
    if not doubtful:
        return
    own = {node.name for node in ast.walk(_parse(path)) if isinstance(node, _FUNCTION)}
    for name in doubtful:  # the others stand in a text that a test writes down
        if name in own and not _asserts(path, name, set()):
            yield name


def _asserts(path: Path, name: str, seen: set[tuple[Path, str]]) -> bool:
    """Whether what has a name in a file asserts something, itself or through what it uses."""
    if (path, name) in seen:
        return False
    seen.add((path, name))
    for node in ast.iter_child_nodes(_parse(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            aliases = [alias for alias in node.names if name == (alias.asname or alias.name)]
            for alias in aliases:
                file = _find_module(node.module)
                if file is not None and _asserts(file, alias.name, seen):
                    return True
        elif _binds(node, name):
            if any(_is_assertion(inner) for inner in ast.walk(node)):
                return True
            used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            used |= {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
            if any(_asserts(path, other, seen) for other in sorted(used)):
                return True
    return False


def _binds(node: ast.AST, name: str) -> bool:
    if isinstance(node, (*_FUNCTION, ast.ClassDef)):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return called in ("pytest.raises", "pytest.warns", "pytest.fail")
    return isinstance(node, ast.Assert)


def _find_module(name: str) -> Path | None:
    """The file of a module of the tests, or of what sightline offers to tests."""
    place = name.replace(".", "/")
    folders = (TESTS, ROOT / "src") if name.startswith("sightline.testing") else (TESTS,)
    files = (folder / f"{place}{end}" for folder in folders for end in (".py", "/__init__.py"))
    return next((file for file in files if file.is_file()), None)


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())
