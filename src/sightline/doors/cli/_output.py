"""What a command writes: its format, and where to; never over a recording that it reads."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # every command names this module; pathlib takes 5 ms to load
    from pathlib import Path

_SUFFIXES = {
    ".txt": "text",
    ".md": "markdown",
    ".json": "json",
    ".sarif": "sarif",
    ".html": "html",
    ".htm": "html",
}

_FOLDER_DEPTH = 6  # levels of a folder that was given, in which recordings are looked for


def refuse_inputs(targets: Iterable[Path], recordings: Sequence[str]) -> None:
    """Raise RequestError where a file to be written is one that is read.

    By device and inode: another spelling, a symbolic or a hard link are the same file.
    """
    from sightline.errors import RequestError

    inputs = None
    for target in targets:
        try:
            known = target.stat()
        except OSError:
            continue
        if inputs is None:
            inputs = _identify(recordings)
        found = inputs.get((known.st_dev, known.st_ino))
        # A device such as /dev/null or a terminal may be both.
        if found is not None and (stat.S_ISREG(known.st_mode) or stat.S_ISDIR(known.st_mode)):
            same = f"it is the recording {found}" if str(target) != found else "it is a recording"
            raise RequestError(
                f"cannot write {target}", why=f"{same} that is read", hint="Choose another name."
            )


def _identify(recordings: Sequence[str]) -> dict[tuple[int, int], str]:
    """(device, inode) of all files and folders that were given, and of what lies in the folders."""
    import glob
    from pathlib import Path

    found: dict[tuple[int, int], str] = {}

    def add(path: str) -> None:
        with contextlib.suppress(OSError):
            known = Path(path).stat()
            found.setdefault((known.st_dev, known.st_ino), path)

    for given in recordings:
        matched = [given] if os.path.lexists(given) else glob.glob(given, recursive=True)
        for path in matched:
            add(path)
            for folder, folders, files in os.walk(path):
                for name in (*folders, *files):
                    add(os.path.join(folder, name))  # noqa: PTH118 - as it was given
                if folder[len(path) :].count(os.sep) >= _FOLDER_DEPTH:
                    folders.clear()
    return found


def write_file(target: Path, data: bytes, recordings: Sequence[str]) -> None:
    """Write a file that was asked for. Raises RequestError over an input, InputError on failure."""
    from sightline.core.whole_file import write_whole
    from sightline.errors import InputError

    refuse_inputs([target], recordings)
    try:
        write_whole(target, data)
    except OSError as error:
        raise InputError(
            f"cannot write {target}", why=(error.strerror or str(error)).lower()
        ) from error


def replace_file(target: Path, data: bytes, recordings: Sequence[str]) -> None:
    """Write a file whose name nobody chose: whole or not at all, and never through a link.

    Raises RequestError over an input, OSError on failure.
    """
    from sightline.core.whole_file import write_whole

    refuse_inputs([target], recordings)
    write_whole(target, data, through_links=False)


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """--json, --format and -o; `formats` is kept for `choose_format`."""
    endings = [suffix for suffix, form in _SUFFIXES.items() if form in formats and suffix != ".htm"]
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument(
        "--format", metavar="F", help=f"{', '.join(formats)}; else by the ending of -o"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help=f"write to FILE: {_or(endings)}")
    parser.set_defaults(formats=tuple(formats))


def add_target(parser: argparse.ArgumentParser, *, with_format: bool = True) -> None:
    """-o, and --format text|json, of a command that prints its answer itself; see main."""
    if with_format:
        parser.add_argument("--format", metavar="F", choices=("text", "json"), help="text or json")
    parser.add_argument(
        "-o",
        "--output",
        dest="target",
        metavar="FILE",
        help="write to FILE; its ending is a format",
    )
    parser.set_defaults(is_table=not with_format)


def complete_output(parser: argparse.ArgumentParser) -> None:
    """Give a command that has --json, and its actions, --format and -o where they lack them."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                complete_output(inner)
    options = {option for action in parser._actions for option in action.option_strings}
    if "--json" not in options or {"--format", "-o"} <= options:
        return
    if "--format" not in options:
        parser.add_argument("--format", metavar="F", choices=("text", "json"), help="text or json")
    if "-o" not in options:
        add_target(parser, with_format=False)
    parser.set_defaults(completed=True, is_table=False)


def read_output(parsed: argparse.Namespace) -> None:
    """The form that --json, --format or the ending of -o asks for, where `complete_output` did."""
    if not getattr(parsed, "completed", False):
        return
    target = getattr(parsed, "target", None) or ""
    parsed.format = parsed.format or _SUFFIXES.get(target[target.rfind(".") :].lower())
    parsed.json = bool(parsed.json or parsed.format == "json")


