"""Record a program, unchanged, and say why it is slow.

sightline run -- python train.py                  what ran when
sightline run -- torchrun --nproc-per-node 4 train.py
sightline run --for kernels -- ./simulation       why single kernels are slow
sightline run --for system -- python train.py     what the system did meanwhile
sightline run --steps 2:1:5 -- python train.py    2 steps wait, 1 warms up
sightline run --dry-run -- python train.py        what it would run
sightline run --server vllm http://127.0.0.1:8000 --traces /traces --requests 32

Leaves NAME.sightline, a folder that every command of sightline opens. The
program's output, signals and exit code pass through; what sightline says goes
to standard error.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from sightline.doors.cli._run_options import (
    add_cupti,
    add_kernels,
    add_stacks,
    add_what,
    add_where,
    join_names,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sightline.record.collect.plan import Plan
    from sightline.record.collect.server_load import Load

HELP = "record a program, and say why it is slow"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "sightline run [options] -- COMMAND..."
    add_what(parser.add_argument_group("what to record"))
    add_kernels(parser.add_argument_group("kernels and graphs (ncu, nsys)"))
    add_stacks(parser.add_argument_group("CPU stacks (cpu)"))
    add_cupti(parser.add_argument_group("stalls and timelines through CUPTI (cupti)"))
    add_where(parser.add_argument_group("where and how long"))
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="the program and its arguments, after --",
    )


def run(args: argparse.Namespace) -> int:
    if args.server is not None and args.server[0] != "trtllm":
        return _server(args)
    from sightline.doors.cli._recorded import hold_made, make_folder, remove_recording
    from sightline.record.collect import machine, plan
    from sightline.record.collect.record import Recording, record_program
    from sightline.record.collect.server import list_trtllm_variables
    from sightline.record.inline.rank import find_identity

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    _check(args, command)
    made = plan.make_plan(
        command,
        machine.examine_machine(),
        question=args.question,
        backends=_listed(args.backend),
        options=_options(args),
    )
    if args.server is not None:
        made.leave_out("torch", "the server's own PyTorch profiler records")
        # It switches the CUDA profiler on and off itself, with TLLM_PROFILE_START_STOP.
        made.options.update(server=True, capture=True)
    folder = _folder_name(args, command)
    if args.dry_run:
        return _dry_run(made, folder, args)
    # One `sightline run` for each rank, as under srun: they share the folder.
    join = args.join or (find_identity().rank is not None and args.output is not None)
    or_join = ", or --join if another host records this job there"
    folder = make_folder(folder, chosen=args.output is not None, join=join, or_else=or_join)
    recording = Recording(made, folder, _ranks(args.ranks), args.every, args.timeout)
    recording.keep_identity = args.keep_identity
    recording.say, recording.on_end = _say, _say_end
    if args.server is not None:
        recording.variables = list_trtllm_variables(made.options.get("steps"), folder)
    with hold_made(folder) as recording.held:
        _say_plan(made, folder)
        if args.snapshot and "lttng" in made.backends:
            snapshot = f"lttng snapshot record -s {recording.session}"
            print(f"  to keep the last events now:  {snapshot}", file=sys.stderr)
        ended = record_program(recording)
        if not ended.started and not join:  # why was said in its place
            remove_recording(recording.held, folder)
            _say("nothing has been recorded")
    if not ended.started:
        return ended.code
    report = not args.no_report and not join
    if not report:  # which tells them, too
        _say_notes(recording.notes)
    if report:
        _report(folder)
    return ended.code


def _check(args: argparse.Namespace, command: list[str]) -> None:
    from sightline.errors import RequestError

    if not command:
        raise RequestError(
            "there is no program to record",
            hint="Write it after two dashes:  sightline run -- python train.py",
        )
    if args.every < 1:
        raise RequestError(f"--every {args.every} is not a valid value", why="it must be 1 or more")
    _ranks(args.ranks)
    if args.period is not None and not 5 <= args.period <= 31:
        raise RequestError(
            f"--period {args.period} is not a valid value",
            why="CUPTI samples every 2^5 to 2^31 cycles",
        )
    if args.budget is not None and not 0 < args.budget <= 100:
        raise RequestError(
            f"--budget {args.budget:g} is not a valid value", why="it must be a percentage"
        )
    if args.flush_ms is not None and not 10 <= args.flush_ms <= 3_600_000:
        raise RequestError(
            f"--flush-ms {args.flush_ms} is not a valid value", why="it must be 10 ms to an hour"
        )
    _check_stacks(args)
    _check_tools(args)
    if args.sampling not in (None, "continuous", "serialized"):
        raise RequestError(
            f"--sampling {args.sampling} is not a valid value",
            why="it must be continuous or serialized",
        )
    for name in ("after", "seconds", "timeout"):
        value = getattr(args, name)
        if value is not None and not 0 < value < 1e9:
            raise RequestError(
                f"--{name} {value:g} is not a valid value", why="it must be more than 0 s"
            )


def _check_tools(args: argparse.Namespace) -> None:
    """What is passed on to nsys, ncu and lttng, as far as its form says whether they take it."""
    import re

    from sightline.errors import RequestError
    from sightline.record.collect.backends.nsys import GPU_METRICS_HZ
    from sightline.record.collect.lttng import PERIOD, SIZE
    from sightline.record.collect.ncu_metrics import check_metrics

    low, high = GPU_METRICS_HZ
    if args.gpu_metrics is not None and not low <= args.gpu_metrics <= high:
        raise RequestError(
            f"--gpu-metrics {args.gpu_metrics} is not a valid value",
            why=f"nsys samples {low} to {high:,} times a second",
        )
    if isinstance(args.capture, str) and not re.fullmatch(
        r"repeat(?::[1-9]\d{0,5})?", args.capture
    ):
        raise RequestError(
            f"--capture {args.capture} is not a valid value",
            why="it must be repeat, repeat:N or nothing",
        )
    if args.rotate is not None and not (
        PERIOD.fullmatch(args.rotate) or SIZE.fullmatch(args.rotate)
    ):
        raise RequestError(
            f"--rotate {args.rotate} is not a valid value",
            why="it must be a size (10M) or a time (60s)",
        )
    check_metrics(_split(args.metrics))


def _check_stacks(args: argparse.Namespace) -> None:
    from sightline.errors import RequestError
    from sightline.record.collect.backends.cpu import TOOLS
    from sightline.record.sampling.events import MOST_STACK_BYTES, check_rate

    if args.cpu_stacks not in (None, *TOOLS):
        raise RequestError(
            f"--cpu-stacks {args.cpu_stacks} is not a valid value",
            why=f"there are {', '.join(TOOLS)}",
        )
    if args.cpu_rate is not None:
        check_rate("--cpu-rate", args.cpu_rate)
    size = args.cpu_stack_bytes
    if size is not None and (size % 8 or not 0 <= size <= MOST_STACK_BYTES):
        raise RequestError(
            f"--cpu-stack-bytes {size} is not a valid value",
            why=f"it must be 0 to {MOST_STACK_BYTES}, in steps of 8",
        )


def _listed(backends: list[str]) -> list[str]:
    return [b for text in backends for b in text.split(",") if b]


def _split(text: str | None) -> list[str]:
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _ranks(text: str | None) -> tuple[int, ...]:
    from sightline.errors import RequestError

    if text is None:
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise RequestError(
            f"--ranks {text} is not a list of ranks", hint="Write it as 0,7"
        ) from None


def _options(args: argparse.Namespace) -> dict[str, Any]:
    from sightline.errors import RequestError
    from sightline.record.inline.timing import steps_of

    options: dict[str, Any] = {
        "after_s": args.after,
        "seconds": args.seconds,
        "stacks": args.stacks,
        "memory": args.memory,
        "oom_snapshot": args.oom_snapshot,
        "shapes": not args.no_shapes,
        "capture": args.capture,
        "kernel": args.kernel,
        "launch_skip": args.launch_skip,
        "set": args.set,
        "launch_count": args.launch_count,
        "replay": args.replay,
        "graph": args.graph,
        "lock_clocks": args.lock_clocks,
        "sampling": args.sampling,
        "period": args.period,
        "no_calls": args.no_calls,
        "budget": args.budget,
        "measure_cost": args.measure_cost,
        "flush_ms": args.flush_ms,
        "cpu_stacks": args.cpu_stacks,
        "cpu_rate": args.cpu_rate,
        "snapshot": args.snapshot,
        "rotate": args.rotate,
        "snapshot_on": args.snapshot_on,
        "trace": args.trace,
        "gpu_metrics": args.gpu_metrics,
        "metrics": _split(args.metrics),
        "sections": args.section,
        "cache_control": args.cache_control,
        "events": _listed(args.events),
    }
    if args.steps is not None:
        try:
            options["steps"] = steps_of(args.steps)
        except ValueError as error:
            raise RequestError(f"--steps {args.steps} cannot be used", why=str(error)) from error
    for name, known in (
        ("replay", ("kernel", "application", "range", "app-range")),
        ("graph", ("node", "graph")),
    ):
        if options[name] is not None and options[name] not in known:
            raise RequestError(
                f"--{name} {options[name]} is unknown", why=f"there are {', '.join(known)}"
            )
    kept = {k: v for k, v in options.items() if v not in (None, False, [])}
    if args.cpu_stack_bytes is not None:
        kept["cpu_stack_bytes"] = args.cpu_stack_bytes
    return kept | {"shapes": options["shapes"]}


def _folder_name(args: argparse.Namespace, command: list[str]) -> Path:
    from pathlib import Path

    from sightline.doors.cli._recorded import name_folder

    scripts = [w for w in command if w.endswith(".py")]
    return name_folder(args.output, Path(scripts[0] if scripts else command[0]).stem or "run")


# On a server of ours that ran for 3 s, writing what was recorded took 35 s.
_STACKS_COST = (
    "!      every call of Python is recorded: the program runs slower, and writing\n"
    "         may take longer than it ran; --seconds 5 bounds both"
)


def _say_plan(plan: Plan, folder: Path) -> None:
    from sightline.doors.cli._recorded import show_folder
    from sightline.record.collect.plan import list_unread

    print(f"sightline: recording into {show_folder(folder)}", file=sys.stderr)
    for choice in plan.choices:
        if choice.taken:
            print(f"  {choice.backend:<6} {choice.why}", file=sys.stderr)
        elif choice.is_of_interest:
            print(f"  {'no ' + choice.backend:<6} {choice.why}", file=sys.stderr)
    for flag, readers in list_unread(plan, plan.options):
        print(f"  !  {flag} has no effect here: it is for {join_names(readers)}", file=sys.stderr)
    if plan.torch and plan.torch["stacks"]:
        print(f"  {_STACKS_COST}", file=sys.stderr)
    if not plan.backends:
        print("  nothing but what the program marks itself (sl.annotate, sl.step)", file=sys.stderr)
    sys.stderr.flush()


def _say_end(ended: Any, writing_ns: int) -> None:
    """Say so when the program has ended, and not when all is written that was recorded of it."""
    from sightline.record.collect.doing import say_after

    how = f"ended with {ended.code}"
    if ended.timed_out:
        how = "was ended by --timeout"
    elif ended.signal is not None:
        how = f"was ended by signal {ended.signal}{_signal_name(ended.signal)}"
    _say(f"the program {how} after {say_after(ended.wall_ns, writing_ns)}")


def _say_notes(notes: list[dict[str, Any]]) -> None:
    for note in notes:
        if note["severity"] != "info" and note["kind"] not in ("program_killed", "timed_out"):
            print(f"  !  {note['text']}", file=sys.stderr)


def _signal_name(number: int) -> str:
    import signal

    return f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""


def _dry_run(plan: Plan, folder: Path, args: argparse.Namespace) -> int:
    import shlex

    from sightline.record.collect.commands import wrap_command
    from sightline.record.collect.plan import list_unread
    from sightline.record.collect.record import Recording, environment, list_options

    for choice in plan.choices:
        print(f"# {choice.backend}: {'yes' if choice.taken else 'no'}, {choice.why}")
    for flag, readers in list_unread(plan, plan.options):
        print(f"# {flag} has no effect here: it is for {join_names(readers)}")
    recording = Recording(plan, folder, _ranks(args.ranks), args.every)
    options = list_options(recording)
    told = environment(recording, {}, None)
    for name, value in told.items():
        print(
            f"export {name}={shlex.quote(value)}"
            + ("${PYTHONPATH:+:$PYTHONPATH}" if name == "PYTHONPATH" else "")
        )
    if "lttng" in plan.backends:
        _print_session(plan, folder / f"host-{recording.mark}.lttng", recording.session)
    words = wrap_command(plan.command, plan.backends, folder, f"host-{recording.mark}", options)
    print(shlex.join(words))
    if "cpu" in plan.backends and "nsys" not in plan.backends:
        _print_sampler(str(plan.cpu_tool), folder / f"host-{recording.mark}")
    return 0


def _print_session(plan: Plan, folder: Path, session: str) -> None:
    """What sets up LTTng for user space before the program."""
    import shlex

    from sightline.record.collect.lttng import list_userspace, rotate_session, split_events

    user, kernel = split_events(plan.options.get("events", ()))
    snapshot = bool(plan.options.get("snapshot") or plan.options.get("snapshot_on"))
    commands = list_userspace(session, folder, snapshot=snapshot, events=user, kernel=kernel)
    if kernel:
        commands.append(["enable-event", "--kernel", f"--session={session}", kernel])
    if plan.options.get("rotate"):
        commands.append(rotate_session(session, plan.options["rotate"]))
    for words in [*commands, ["start", session]]:
        print(shlex.join(["lttng", *words]))


def _print_sampler(tool: str, stem: Path) -> None:
    """What samples CPU stacks beside the program."""
    import shlex

    from sightline.record.collect.backends import _perf, cpu

    if tool == "perf_event":
        print(f"# beside it, by sightline itself: {stem.name}.cpu.stacks")
        return
    print("# beside it, with the program's process id:")
    if tool == "perf":
        data = stem.with_name(stem.name + ".cpu.perf.data")
        print(shlex.join(_perf.sample_process("PID", data, None)))
        print(shlex.join(_perf.print_samples(data)))
    else:
        target = stem.with_name(stem.name + ".cpu.speedscope.json")
        print(shlex.join(cpu.run_py_spy("py-spy", "PID", target)))


def _report(folder: Path) -> None:
    """The screen, on standard error: standard output is the program's. Never an exit code."""
    from sightline.doors.cli._recorded import name_again, print_report
    from sightline.doors.cli._shared import format_message
    from sightline.errors import SightlineError
    from sightline.record.collect.doing import Doing

    again = name_again(folder)
    print(file=sys.stderr)
    try:
        with Doing(_say, "the recording is read"):
            page = sys.stderr.isatty() and sys.stdout.isatty()
            print_report(folder, sys.stderr, page=page)
    except SightlineError as error:
        print(format_message(error), file=sys.stderr)
        return
    except Exception as error:  # a bug in a report must not look like the program's
        print(
            f"sightline: the report failed: {error!r}\n  {again}  says more",
            file=sys.stderr,
        )
    print(f"\nTo see it again, or for more:  {again}", file=sys.stderr)


