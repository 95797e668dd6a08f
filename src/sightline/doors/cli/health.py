"""Whether this node and its GPUs are healthy, and what to do where not.

sightline health                             checks of some seconds
sightline health --level medium              with DCGM's diagnostics
sightline health --list                      GPUs, MIG instances, ports
sightline health --expect gpus=8,ib=400      against what must be there
sightline health kernel.log smi.xml nhc.log  judge recordings instead
sightline health --fleet 'node[01-16]'       many nodes, the worst first
sightline health --nhc                       for Slurm's HealthCheckProgram

The driver's own verdict (NVML's recovery action) comes first. What cannot be
checked here is named, with the reason. Exit code 1: a check failed.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sightline.doors.cli._shared import GATE_FAILED

if TYPE_CHECKING:
    from collections.abc import Callable

    from sightline.health.judge import Judged
    from sightline.health.node import Node

HELP = "is the node healthy: GPUs, links, memory, driver, kernel log"
_EXPECTED = ("gpus", "ib", "ports", "memory", "hugepages")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recordings", nargs="*", metavar="FILE", help="kernel logs, nvidia-smi -q, dcgmi diag, ..."
    )
    parser.add_argument(
        "--level",
        choices=("quick", "medium", "long"),
        default="quick",
        help="how thorough the checks are",
    )
    parser.add_argument(
        "--expect",
        action="append",
        metavar="NAME=N,...",
        help="what this node must have: " + ", ".join(_EXPECTED),
    )
    parser.add_argument(
        "--since",
        metavar="T",
        help="leave out what happened longer ago than this (2h), such as before a reset",
    )
    parser.add_argument(
        "--list", action="store_true", help="list GPUs, instances and ports, and exit"
    )
    parser.add_argument("--checks", action="store_true", help="list the checks, and exit")
    parser.add_argument("--nhc", action="store_true", help="print only the first failure")
    parser.add_argument("--fleet", metavar="HOSTS", help="check these hosts: node[01-16],login1")
    parser.add_argument(
        "--by", choices=("ssh", "srun"), default="ssh", help="how to reach the fleet's hosts"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write a page (.html)")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    from sightline.health.check import FAIL
    from sightline.health.judge import grade, judge_node, list_checks
    from sightline.views.terminal import health_screen

    if args.checks:
        return _print(list(health_screen.list_declared(list_checks())), _describe_checks(), args)
    expected = _parse_expected(args.expect or [])
    if args.fleet:
        return _ask_fleet(args)
    node = _read(args)
    node.expected = expected
    if args.since:
        import time

        from sightline.core.units import parse_duration_ns
        from sightline.health.judge import forget_before

        forget_before(node, time.time_ns() - parse_duration_ns(args.since))
    if args.list:
        return _print(list(health_screen.list_devices(node)), _describe_devices(node), args)
    judged = judge_node(node, args.level)
    if args.output:
        from sightline.views.html.health import write_node_page

        _write_page(args, lambda: write_node_page(node, judged))
    elif args.nhc:
        line = health_screen.write_nhc_line(judged)
        if line:
            print(line)
    else:
        lines = list(health_screen.draw_health(node, judged))
        _print(lines, _describe_health(node, judged), args)
    return GATE_FAILED if grade(judged) == FAIL else 0


def _read(args: argparse.Namespace) -> Node:
    if not args.recordings:
        from sightline.health.reading.this_node import read_this_node

        return read_this_node(args.level)
    from sightline.health.reading.quiet_logs import read_node
    from sightline.health.reading.recordings import merge_nodes

    nodes = [read_node(path) for path in args.recordings]
    return merge_nodes(nodes) if len(nodes) > 1 else nodes[0]


def _parse_expected(texts: list[str]) -> dict[str, float]:
    from sightline.core.units import parse_size
    from sightline.errors import RequestError

    found: dict[str, float] = {}
    for part in ",".join(texts).split(",") if texts else ():
        name, _, value = part.partition("=")
        if name not in _EXPECTED or not value:
            raise RequestError(
                f"'{part}' is not something that can be expected",
                hint=f"--expect gpus=8   (or {', '.join(_EXPECTED[1:])})",
            )
        if name == "memory":
            found[name] = float(parse_size(value))
        elif value.isdecimal():
            found[name] = float(value)
        else:
            raise RequestError(f"'{value}' in '{part}' is not a number", hint="--expect gpus=8")
    return found


def _ask_fleet(args: argparse.Namespace) -> int:
    from sightline.health.fleet import ask_fleet, expand_hosts
    from sightline.views.terminal.health_screen import draw_fleet

    words = ["--level", args.level, *(["--since", args.since] if args.since else [])]
    for text in args.expect or ():
        words += ["--expect", text]
    nodes = ask_fleet(expand_hosts(args.fleet), args.by, words)
    if args.output:
        from sightline.views.html.health import write_fleet_page

        _write_page(args, lambda: write_fleet_page(nodes))
    else:
        _print(list(draw_fleet(nodes)), nodes, args)
    return GATE_FAILED if any(node["state"] in ("fail", "error") for node in nodes) else 0


def _write_page(args: argparse.Namespace, write: Callable[[], bytes]) -> None:
    from sightline.doors.cli._output import deliver

    deliver(args.output, args.recordings, write, None)


def _print(lines: list[str], data: Any, args: argparse.Namespace) -> int:
    import json

    print(json.dumps(data, indent=1) if args.json else "\n".join(lines))
    return 0


def _describe_checks() -> list[dict[str, Any]]:
    from sightline.health.judge import list_checks

    names = ("name", "what", "threshold", "source", "fix", "level")
    return [{name: getattr(check, name) for name in names} for check in list_checks()]


def _describe_devices(node: Node) -> dict[str, Any]:
    return {
        "gpus": [
            {
                "gpu": gpu.number,
                "name": gpu.name,
                "uuid": gpu.uuid,
                "pci": gpu.pci,
                "instances": gpu.instances,
                "lost": gpu.lost,
            }
            for gpu in node.gpus
        ],
        "ports": [port._asdict() for port in node.ports],
    }


def _describe_health(node: Node, judged: list[Judged]) -> dict[str, Any]:
    from sightline.health.check import FAIL, WARN
    from sightline.health.judge import count_states, grade, grade_node

    return {
        "node": node.name,
        "state": grade_node(node, judged),
        "counts": count_states(judged),
        "problems": [
            f"{one.check.name}: {verdict.where + ': ' if verdict.where else ''}{verdict.text}"
            for state in (FAIL, WARN)
            for one in judged
            for verdict in one.list_verdicts(state)
        ],
        "checks": [
            {
                "name": one.check.name,
                "state": grade([one]),
                "fix": one.check.fix,
                "verdicts": [verdict._asdict() for verdict in one.verdicts],
            }
            for one in judged
        ],
    }
