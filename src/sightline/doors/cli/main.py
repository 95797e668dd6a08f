"""The `sightline` command: finds the sub-command, and is the one place that catches errors."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import os
import sys
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn, TextIO, cast

import sightline
from sightline.core.cleanup import clean_up
from sightline.core.talk import Talk
from sightline.doors.cli._edge import guard_terminal, has_reader_gone, silence_output
from sightline.doors.cli._output import complete_output, read_output
from sightline.doors.cli._shared import accept_any_encoding, format_message, heed_interrupts
from sightline.doors.cli._streams import keep_streams, name_streams
from sightline.errors import RequestError, SightlineError

DONE, WRONG, BUG, INTERRUPTED = 0, 2, 3, 130  # 1: GATE_FAILED

_COMMANDS = "commands"

_LIVE = frozenset({"top"})  # a screen that goes on: no file is written of it

_ABOUT = """\
Why is this GPU program slow, what does that cost, and what to change.

  sightline trace.json.gz              the report, on one screen
  zstdcat trace.json.zst | sightline - the same of what comes through a pipe
  sightline run -- python train.py     record a program first
  sightline stats kernels trace.json   one table; --format json for programs
  sightline import rank*.json -o run   keep the import, as Parquet
  sightline doctor                     what can be recorded on this machine
"""


def start() -> int:
    """`main` in a process of its own, which is what the installed command calls."""
    # Collecting cycles finds none among modules that are being loaded, and all of them are looked
    # through once more as Python ends: 80 of 480 ms of a report of 80 kB (benchmarks/start.py).
    gc.set_threshold(100_000, 50, 100)
    try:
        code = main()
    finally:
        gc.freeze()
    if code == INTERRUPTED:
        _end_at_once()
    heed_interrupts()
    sys.unraisablehook = _hear_interrupt
    if sys.stderr is not None:
        # What a thread still says may find no reader, which must not turn the exit code.
        sys.stderr = cast(TextIO, Talk(sys.stderr))
    return code


def _end_at_once() -> NoReturn:
    """Who interrupts waits for no thread, and for nothing that is kept for the next time."""
    with contextlib.suppress(KeyboardInterrupt):
        clean_up()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError, KeyboardInterrupt):
            stream.flush()
    os._exit(INTERRUPTED)


def _hear_interrupt(told: sys.UnraisableHookArgs) -> None:
    """An interrupt while Python ends: it waits for threads then, and would go on with the rest."""
    if told.exc_type is not None and issubclass(told.exc_type, KeyboardInterrupt):
        _end_at_once()
    sys.__unraisablehook__(told)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0 done, 1 gate failed, 2 wrong input, 3 a bug of ours."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Read by Polars' allocator (jemalloc) when it is loaded, which is later. Memory that one table
    # gave back is the next one's instead of going to the system and coming back page by page:
    # 0.9 of 7.5 s of processor time in the report of a million events (benchmarks/report_page.py).
    # Few arenas, and none of its own for what is larger than 8 MiB, which gives everything back at
    # once: 1.08 instead of 1.40 GB, and 3.9 instead of 4.1 s, in the cold report of 0.54 GB.
    # What nobody has taken within a second goes back: 6.9 instead of 7.4 GB in that of 8 GB.
    arenas = max(1, (os.cpu_count() or 1) // 2)
    os.environ.setdefault(
        "_RJEM_MALLOC_CONF",
        f"dirty_decay_ms:1000,muzzy_decay_ms:0,narenas:{arenas},oversize_threshold:0",
    )
    _fill_standard_files()
    accept_any_encoding()
    with guard_terminal():
        return _run(arguments)


def _fill_standard_files() -> None:
    """Where standard input, output or error are closed, no file of ours may take their place."""
    with contextlib.suppress(OSError):
        while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:
            continue
        os.close(number)


def _run(arguments: list[str]) -> int:
    try:
        return dispatch(arguments)
    except SightlineError as error:
        print(format_message(error), file=sys.stderr)
        return WRONG
    except ModuleNotFoundError as error:
        if error.name != "sightline._native":
            print(_bug_report(arguments), file=sys.stderr)
            return BUG
        print(format_message(_no_reader()), file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError as error:
        if not has_reader_gone():
            return _judge(error, arguments)  # of another pipe: to a program of ours
        # The reader of our output has gone, as `head` does. Nothing is wrong.
        silence_output()
        return DONE
    except SystemExit:  # argparse ends this way
        raise
    except Exception as error:  # what escapes is our mistake, and must not look like the user's
        return _judge(error, arguments)
    except BaseException as error:  # a panic of Polars is not an Exception, and never a gate
        if type(error).__name__ != "PanicException":
            raise
        return _judge(error, arguments)


def _judge(error: BaseException, arguments: list[str]) -> int:
    """Exit code, and what to say: of the system's refusals what it is, of all else that it is ours.

    A disk that is full, an output that is closed or a folder that may not be read are not bugs.
    """
    if isinstance(error, OSError) and error.errno is not None and error.errno in _REFUSALS:
        place = f" {os.fsdecode(error.filename)}" if error.filename is not None else ""
        _say(f"sightline: cannot go on: {(error.strerror or str(error)).lower()}{place}.")
        silence_output()
        return WRONG
    if isinstance(error, MemoryError):
        _say("sightline: cannot go on: there is not enough memory.")
        return WRONG
    if _is_damage(error):
        _say(
            "sightline: cannot go on: a table of the store, or of the cache, is damaged.\n"
            "           Import the recording again, or  sightline cache clear"
        )
        return WRONG
    _say(_bug_report(arguments))
    return BUG


def _is_damage(error: BaseException) -> bool:
    """Whether Polars found a Parquet file damaged, in a query that read it only then."""
    words = str(error)
    of_polars = type(error).__module__.split(".")[0] == "polars"
    return of_polars and any(sign in words for sign in _DAMAGE)


# The beginnings of what Polars' reader of Parquet says (polars-parquet, ParquetError).
_DAMAGE = (*("parquet: ", "File out of specification", "Underlying IO error", "snappy: corrupt"),)


# What the system refuses for reasons that lie outside of sightline and of the recording.
_REFUSALS = frozenset(
    getattr(errno, name, None)
    for name in (
        *("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EIO", "EBADF", "EMFILE"),
        *("ENFILE", "ENAMETOOLONG", "ELOOP", "ENOMEM"),
    )
)


def _say(text: str) -> None:
    """To standard error, where there is one."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr)