def _server(args: argparse.Namespace) -> int:
    from pathlib import Path

    from sightline.doors.cli._recorded import hold_made, make_folder, remove_empty
    from sightline.record.collect import server

    kind, url = args.server
    folder = make_folder(_folder_name(args, [kind]), join=args.join, chosen=args.output is not None)
    traces = Path(args.traces) if args.traces else None
    log = Path(args.server_log) if args.server_log else None
    load = _make_load(args)
    seconds = args.seconds or (0.0 if load else server.SECONDS)
    steps = _read_active(args.steps)
    with hold_made(folder):
        try:
            server.record_server(
                kind, url, folder, seconds, traces, _say, load=load, steps=steps, log=log
            )
        except BaseException:
            remove_empty(folder)
            raise
    if not args.no_report:
        _report(folder)
    return 0


def _read_active(steps: str | None) -> int | None:
    """How many steps a server records: N, or the last of W:U:A. Raises RequestError."""
    last = None if steps is None else steps.rpartition(":")[2]
    if last is None or (last.isdecimal() and 0 < int(last) < 10**6):
        return None if last is None else int(last)
    from sightline.errors import RequestError

    raise RequestError(f"--steps {steps} cannot be used", why="it is not a number of steps")


def _make_load(args: argparse.Namespace) -> Load | None:
    """The load that is sent to the server, or None where none was asked for."""
    from pathlib import Path

    from sightline.errors import RequestError
    from sightline.record.collect.server_load import (
        CONCURRENCY,
        REQUESTS,
        SHAREGPT_LIKE,
        Load,
        make_sharegpt_like,
        read_prompts,
    )

    if args.requests is None and args.concurrency is None and args.load is None:
        return None
    is_like = args.load == SHAREGPT_LIKE
    prompts = read_prompts(Path(args.load)) if args.load and not is_like else []
    count = len(prompts) if prompts and args.requests is None else args.requests or REQUESTS
    at_once = args.concurrency or CONCURRENCY
    if count < 1 or at_once < 1:
        raise RequestError("--requests and --concurrency must be 1 or more")
    at_once = min(at_once, count)
    return make_sharegpt_like(count, at_once) if is_like else Load(count, at_once, prompts)


def _say(text: str) -> None:
    print(f"sightline: {text}", file=sys.stderr, flush=True)
