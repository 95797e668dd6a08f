"""Why it is slow, what that costs, what to change, and how to check it.

sightline findings trace.json.gz
sightline findings rank*.json.gz --json          the most important first
sightline findings trace.json --format markdown  for an issue
sightline findings trace.json --format sarif     for code scanning
sightline findings trace.json --format lines     FILE:LINE: ..., for editors
sightline findings trace.json --fail-on warning  exit 1, for CI
sightline findings trace.json --rules mine.yaml  with rules of your own
sightline explain RULE                           a rule's page
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.doors.cli._shared import (
    GATE_FAILED,
    add_all,
    add_recordings,
    add_rules,
    load_own_rules,
    open_recordings,
)

if TYPE_CHECKING:
    from sightline.core.model.declare import Finding

HELP = "why it is slow, what that costs, what to change: as text, json, markdown, sarif or lines"

FORMATS = ("text", "json", "markdown", "sarif", "lines")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    add_rules(parser)
    add_all(parser)
    parser.add_argument(
        "--vendor",
        action="store_true",
        help="also what nsys analyze lists, by its names: cuda_memcpy_async, gpu_gaps, ...",
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument(
        "--format", metavar="F", help="text (default), json, markdown, sarif or lines"
    )
    parser.add_argument(
        "--fail-on",
        metavar="RULE|SEVERITY",
        action="append",
        default=[],
        dest="fail_on",
        help="exit 1 if this rule reports more than info, or any rule reports this severity "
        "(critical, warning, info) or a higher one; may be given several times",
    )


def run(args: argparse.Namespace) -> int:
    import json
    import shutil
    import sys

    from sightline.answer.answer import note_sample
    from sightline.errors import RequestError
    from sightline.views.terminal.finding_text import (
        write_lines,
        write_markdown,
        write_sarif,
        write_text,
    )

    form = "json" if args.json else args.format or "text"
    if form not in FORMATS:
        raise RequestError(f"there is no format '{form}'", why=f"there are {', '.join(FORMATS)}")
    own = load_own_rules(args.rules)
    gates = [_gate(word, {rule.tag for rule in own}) for word in args.fail_on]
    run = open_recordings(args, for_rules=True)
    vendor = args.vendor or any(_of_vendor(g) for g in gates)
    causes = run.causes(own, vendor=vendor, whole=args.all)
    found = causes.findings
    if (note := note_sample(causes.sample)) is not None:
        print(note, file=sys.stderr)
    if form == "json":
        print(json.dumps([f.to_dict() for f in found], indent=1, ensure_ascii=False))
    elif form == "sarif":
        print(json.dumps(write_sarif(found, args.recordings), indent=1, ensure_ascii=False))
    elif form == "lines":
        if text := write_lines(found, args.recordings):
            print(text)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(write_markdown(found, run) if form == "markdown" else write_text(found, run, width))
    return GATE_FAILED if any(_hits(gate, found) for gate in gates) else 0


def _gate(word: str, own: set[str]) -> tuple[str, str]:
    """('rule', name) or ('severity', name); an unknown word is an error before anything runs."""
    from sightline.core import registry
    from sightline.errors import RequestError
    from sightline.views.terminal.finding_text import SEVERITIES

    if word in SEVERITIES:
        return "severity", word
    names = own | {module.RULE.name for _, module in registry.load_members("rules")}
    name = word.replace("_", "-")
    if name not in names:
        raise RequestError(
            f"--fail-on {word} is neither a rule nor a severity",
            why=registry.did_you_mean(word, [*SEVERITIES, *names]),
            hint="All rules:  sightline rules",
        )
    return "rule", name


def _of_vendor(gate: tuple[str, str]) -> bool:
    """Whether a gate names one of the vendor's rules, which are asked on request only."""
    from sightline.core import registry

    kind, name = gate
    known = registry.list_names("rules")
    module = name.replace("-", "_")
    return kind == "rule" and module in known and registry.load("rules", module).RULE.vendor


def _hits(gate: tuple[str, str], found: list[Finding]) -> bool:
    from sightline.views.terminal.finding_text import SEVERITIES

    kind, name = gate
    judged = [f for f in found if not f.abstained]
    if kind == "rule":
        return any(f.rule == name and f.severity != "info" for f in judged)
    limit = SEVERITIES.index(name)
    return any(SEVERITIES.index(f.severity) <= limit for f in judged)
