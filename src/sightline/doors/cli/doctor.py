"""What can be recorded on this machine, and what not, and why.

sightline doctor
sightline doctor -- python train.py   what  sightline run  would record of it
sightline doctor --for kernels    what is missing for that, and the exact remedy
sightline doctor --json
sightline doctor --check-nsys-rep run.nsys-rep    against nsys' own export of it
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

HELP = "what can be recorded on this machine, and why not"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "command",
        nargs="*",
        metavar="COMMAND",
        help="a program, which is not run: what sightline run would record of it here",
    )
    parser.add_argument(
        "--for",
        dest="question",
        metavar="X",
        help="timeline, kernels, stalls, memory, energy, or a backend: torch, nsys, ncu, cupti, "
        "cpu, nvml",
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument(
        "--check-nsys-rep",
        nargs="+",
        metavar="FILE",
        help="compare a report with the export that nsys makes of it, or with one that is there "
        "(REPORT EXPORT); prints names of tables and counts, no content",
    )


def run(args: argparse.Namespace) -> int:
    import json
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import asdict

    from sightline.core.text import fit_text
    from sightline.doors.cli._probeable import list_probeable
    from sightline.doors.cli._watchable import list_watchable
    from sightline.record.collect.machine import examine_machine, list_recordable

    if args.check_nsys_rep is not None:
        return _check_report(args)
    if args.question is not None:
        return _remedies(args, examine_machine())
    if args.command:
        return _look_at_program(args)
    with ThreadPoolExecutor(2) as pool:  # each waits for drivers and other programs
        asked = [pool.submit(ask) for ask in (list_watchable, list_probeable)]
        facts = {k: v for k, v in examine_machine().items() if k not in _OF_TOOLS}
        watchable, probeable = (future.result() for future in asked)
    ways = list_recordable(facts)
    if args.json:
        told = {"facts": facts, "recordable": [asdict(w) for w in ways]}
        told["watchable"] = [asdict(w) for w in watchable]
        told["probeable"] = [asdict(w) for w in probeable]
        print(json.dumps(told, indent=1))
        return 0
    listed = [
        *((way, "") for way in ways),
        *((way, "top, watch: ") for way in watchable),
        *((way, "probe: ") for way in probeable),
    ]
    for heading, possible in (("What works here", True), ("What does not, and why", False)):
        print(heading)
        for way, command in listed:
            if way.possible == possible:
                print(_fill(f"  {fit_text(way.what, 37):<39}", f"{command}{way.why}"))
        print()
    _print_facts(facts)
    print("Of one program:  sightline doctor -- python train.py")
    print("What is missing for one of them, and the remedy:  sightline doctor --for kernels")
    return 0


def _fill(head: str, text: str) -> str:
    """A text behind its head, in 80 columns; what is broken stays behind the head."""
    import textwrap

    return textwrap.fill(text, 80, initial_indent=head, subsequent_indent=" " * len(head))


def _print_facts(facts: dict[str, Any]) -> None:
    """What is on the machine, a line each; what is not, together."""
    print("On this machine")
    missing = []
    for name, value in facts.items():
        if name.endswith("_problem"):  # said above, of what it keeps from being recorded
            continue
        label = _NAMES.get(name, name.replace("_", " "))
        if value in (None, "", []) and name not in _SETTINGS:
            missing.append(label)
            continue
        shown = _join_alike(value) if isinstance(value, list) else value
        print(_fill(f"  {label:<22}", _shown(name, shown)))
    if missing:
        print(_fill(f"  {'not found':<22}", ", ".join(missing)))
    print()


def _look_at_program(args: argparse.Namespace) -> int:
    """What would be recorded of a program, and what not though its question asks for it."""
    import json
    import shlex

    from sightline.core.redaction import redact_text
    from sightline.record.collect.machine import examine_machine
    from sightline.record.collect.plan import make_plan

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    made = make_plan(command, examine_machine())
    shown = [choice for choice in made.choices if choice.taken or choice.is_of_interest]
    if args.json:
        print(json.dumps([{"backend": c.backend, "taken": c.taken, "why": c.why} for c in shown]))
        return 0
    for taken, mark in ((True, "yes"), (False, "no")):
        for choice in shown:
            if choice.taken == taken:
                print(_fill(f"  {mark:<4} {choice.backend:<10} ", choice.why))
    if not made.backends:
        print("  yes  marks      what the program marks itself (sl.annotate, sl.step)")
    print(f"\nRecord it:  sightline run -- {redact_text(shlex.join(command))}")
    return 0


def _check_report(args: argparse.Namespace) -> int:
    """Exit code 1 where a row of the export differs or is missing, or an event is not known."""
    import json
    import tempfile
    from pathlib import Path

    from sightline.core.units import format_several
    from sightline.errors import InputError, RequestError
    from sightline.formats.nvidia._nsys.report import container
    from sightline.formats.nvidia._nsys.report.check import compare_with_export
    from sightline.record.collect.nsys_export import export_report

    report, *given = map(Path, args.check_nsys_rep)
    if len(given) > 1:
        raise RequestError(
            "a report is compared with one export",
            hint="sightline doctor --check-nsys-rep REPORT.nsys-rep EXPORT.sqlite",
        )
    for path in (report, *given):
        if not path.is_file():
            raise InputError(f"cannot read {path}", why="there is no such file")
    if not container.is_report(report):
        raise InputError(f"cannot check {report}", why="it is not an Nsight Systems report")
    with tempfile.TemporaryDirectory(prefix="sightline-") as scratch:
        export = given[0] if given else export_report(report, Path(scratch))
        checks, unknown = compare_with_export(report, export)
    # What only the report has, an older exporter left out.
    compared = [check for check in checks if check.in_export]
    is_same = not unknown and all(c.equal == c.in_report == c.in_export for c in compared)
    if args.json:
        facts = {"tables": [c._asdict() for c in checks], "unknown_events": unknown}
        print(json.dumps(facts | {"equal": is_same}, indent=1))
        return 0 if is_same else 1
    print(f"{'rows of':<38}{'report':>11}{'export':>11}{'equal':>11}")
    for check in checks:
        exported = f"{check.in_export:,}" if check.in_export else "none"
        equal = f"{check.equal:,}" if check.in_export else ""
        print(f"{check.table:<38}{check.in_report:>11,}{exported:>11}{equal:>11}".rstrip())
        for what, columns in (("differs", check.differing), ("not read", check.not_read)):
            if columns:
                print(f"    {what}: {', '.join(columns)}")
    for kind, count in sorted(unknown.items()):
        print(f"{format_several(count, 'event')} of type {kind}, which is not known")
    differ = "Please report this: it holds names of tables and columns, and counts, no content."
    print("All rows of the export are equal." if is_same else differ)
    return 0 if is_same else 1


_NAMES = {"py_spy": "py-spy", "nvml": "NVML", "unreachable_gpus": "unreachable GPUs"}
# What a tool can do, for who plans a recording with it.
_OF_TOOLS = ("nsys_help", "mpi_rank")
# Settings of the system; everything else is found or not.
_SETTINGS = ("counters_need_admin", "perf_event_paranoid", "ptrace_scope")


def _join_alike(texts: list[str]) -> str:
    """Equal ones once, with their number."""
    return ", ".join(
        f"{count} × {text}" if count > 1 else text for text, count in Counter(texts).items()
    )


def _shown(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in (None, ""):
        return "not known here"
    return str(value)


def _remedies(args: argparse.Namespace, facts: dict[str, Any]) -> int:
    """What stands in the way; exit code 1 where something does, so that scripts can ask."""
    import json
    import textwrap
    from dataclasses import asdict

    from sightline.record.collect.questions import QUESTIONS
    from sightline.record.collect.remedies import list_missing

    found = list_missing(args.question, facts)
    if args.json:
        print(json.dumps({"for": args.question, "missing": [asdict(m) for m in found]}, indent=1))
        return 1 if found else 0
    if not found:
        option = "--for" if args.question in QUESTIONS else "--backend"
        print(f"{args.question}: nothing is missing.")
        print(f"  sightline run {option} {args.question} -- COMMAND")
        return 0
    for number, item in enumerate(found, 1):
        print(textwrap.fill(item.what, 80, initial_indent=f"{number}  ", subsequent_indent="   "))
        for line in item.remedy:
            print(f"     {line}")  # a command is never broken
        print(f"   {item.document}")
    print("\nWhat can be recorded without it:  sightline doctor")
    return 1