def dispatch(arguments: list[str]) -> int:
    names = command_names()
    if arguments and arguments[0] not in names and _names_recording(arguments[0]):
        arguments = ["report", *arguments]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in names:
        raise _no_command(arguments, names)
    # Of one command only its own options, of the list of commands none: those of all take 20 ms.
    asked = arguments[:1] if arguments and arguments[0] in names else []
    listed = [] if arguments[:1] == ["--version"] else names
    parser = build_parser(asked or listed, with_options=bool(asked))
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        own = cast(_Parser, getattr(parsed, "parser", parser))
        own.refuse(unknown)
    if not hasattr(parsed, "module"):
        parser.print_help()
        return DONE
    module: ModuleType = parsed.module
    if not getattr(parsed, "timings", False):
        return _run_module(module, parsed)
    from sightline.core.stages import keep_stages, write_table

    kept = keep_stages()
    try:
        return _run_module(module, parsed)
    finally:
        _say(write_table(kept.finish()).rstrip("\n"))


def _run_module(module: ModuleType, parsed: argparse.Namespace) -> int:
    files = keep_streams(parsed)
    try:
        return _run_command(module, parsed)
    except SightlineError as error:
        name_streams(error, files)
        raise


def _run_command(module: ModuleType, parsed: argparse.Namespace) -> int:
    read_output(parsed)
    target: str | None = getattr(parsed, "target", None)
    if target is not None:
        from sightline.doors.cli._output import divert_output

        with divert_output(target, parsed):
            return int(module.run(parsed))
    code: int = module.run(parsed)
    sys.stdout.flush()
    return code


def _no_command(arguments: list[str], names: list[str]) -> RequestError:
    """A mistyped command; the name of an analysis or a rule is one that wants a word before it."""
    import shlex

    from sightline.core import registry

    word, rest = arguments[0], arguments[1:]
    if word.replace("-", "_") in registry.list_names("analyses"):
        hint = shlex.join(["sightline", "stats", word.replace("-", "_"), *(rest or ["RECORDING"])])
        return RequestError(f"'{word}' is an analysis, not a command", hint=hint)
    if word.replace("-", "_") in registry.list_names("rules"):
        hint = f"sightline explain {word}"
        return RequestError(f"'{word}' is a rule, not a command", hint=hint)
    return RequestError(
        f"there is no command and no file called '{word}'",
        why=registry.did_you_mean(word, names),
        hint="All commands:  sightline --help",
    )


