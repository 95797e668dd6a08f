"""How to cut GPUs into MIG instances for given workloads.

sightline mig --gpu H100-80GB --want 1g.10gb:3
sightline mig --gpu A100-40GB:8 --want 'memory=9GB,sm=22%,count=12'
sightline mig gpu-history --gpu H200:4       needs as a watch measured them
sightline mig --gpu H100:2 --want 3g.40gb:3 --to mig-parted
sightline mig --list                         GPUs, profiles, where each may lie
sightline mig --gpu H200 --layouts           every way to cut one

The plan is proven to be the best: most workloads served, on the fewest GPUs,
with the least memory and SMs beyond the need. Without --gpu it is for the GPUs
of this machine. Nothing is changed: --apply prints nvidia-smi's commands, then
runs them.
Exit code 1: a workload found no place.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sightline.core.units import format_several
from sightline.doors.cli._shared import GATE_FAILED

if TYPE_CHECKING:
    from sightline.mig.models import Model
    from sightline.mig.planner import Plan
    from sightline.mig.wants import Want

HELP = "plan MIG instances for workloads: placements, waste, commands"
_FORMS = ("nvidia-smi", "mig-parted", "kubernetes", "dra")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="RECORDING",
        help="history of sightline watch, to measure the needs from",
    )
    parser.add_argument(
        "--gpu", action="append", metavar="MODEL[:N]", help="N GPUs (see --list), or a PCI id"
    )
    parser.add_argument(
        "--want",
        action="append",
        metavar="NEED",
        help="PROFILE[:N], or memory=SIZE,sm=SHARE,count=N,name=TEXT,media=yes",
    )
    parser.add_argument(
        "--isolate", action="store_true", help="a fault of one workload may not reach another"
    )
    parser.add_argument(
        "--to", choices=_FORMS, help="print the plan for this tool, and nothing else"
    )
    parser.add_argument("--list", action="store_true", help="list GPUs and profiles, and end")
    parser.add_argument("--layouts", action="store_true", help="list all ways to cut the GPU")
    parser.add_argument("--apply", action="store_true", help="print the commands, then run them")
    parser.add_argument("-o", "--output", metavar="FILE", help="write a page with pictures (.html)")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    from sightline.errors import RequestError
    from sightline.mig.describe import describe_models
    from sightline.mig.models import list_models
    from sightline.views.terminal.mig_screen import list_profiles

    if args.list:
        return _print(list(list_profiles(list_models())), describe_models(list_models()), args)
    if args.layouts:
        return _list_layouts(args)
    wants = _collect_wants(args)
    if not wants:
        raise RequestError(
            "no workload was given",
            hint="sightline mig --gpu H100-80GB --want 1g.10gb:3\n"
            "sightline mig --gpu H100-80GB:2 --want 'memory=9GB,sm=22%,count=5'\n"
            "sightline mig gpu-history      (needs as sightline watch measured them)",
        )
    fleet = _collect_fleet(args)
    return _plan(args, fleet, wants)


def _collect_wants(args: argparse.Namespace) -> list[Want]:
    from sightline.mig.wants import parse_want

    wants = [parse_want(text) for text in args.want or ()]
    if args.recordings:
        from sightline.mig.measured import measure_wants
        from sightline.opening.run import open_run

        wants += measure_wants(open_run(args.recordings))
    return wants


def _collect_fleet(args: argparse.Namespace) -> list[tuple[Model, int]]:
    """GPUs as given, or those of this machine, by their PCI device ids."""
    from sightline.errors import RequestError
    from sightline.mig.models import find_model

    counts: dict[str, int] = {}
    for text in args.gpu or ():
        name, colon, count = text.rpartition(":")
        if not colon:
            name, count = text, "1"
        if not count.isdecimal() or int(count) < 1:
            raise RequestError(
                f"'{count}' in '{text}' is not a number of GPUs", hint="--gpu H100-80GB:8"
            )
        model = find_model(name)
        counts[model.name] = counts.get(model.name, 0) + int(count)
    if counts:
        return [(find_model(name), count) for name, count in counts.items()]
    found = _find_own()
    if not found:
        raise RequestError(
            "no GPU was given, and no GPU with MIG can be read here",
            hint="sightline mig --gpu H100-80GB:8 ...   (sightline mig --list has the names)",
        )
    return found


def _find_own() -> list[tuple[Model, int]]:
    """The models of this machine's GPUs, with how many there are of each."""
    from sightline.mig.live import list_own_gpus

    counts: dict[str, int] = {}
    models: dict[str, Model] = {}
    for gpu in list_own_gpus():
        models.setdefault(gpu.model.name, gpu.model)
        counts[gpu.model.name] = counts.get(gpu.model.name, 0) + 1
    return [(models[name], count) for name, count in counts.items()]


