"""The site's pages that are written from the code: commands, rules, analyses, tables, formats."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

from command_parsers import list_commands
from reference import list_columns, write_kinds, write_patterns

from sightline.core import registry
from sightline.core.model.run import page
from sightline.doors.cli._groups import GROUPS
from sightline.doors.cli.main import build_parser

_MARKED = re.compile(r"([\\*_<>\[\]|])")


@dataclass(frozen=True)
class Page:
    """A page, and where it lies below the site's root."""

    place: str
    text: str


def list_pages() -> list[Page]:
    """All of them: of each section its list first."""
    sections = {
        "Commands": list(_write_commands()),
        "Rules": list(_write_rules()),
        "Analyses": list(_write_analyses()),
        "Tables": list(_write_tables()),
        "Formats": list(_write_importers()),
    }
    counts = "\n".join(
        f"- [{title}]({title.lower()}/index.md): {len(pages) - 1}"
        for title, pages in sections.items()
    )
    about = (
        "Written from the code. Times are int64 ns on the run's clock, sizes int64 bytes; `_pct` "
        "is 0 to 100. Missing is null."
    )
    return [
        Page("reference/index.md", f"# Reference\n\n{about}\n\n{counts}\n"),
        Page("reference/rules/patterns.md", f"# Patterns of operators\n\n{write_patterns()}"),
        Page("reference/rules/kinds.md", f"# Kinds of kernels\n\n{write_kinds()}"),
        *(found for pages in sections.values() for found in pages),
    ]


def write_docstring(text: str) -> str:
    """A docstring as Markdown: a line without indentation before lines that have it is a heading.

    What Markdown would take for markup is text, but for code in backquotes and what is indented
    further.
    """
    lines = text.splitlines()
    out: list[str] = []
    for number, line in enumerate(lines, 1):
        following = lines[number] if number < len(lines) else ""
        if line and not line.startswith(" ") and following.startswith("    "):
            out += ["", f"## {line.rstrip(':')}", ""]
        else:
            out.append(_escape_line(line.removeprefix("    ")))
    return "\n".join(out)


def _escape_line(line: str) -> str:
    if line.startswith("    "):
        return line
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<>\[\]])", r"\\\1", p) for p in parts)


def _escape(text: str) -> str:
    return _MARKED.sub(r"\\\1", " ".join(text.split()))


def _write_list(title: str, about: str, rows: list[tuple[str, str]]) -> Page:
    lines = [f"# {title}", "", about, "", "| | |", "|---|---|"]
    lines += [f"| [{_escape(name)}]({name}.md) | {_escape(text)} |" for name, text in rows]
    return Page(f"reference/{title.lower()}/index.md", "\n".join(lines) + "\n")


def _write_commands() -> Iterator[Page]:
    parser = build_parser()
    commands = list_commands(parser)
    names = [name for _, group in GROUPS for name in group if name in commands]
    names += sorted(set(commands) - set(names))
    rows = [(n, (commands[n].description or "").strip().split("\n", 1)[0]) for n in names]
    yield _write_list("Commands", "`sightline COMMAND --help`.", rows)
    for name in names:
        lines = [f"# sightline {name}", "", *_write_help(commands[name])]
        for action, parser_of in list_commands(commands[name]).items():
            lines += [f"## sightline {name} {action}", "", *_write_help(parser_of)]
        yield Page(f"reference/commands/{name}.md", "\n".join(lines))


def _write_help(command: argparse.ArgumentParser) -> list[str]:
    return ["```text", command.format_help().rstrip(), "```", ""]


def _write_rules() -> Iterator[Page]:
    members = [module for _, module in registry.load_members("rules")]
    about = "What findings look for, from where on, and why: `sightline explain NAME`."
    yield _write_list("Rules", about, [(m.RULE.name, page(m).split("\n", 1)[0]) for m in members])
    for module in members:
        text = f"# {module.RULE.name}\n\n{write_docstring(page(module))}\n"
        yield Page(f"reference/rules/{module.RULE.name}.md", text)


def _write_analyses() -> Iterator[Page]:
    members = [module for _, module in registry.load_members("analyses")]
    about = "`sightline stats NAME RECORDING...`, or `run.ask(NAME)`."
    yield _write_list("Analyses", about, [(m.ANALYSIS.name, m.ANALYSIS.question) for m in members])
    for module in members:
        analysis = module.ANALYSIS
        _, _, more = page(module).partition("\n\n")
        lines = [f"# {analysis.name}", "", f"**{analysis.question}**", ""]
        lines += ["```sh", f"sightline stats {analysis.name} RECORDING", "```", ""]
        lines += [write_docstring(more), "", *(f"- {note}" for note in analysis.notes)]
        if analysis.needs:
            named = ", ".join(f"[{n}](../tables/{n}.md)" for n in analysis.needs)
            lines.append(f"- Needs: {named}.")
        for p in analysis.params:
            unit = f" {p.unit}" if p.unit else ""
            lines.append(f"- `--set {p.name}=...` ({p.default}{unit}): {p.doc}.")
        lines += list_columns(analysis.columns)
        yield Page(f"reference/analyses/{analysis.name}.md", "\n".join(lines) + "\n")


def _write_tables() -> Iterator[Page]:
    members = [(name, module.TABLE) for name, module in registry.load_members("tables")]
    about = 'What a recording becomes: `sightline tables`, `sightline sql RECORDING "SELECT ..."`.'
    yield _write_list("Tables", about, [(name, f"One row is {t.row}.") for name, t in members])
    for name, table in members:
        lines = [f"# {name}", "", f"One row is {table.row}.", *list_columns(table.columns)]
        yield Page(f"reference/tables/{name}.md", "\n".join(lines) + "\n")


def _write_importers() -> Iterator[Page]:
    members = list(registry.load_members("importers"))
    about = "What is read, known by content and never by name: `sightline formats`."
    yield _write_list("Formats", about, [(name, m.IMPORTER.label) for name, m in members])
    for name, module in members:
        importer = module.IMPORTER
        known_by = f"Recognized by: {_escape(importer.looks_like)}."
        lines = [f"# {_escape(importer.label)}", "", known_by, "", write_docstring(page(module))]
        yield Page(f"reference/formats/{name}.md", "\n".join(lines) + "\n")
