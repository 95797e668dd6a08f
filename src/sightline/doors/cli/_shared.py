"""Options that several commands have."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.diagnosis.custom.forms import OwnRule
    from sightline.errors import SightlineError
    from sightline.session import Session

GATE_FAILED = 1  # an exit code; the others are main's


def format_message(error: SightlineError) -> str:
    """What, why and the next command, at 80 columns, as a person reads it."""
    import textwrap

    # Compiling its patterns takes 10 ms, which a command that goes well needs not wait for.
    from sightline.core.redaction import redact_text

    text = redact_text(error.what if error.why is None else f"{error.what}: {error.why}")
    indent = " " * len("sightline: ")
    lines = textwrap.wrap(
        text if text.endswith((".", "?")) else text + ".",
        80,
        initial_indent="sightline: ",
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if error.hint is not None:
        # A hint may hold a command, which is never broken.
        lines += [indent + redact_text(line) for line in error.hint.splitlines()]
    return "\n".join(lines)


def add_paths(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """The recordings alone."""
    parser.add_argument(
        "recordings",
        nargs=nargs,
        metavar="RECORDING",
        help="files, folders, globs or .sightline stores, of one execution",
    )


def add_recordings(parser: argparse.ArgumentParser) -> None:
    """The recordings, the window, and whether names are kept."""
    add_paths(parser)
    parser.add_argument(
        "--window",
        metavar="W",
        help="steady (marked steps without the first), step:N, or a range such as 10ms..25ms; "
        "default: each device's first to last operation",
    )
    add_reading(parser)


def add_rules(parser: argparse.ArgumentParser) -> None:
    """--rules FILE."""
    parser.add_argument(
        "--rules",
        metavar="FILE",
        action="append",
        default=[],
        help="rules of your own: a YAML or JSON file, or a folder of them; may be given several "
        "times (docs/own-rules.md)",
    )


def add_all(parser: argparse.ArgumentParser) -> None:
    """--all."""
    parser.add_argument(
        "--all",
        action="store_true",
        help="look for causes in all steps of a long recording, not only in representative ones",
    )


def load_own_rules(paths: list[str]) -> list[OwnRule]:
    """The rules of these files, all checked before anything runs."""
    if not paths:
        return []
    from sightline.diagnosis.custom.facts import load_checked_rules

    return load_checked_rules(paths)


def count_rows(text: str) -> int:
    """A number of rows, for argparse: 0 or more."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("it is less than 0")
    return number


def add_reading(parser: argparse.ArgumentParser) -> None:
    """--same-job, --keep-identity and --timings: how recordings are read."""
    parser.add_argument(
        "--same-job",
        action="store_true",
        help="merge the recordings even if they seem to belong to different jobs",
    )
    parser.add_argument(
        "--keep-identity",
        action="store_true",
        help="keep host and user names that a recording holds; they are left out otherwise",
    )
    parser.add_argument(
        "--timings",
        action="store_true",
        help="print to standard error how long each stage of this command took",
    )


# Compiled code reads so many bytes while Python loads the rules, which takes 0.07 s.
_MANY_BYTES = 64 << 20


def open_recordings(args: argparse.Namespace, *, for_rules: bool = False) -> Session:
    """The run that the command line asks for, with progress on a terminal's stderr.

    `for_rules`: they will be asked, so they are loaded while a large recording is read.
    """
    from sightline.core.model.declare import ImportOptions
    from sightline.doors.cli._progress import Progress
    from sightline.session import open_session

    if for_rules:
        _load_rules_beside(args.recordings)
    heed_interrupts()
    options = ImportOptions(keep_identity=args.keep_identity)
    with Progress(sys.stderr) as progress:
        return open_session(
            args.recordings,
            window=getattr(args, "window", None),
            options=options,
            progress=progress,
            same_job=getattr(args, "same_job", False),
        )


def heed_interrupts() -> None:
    """Let Ctrl-C end a wait for a thread at once.

    Polars takes the signal over when it is loaded, and has the system begin such a wait anew: it
    would be heard when the thread has ended.
    """
    import signal

    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)


def _load_rules_beside(recordings: Sequence[str]) -> None:
    """Load them in a thread; whoever wants one meanwhile waits for it, and meets its error."""
    import contextlib
    import threading
    from pathlib import Path

    from sightline.core import registry

    def load() -> None:
        with contextlib.suppress(Exception):
            for _ in registry.load_members("rules"):
                continue

    with contextlib.suppress(OSError):
        if sum(Path(path).stat().st_size for path in recordings) > _MANY_BYTES:
            # No daemon: Python must not end while compiled code is being loaded.
            threading.Thread(target=load, name="load-rules").start()


# One letter for one letter, so that columns stay where they are.
_PLAIN = str.maketrans("·…µ×−—–█▒░→◀▶≥≤", "-~ux---#%.><>><")


def accept_any_encoding() -> None:
    """Let standard output and error write what their encoding lacks as plain letters.

    A terminal in the C locale, or PYTHONIOENCODING=ascii, has neither 'µ' nor bars.
    """
    import codecs

    def write_plain(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        text = error.object[error.start : error.end].translate(_PLAIN)
        return "".join(c if c.isascii() else "?" for c in text), error.end

    codecs.register_error("sightline", write_plain)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        if reconfigure is not None and encoding != "utf8":
            reconfigure(errors="sightline")


def find_width(stream: TextIO) -> int:
    """The columns of the window; 80 where the stream is not a terminal, so that files are alike.

    A terminal that nobody gave a size has 0 of them (`script`, `docker run -t`): that is 80, too.
    """
    import os

    try:
        return (os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 80) or 80
    except (OSError, ValueError, AttributeError):  # a stand-in for a terminal has no window
        return 80


def print_bytes(data: bytes) -> None:
    """Data to stdout as it is; as text where stdout has no bytes below, as in a notebook."""
    sys.stdout.flush()
    below = getattr(sys.stdout, "buffer", None)
    if below is None or sys.stdout.isatty():  # a person looks at it: by way of the edge
        sys.stdout.write(data.decode("utf-8", "replace"))
        return
    below.write(data)
    below.flush()