def _plan(args: argparse.Namespace, fleet: list[tuple[Model, int]], wants: list[Want]) -> int:
    from sightline.errors import RequestError
    from sightline.mig import commands
    from sightline.mig.planner import plan_gpus

    plan = plan_gpus(fleet, wants)
    code = GATE_FAILED if sum(plan.unserved) else 0
    if args.apply:
        own = [(model.name, count) for model, count in _find_own()]
        if [(model.name, count) for model, count in fleet] != own:
            raise RequestError(
                "these are not the GPUs of this machine, so the plan cannot be carried out here",
                hint="Print its commands:  --to nvidia-smi",
            )
        if len(fleet) > 1:
            raise RequestError("--apply is for GPUs of one model")
        _apply(commands.list_steps(plan, _list_own_numbers(fleet[0][0])))
        return code
    if args.to == "nvidia-smi":
        if plan.used > commands.MOST_OF_ONE_MACHINE:
            raise RequestError(
                f"{plan.used} GPUs are in several machines, and nvidia-smi is for one",
                hint="--to mig-parted has a configuration for each cut",
            )
        numbers = _list_own_numbers(fleet[0][0]) if not args.gpu and len(fleet) == 1 else None
        print(commands.write_script(commands.list_steps(plan, numbers)))
        return code
    if args.to is not None:
        writers: dict[str, Any] = {
            "mig-parted": commands.write_mig_parted,
            "kubernetes": commands.write_device_plugin,
            "dra": commands.write_dra,
        }
        print(writers[args.to](plan), end="")
        return code
    _show(args, fleet, plan)
    return code


def _list_own_numbers(model: Model) -> list[int]:
    """The numbers of this machine's GPUs of a model: others may lie between them."""
    from sightline.mig.live import list_own_gpus

    return [gpu.number for gpu in list_own_gpus() if gpu.model.name == model.name]


def _apply(steps: list[Any]) -> None:
    import sys

    from sightline.mig.apply import apply_steps
    from sightline.mig.commands import write_script

    print("What is run now, in this order:\n")
    print(write_script(steps), flush=True)
    print()
    apply_steps(steps, lambda text: print(text, file=sys.stderr, flush=True))


def _show(args: argparse.Namespace, fleet: list[tuple[Model, int]], plan: Plan) -> None:
    import json

    from sightline.mig import commands
    from sightline.mig.describe import describe_plan
    from sightline.mig.planner import list_alternatives
    from sightline.mig.sharing import advise_sharing
    from sightline.views.terminal import mig_screen

    # Both compare ways to use GPUs that are alike.
    model, count = fleet[0]
    others = list_alternatives(model, count, plan.wants) if len(fleet) == 1 else []
    advice = advise_sharing(plan, model, count, isolate=args.isolate) if len(fleet) == 1 else None
    if args.output:
        from sightline.doors.cli._output import deliver
        from sightline.views.html.mig import write_page

        available = sum(count for _, count in fleet)
        deliver(
            args.output, args.recordings, lambda: write_page(plan, available, others, advice), None
        )
        return
    if args.json:
        told = describe_plan(plan)
        told["alternatives"] = [
            {"mix": dict(one.mix), "gpus": one.plan.used, "unserved": sum(one.plan.unserved)}
            for one in others
        ]
        told["sharing"] = None if advice is None else advice._asdict()
        print(json.dumps(told, indent=1))
        return
    available = sum(count for _, count in fleet)
    for line in mig_screen.draw_plan(plan, available):
        print(line)
    for part in (
        mig_screen.draw_alternatives(model, plan, others) if others else (),
        mig_screen.draw_advice(advice) if advice is not None else (),
    ):
        lines = list(part)
        if lines:
            print()
            print("\n".join(lines))
    if 0 < plan.used <= commands.MOST_OF_ONE_MACHINE:
        print("\nThe commands:  --to nvidia-smi   (or mig-parted, kubernetes, dra)")
    else:
        print("\nFor other tools:  --to mig-parted   (or kubernetes, dra)")


def _list_layouts(args: argparse.Namespace) -> int:
    from sightline.mig.placements import list_layouts, list_maximal
    from sightline.views.terminal.mig_screen import list_cuts

    plain = frozenset({"1g+me"})
    lines: list[str] = []
    data = {}
    for model, _ in _collect_fleet(args):
        every, maximal = list_layouts(model.family, plain), list_maximal(model.family, plain)
        lines.append(
            f"{model.name}: {format_several(len(every) - 1, 'placement')}, {len(maximal)} to which "
            "nothing can be added (slot:profile)"
        )
        lines += list(list_cuts(model))
        data[model.name] = [
            [{"profile": model.sizes[i.key].name, "start": i.start} for i in one] for one in maximal
        ]
    return _print(lines, data, args)


def _print(lines: list[str], data: Any, args: argparse.Namespace) -> int:
    import json

    print(json.dumps(data, indent=1) if args.json else "\n".join(lines).rstrip())
    return 0