def _no_reader() -> SightlineError:
    return SightlineError(
        "this installation has no compiled reader",
        why="sightline was called from its sources, and it is built when sightline is installed",
        hint="In the checkout:  pip install .",
    )


def _names_recording(text: str) -> bool:
    """Whether `sightline TEXT` is the main job: on a file, or on standard input (`-`).

    A mistyped command is not a file.
    """
    if text == "-":
        return True
    return not text.startswith("-") and ("." in text or "/" in text or os.path.exists(text))  # noqa: PTH110


def command_names() -> list[str]:
    """The sub-commands: the modules of this folder."""
    # pathlib and pkgutil would cost every command 20 ms.
    files = os.listdir(os.path.dirname(__file__))  # noqa: PTH120, PTH208
    names = [f.removesuffix(".py") for f in files if f.endswith(".py") and f != "main.py"]
    return sorted(n.removesuffix("_").replace("_", "-") for n in names if not n.startswith("_"))


def build_parser(
    names: Sequence[str] | None = None, *, with_options: bool = True
) -> argparse.ArgumentParser:
    """The parser of these commands, or of the whole command line; or only the list of them."""
    names = command_names() if names is None else names
    parser = _Root(
        "sightline", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--version",
        action=_PrintVersion,
        help="print the version, and whether the compiled reader and the HTML pages are installed",
    )
    commands = parser.add_subparsers(title=_COMMANDS, metavar="COMMAND", parser_class=_Parser)
    for name in names:
        # Keywords: their modules are called import_ and try_.
        suffix = "_" if name in ("import", "try") else ""
        module = importlib.import_module(f"sightline.doors.cli.{name.replace('-', '_')}{suffix}")
        sub = commands.add_parser(
            name,
            help=module.HELP,
            description=textwrap.dedent(module.__doc__ or ""),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.helps[name] = module.HELP
        sub.set_defaults(module=module, parser=sub)
        if with_options:
            module.add_arguments(sub)
            if name not in _LIVE:
                complete_output(sub)
    return parser


class _Parser(argparse.ArgumentParser):
    """Its errors quote what was typed, which may be another program's secrets."""

    def error(self, message: str) -> NoReturn:
        from sightline.core.redaction import redact_text

        super().error(redact_text(message))

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Say which words this command does not know, and which of its options are nearest."""
        from sightline.core.registry import did_you_mean

        flag = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
        near = None if flag is None else did_you_mean(flag, self.list_options())
        self.error(f"it does not know {' '.join(unknown)}" + (f": {near}" if near else ""))

    def list_options(self) -> list[str]:
        """All its options, and those of its actions."""
        inner = [
            p for a in self._actions if isinstance(a.choices, dict) for p in a.choices.values()
        ]
        actions = [action for p in (self, *inner) for action in p._actions]
        return sorted({option for action in actions for option in action.option_strings})


class _Root(_Parser):
    """Lists the commands by what a person wants to do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.helps: dict[str, str] = {}

    def format_help(self) -> str:
        from sightline.doors.cli._groups import write_groups

        head, mark, _ = super().format_help().partition(f"\n{_COMMANDS}:\n")
        return f"{head}\n{write_groups(self.helps)}" if mark else head


class _PrintVersion(argparse.Action):
    """Looks at what is installed only when --version is given."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from sightline.core.installation import describe_installation

        print(describe_installation())
        parser.exit(DONE)


def _bug_report(arguments: list[str]) -> str:
    import tempfile
    import traceback

    from sightline.core.redaction import redact_text, show_command

    details = "".join(
        [
            f"sightline {sightline.__version__}, Python {sys.version}\n",
            f"arguments: {show_command(['sightline', *arguments])}\n\n",
            redact_text(traceback.format_exc()),
        ]
    )
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="sightline-bug-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(details)
        where = f"The details are in {file.name}"
    except OSError as error:
        where = f"The details could not be written ({error.strerror}):\n{details}"
    last = redact_text(traceback.format_exc()).strip().splitlines()[-1]
    return (
        f"sightline: this is a bug in sightline, not in your recording: {last}\n           "
        f"{where}\n           Please open an issue with it."
    )


if __name__ == "__main__":
    sys.exit(start())