def wants_json(args: argparse.Namespace) -> bool:
    """Whether data is asked for: by --json, --format json or -o FILE.json."""
    named = args.format or _SUFFIXES.get(os.path.splitext(args.target or "")[1].lower())  # noqa: PTH122
    return bool(args.json or named == "json")


_TABLES = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".md": "markdown"}


def choose_table_format(args: argparse.Namespace) -> str:
    """The format of a table: by --json, --format or the ending of -o. Raises RequestError."""
    from sightline.errors import RequestError
    from sightline.views.tables import FORMATS

    ending = os.path.splitext(args.target or "")[1].lower()  # noqa: PTH122
    form = "json" if args.json else args.format or _TABLES.get(ending, "table")
    if form not in FORMATS:
        raise RequestError(f"there is no format '{form}'", why=f"there are {', '.join(FORMATS)}")
    return str(form)


# What no text is: a file that is called so and holds the terminal's text opens as nothing.
_NO_TEXT = (".html", ".htm", ".svg", ".png", ".pdf", ".xlsx", ".csv", ".parquet")


def refuse_ending(target: str, args: argparse.Namespace) -> None:
    """Raises RequestError where a file's ending is a format that the command does not write."""
    ending = os.path.splitext(target)[1].lower()  # noqa: PTH122
    written = tuple(_TABLES) if getattr(args, "is_table", False) else (".json",)
    # `read_output` may have taken "html" from the ending.
    is_asked = getattr(args, "format", None) not in (None, _SUFFIXES.get(ending))
    if ending not in _NO_TEXT or ending in written or is_asked:
        return
    from sightline.errors import RequestError

    is_page = ending in (".html", ".htm") and bool(getattr(args, "recordings", None))
    raise RequestError(
        f"cannot write {target}",
        why=f"this command writes text, or what its ending asks for: {_or((*written, '.txt'))}",
        hint="A page:  sightline report RECORDING -o page.html" if is_page else None,
    )


@contextlib.contextmanager
def divert_output(target: str, args: argparse.Namespace) -> Iterator[None]:
    """What is printed to standard output meanwhile goes into a file, if all goes well.

    Raises RequestError over an input, InputError where the file cannot be written.
    """
    import io
    import sys
    from pathlib import Path

    refuse_ending(target, args)
    inputs = [*getattr(args, "recordings", ()), *getattr(args, "jobs", ())]
    refuse_inputs([Path(target)], inputs)
    held = io.BytesIO()
    with io.TextIOWrapper(held, encoding="utf-8") as stream:
        with contextlib.redirect_stdout(stream):
            yield
        stream.flush()
        write_file(Path(target), held.getvalue(), inputs)
    print(f"{target} written", file=sys.stderr)


def add_exact(parser: argparse.ArgumentParser) -> None:
    """--exact, of the commands that write CSV."""
    parser.add_argument(
        "--exact",
        action="store_true",
        help="csv: write strings as they are; by default an apostrophe precedes those that a "
        "spreadsheet would run as a formula (first character =, +, -, @ or a tab)",
    )


def choose_format(args: argparse.Namespace) -> str:
    """The format that is asked for by --json, --format or the ending of -o. Raises RequestError."""
    from pathlib import Path

    from sightline.errors import RequestError

    if args.json and args.format not in (None, "json"):
        raise RequestError(
            f"--json and --format {args.format} contradict each other",
            hint="Give only one of them.",
        )
    form = "json" if args.json else args.format
    if form is not None and form not in args.formats:
        why = f"there are {', '.join(args.formats)}"
        raise RequestError(f"there is no format '{form}'", why=why)
    if form is None and args.output is not None:
        form = _SUFFIXES.get(Path(args.output).suffix.lower())
        if form not in args.formats:
            endings = [ending for ending, form in _SUFFIXES.items() if form in args.formats]
            why = f"its ending must be {_or([e for e in endings if e != '.htm'])}"
            raise RequestError(f"cannot write {args.output}", why=why)
    return str(form or "text")


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def deliver(
    output: str | None,
    inputs: Sequence[str],
    write: Callable[[], bytes],
    render: Callable[[int], Any] | None,
) -> None:
    """An answer to the file of -o, else to standard output: laid out for its width by `render`.

    `render` is None where another format than text is asked for, which `write` makes. Raises
    RequestError over an input, InputError where the file cannot be written.
    """
    import sys
    from pathlib import Path

    if output is not None:
        write_file(Path(output), write(), inputs)
        print(f"{output} written", file=sys.stderr)
    elif render is not None:
        from sightline.doors.cli._edge import print_screen
        from sightline.doors.cli._shared import find_width

        # The screen is laid out for this width: rich must not wrap or colour it by itself.
        width = find_width(sys.stdout)
        print_screen(render(width), sys.stdout, width)
    else:
        from sightline.doors.cli._shared import print_bytes

        print_bytes(write())


def encode_json(data: Any) -> bytes:
    """Data as indented JSON with a line end."""
    import json

    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()
