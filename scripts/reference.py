"""Writes docs/reference.md from the declarations in the code; with --check, only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from sightline.core import registry
from sightline.core.model.columns import Column
from sightline.core.model.run import page
from sightline.subjects.kernels.patterns.table import PATTERNS
from sightline.timeline.kernel_kinds import list_kinds

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference.md"


def reference() -> str:
    """The whole page."""
    return (
        "\n".join(
            [*_head(), *_formats(), *_analyses(), *_rules(), *_patterns(), *_kinds(), *_tables()]
        )
        + "\n"
    )


def _head() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "Generated from the code by `make docs`; do not edit. Times are int64 ns on the run's"
    yield "clock, sizes int64 bytes; `_pct` is 0 to 100. Missing is null."
    yield ""


def _formats() -> Iterator[str]:
    yield "## Recording formats"
    yield ""
    for name, module in registry.load_members("importers"):
        importer = module.IMPORTER
        yield f"- **{name}**: {importer.label}. Recognised by: {importer.looks_like}."
    yield ""


def _analyses() -> Iterator[str]:
    yield "## Analyses"
    yield ""
    yield "`sightline stats NAME RECORDING...`, or `run.ask(NAME)`."
    for name, module in registry.load_members("analyses"):
        analysis = module.ANALYSIS
        yield f"\n### {name}\n\n{analysis.question}\n"
        text = page(module).split("\n\n", 1)
        if len(text) == 2:
            yield f"```text\n{text[1]}\n```\n"
        yield from (f"- {note}" for note in analysis.notes)
        if analysis.needs:
            yield f"- Needs: {', '.join(analysis.needs)}."
        for p in analysis.params:
            unit = f" {p.unit}" if p.unit else ""
            yield f"- `--set {p.name}=...` ({p.default}{unit}): {p.doc}."
        yield from list_columns(analysis.columns)
    yield ""


def _rules() -> Iterator[str]:
    yield "## Rules"
    for _, module in registry.load_members("rules"):
        yield f"\n### {module.RULE.name}\n\n```text\n{page(module)}\n```"
    yield ""


def write_patterns() -> str:
    """The patterns of operators, as a Markdown table."""
    return "\n".join(_list_patterns())


def write_kinds() -> str:
    """The kinds of kernels, as a Markdown table."""
    return "\n".join(_list_kinds())


def _patterns() -> Iterator[str]:
    yield "## Patterns of operators"
    yield ""
    yield from _list_patterns()


def _list_patterns() -> Iterator[str]:
    yield "What the rules in the second column look for in recorded operators, the narrower first."
    yield ""
    yield "| pattern | rule | what a program does | what to do | source |"
    yield "|---|---|---|---|---|"
    for p in PATTERNS:
        yield f"| {p.name} | {p.rule} | {p.cause} | {p.fix} | {p.source} |"
    yield ""


def _kinds() -> Iterator[str]:
    yield "## Kinds of kernels"
    yield ""
    yield from _list_kinds()


def _list_kinds() -> Iterator[str]:
    yield "By their names (`sightline stats kernel_kinds`), with an example of each."
    yield ""
    yield "| kind | example | source |"
    yield "|---|---|---|"
    for row in list_kinds():
        yield f"| {row.kind} | `{row.example}` | {row.source} |"
    yield ""


def _tables() -> Iterator[str]:
    yield "## Tables"
    for name, module in registry.load_members("tables"):
        yield f"\n### {name}\n\nOne row is {module.TABLE.row}."
        yield from list_columns(module.TABLE.columns)


def list_columns(columns: tuple[Column, ...]) -> Iterator[str]:
    """A Markdown table of columns, with an empty line before it."""
    yield ""
    yield "| column | type | unit | joins | what it is |"
    yield "|---|---|---|---|---|"
    for c in columns:
        doc = c.doc.replace("|", "\\|")
        yield f"| {c.name} | {c.dtype} | {c.unit or ''} | {c.joins or ''} | {doc} |"


def main() -> int:
    text = reference()
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
        print(f"{TARGET.name} written")
        return 0
    if not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text:
        print("docs/reference.md is not in step with the code: run  make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
