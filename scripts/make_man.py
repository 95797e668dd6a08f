"""Writes the man pages, one of sightline and one of each command: build/man/man1.

    python scripts/make_man.py [--to FOLDER]; man -l build/man/man1/sightline-report.1

From the commands' own help. Needs argparse-manpage (the extra `docs`), and nothing that sightline
needs to run: an sdist is made with it (build_backend.py).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from argparse_manpage.manpage import Manpage
from command_parsers import list_commands

import sightline
from sightline.doors.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[1]


def write_man_pages() -> dict[str, str]:
    """The text of each page by its file's name."""
    parser = build_parser()
    pages = {"sightline.1": _write_overview(parser)}
    for name, command in list_commands(parser).items():
        pages[f"sightline-{name}.1"] = _write_page(command, f"sightline-{name}", parser.helps[name])
    return pages


def _write_page(command: argparse.ArgumentParser, title: str, about: str) -> str:
    command.man_short_description = about  # type: ignore[attr-defined]
    head, mark, rest = str(Manpage(command, format="single-commands-section")).partition(
        ".SH DESCRIPTION\n"
    )
    described, next_mark, options = rest.partition("\n.TP\n")
    _, _, head = head.partition("\n")  # its title has a date, and names the generator
    return f"{_head(title)}\n{head}{mark}{_as_it_stands(described)}{next_mark}{options}"


def _write_overview(parser: argparse.ArgumentParser) -> str:
    name = "sightline \\- why is this GPU program slow, what does that cost, and what to change"
    text = parser.format_help().replace("\\", "\\\\").replace("-", "\\-")
    return f"{_head('sightline')}\n.SH NAME\n{name}\n.SH DESCRIPTION\n{_as_it_stands(text)}\n"


def _as_it_stands(text: str) -> str:
    """Lines that are not filled, as they are commands with what they do beside them."""
    lines = ["\\&" + line if line.startswith((".", "'")) else line for line in text.splitlines()]
    return "\n".join([".nf", *lines, ".fi"])


def _head(title: str) -> str:
    return f'.TH {title.upper()} 1 "" "sightline {sightline.__version__}" "sightline"'


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "man")
    folder: Path = parser.parse_args().to / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in write_man_pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{len(list(folder.glob('*.1')))} pages: man -l {folder / 'sightline.1'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
