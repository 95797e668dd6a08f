"""Lists every sentence that sightline can print in docs/sentences.md, to be read as a whole.

    python scripts/sentences.py            write the list anew
    python scripts/sentences.py --check    compare; exit 1 where it differs

A sentence is a text of three words or more in the sources, `{}` where a value stands: what
findings, analyses, notes, errors and help say, and what the pages' TypeScript shows. Docstrings are
none, except a command's, which is its help. tests/test_english.py refuses paraphrases in them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "sightline"
PAGES = ROOT / "web" / "src"
TARGET = ROOT / "docs" / "sentences.md"
HEAD = """\
# What sightline can say

Written by `scripts/sentences.py` (`make docs`); `{}` stands for a value. Read it aloud: the words
are those of [contributing](contributing.md), "Words".
"""
# A word of a sentence; identifiers, options and paths are none.
_WORD = re.compile(r"(?<![\w/.:<%\\-])[A-Za-z][a-z']+(?![\w/(=\\])")
LEAST_WORDS = 3
# Signs of patterns, queries and code, which nobody reads as English.
_CODE = re.compile(
    r"\\[wdsbSn(]|\(\?|\]\(|\[\^|\)\?|^SELECT |^\s*(?:import|def|const) |=>|\{\{|</?\w+[ >]|;\n"
)
_TEXTS = (ast.Constant, ast.JoinedStr, ast.BinOp)
_LEAVES = (ast.Name, ast.expr_context, ast.operator, ast.unaryop, ast.boolop)
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_VALUE = re.compile(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")


def list_sentences() -> dict[str, list[str]]:
    """The sentences of each file, by its path in the repository, in their order."""
    files = [*sorted(SOURCE.rglob("*.py")), *sorted(PAGES.rglob("*.ts"))]
    found = {}
    for path in files:
        read = list_python_texts if path.suffix == ".py" else list_script_texts
        texts = [" ".join(text.split()) for text in read(path) if is_sentence(text)]
        if texts:
            found[str(path.relative_to(ROOT))] = list(dict.fromkeys(texts))
    return found


def is_sentence(text: str) -> bool:
    """Whether a text has so many words, and no sign of code."""
    return len(_WORD.findall(text)) >= LEAST_WORDS and not _CODE.search(text)


def list_python_texts(path: Path) -> Iterator[str]:
    """Every text of a module that is no docstring, what is joined in one piece, in order."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    is_command = path.parent == SOURCE / "doors" / "cli" and not path.stem.startswith("_")
    if is_command and (about := ast.get_docstring(tree)):
        yield from about.splitlines()
    yield from _walk(tree)


def _walk(first: ast.AST) -> Iterator[str]:
    """The texts below a node, in order. A million nodes: a stack, and leaves are not looked at."""
    waiting = [first]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, _TEXTS) and (text := _read_text(node)) is not None:
            yield text
            for part in ast.walk(node):
                if isinstance(part, ast.FormattedValue):
                    yield from _walk(part.value)
            continue
        below: list[ast.AST] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                below += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
                below.append(value)
        waiting += reversed(below)


def _read_text(node: ast.expr) -> str | None:
    """A text as it is read: values as `{}`, a sum of texts as one; None for what is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)  # type: ignore[misc]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _read_text(node.left), _read_text(node.right)
        return None if left is None or right is None else left + right
    return None


def list_script_texts(path: Path) -> Iterator[str]:
    """Every text of a TypeScript module, values as `{}`; comments are left out."""
    code = re.sub(
        r"/\*.*?\*/|(?<!:)//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    for plain, template in _LITERAL.findall(code):
        yield _VALUE.sub("{}", plain or template)


def write_page(found: dict[str, list[str]]) -> str:
    """docs/sentences.md: a heading a file, a line a sentence."""
    parts = [HEAD]
    for name, texts in found.items():
        lines = "\n".join(f"    {text}" for text in texts)
        parts.append(f"## {name.removeprefix('src/sightline/')}\n\n{lines}\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or say with --check whether it is the sources'."""
    page = write_page(list_sentences())
    if "--check" not in sys.argv:
        TARGET.write_text(page, encoding="utf-8")
        return 0
    if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == page:
        return 0
    print("docs/sentences.md is not what the sources say: run  make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
