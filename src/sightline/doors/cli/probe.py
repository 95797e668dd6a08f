"""See the GPU calls of a running program, without restarting it.

sightline probe --pid 4242 --for 30s     one process and all that it started
sightline probe --container 3f2a9c41d7e0 --for 30s
sightline probe --for 10s                all that have loaded a GPU library
sightline probe --pid 4242 --stacks      and from where
sightline probe --pid 4242 --samples     and what its threads do meanwhile
sightline probe --prometheus             metrics on 127.0.0.1:9401, nothing kept
sightline probe --pid 4242 --list        what would be probed

Sees launches with kernel, grid and block, copies, allocations, waits and
collectives, in libcuda, libcudart (shared, or linked into a program),
libamdhip64 and libnccl. When the GPU did the work is not seen: for that,
sightline run. Needs root. Leaves probe.sightline, which every command opens.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sightline.record.probe.backend import Backend
    from sightline.record.probe.session import Session
    from sightline.record.sampling.sampler import StackSampler

HELP = "which GPU calls running programs make, without restarting them"
_PORT = "127.0.0.1:9401"
_HZ = 99  # sampling.events.HZ, which is not imported for a help text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pid", type=int, action="append", metavar="P", help="this process and its children"
    )
    parser.add_argument(
        "--container", action="append", metavar="ID", help="the processes of this container"
    )
    parser.add_argument("--for", dest="length", metavar="T", help="end after this time (30s)")
    parser.add_argument("-o", "--output", metavar="DIR", help="the run's folder")
    parser.add_argument("--stacks", action="store_true", help="call stacks, too (slower)")
    parser.add_argument(
        "--samples",
        nargs="?",
        type=int,
        const=_HZ,
        metavar="HZ",
        help=f"sample the threads' CPU stacks, too ({_HZ} times a second of CPU time)",
    )
    parser.add_argument(
        "--backend",
        choices=("bpf", "perf"),
        help="eBPF, or perf_event alone, which needs nothing; else the first that works",
    )
    parser.add_argument(
        "--prometheus",
        nargs="?",
        const=_PORT,
        metavar="[HOST:]PORT",
        help=f"serve /metrics (default {_PORT}); kept is only what -o asks for",
    )
    parser.add_argument("--list", action="store_true", help="list what would be probed, and exit")
    parser.add_argument("--no-report", action="store_true", help="only record")


def run(args: argparse.Namespace) -> int:
    from sightline.core.units import format_ns, format_several, parse_duration_ns
    from sightline.errors import RequestError
    from sightline.record.probe.cost import check_permission, measure_cost
    from sightline.record.probe.session import Session

    length_s = parse_duration_ns(args.length) / 1e9 if args.length else None
    select = _make_selection(args)
    if args.list:
        return _list(select())
    check_permission()
    chosen = select()
    if not chosen:
        raise RequestError(
            "there is no program to probe",
            why="no process has loaded a library of CUDA or HIP",
            hint="Name one that will:  sightline probe --pid P",
        )
    backend = _open_backend(args)
    with contextlib.ExitStack() as stack:
        folder = held = None
        try:
            cost = measure_cost(backend)
            if not args.prometheus or args.output is not None:
                folder, held = _make_folder(args, stack)
            session = Session(backend, select, held, cost, stacks=args.stacks)
            processes = format_several(len(chosen), "process", "processes")
            _say(f"looking for GPU functions in the files of {processes}")
            session.look()
        except BaseException:
            backend.close()
            raise
        hit = format_ns(cost.hit_ns)
        call = format_ns(cost.call_ns)
        _say(f"{backend.name}: a probed call takes {call} longer ({hit} a probe)")
        _say_targets(session)
        sampler = None if held is None else _start_samples(args, held, select)
        try:
            _watch(args, session, backend, length_s, cost.call_ns)
        finally:
            if sampler is not None and (problem := sampler.stop()) is not None:
                _say(problem)
    calls = format_several(session.seen, "call")
    spent = format_ns(session.seen * cost.call_ns)
    _say(f"{calls} seen, which cost the program {spent} in all; the probes are gone")
    return 0 if folder is None else _report(folder, args)


def _make_selection(args: argparse.Namespace) -> Callable[[], list[int]]:
    """Whom to probe, asked again and again. Raises RequestError for one that is not there."""
    import os

    import psutil

    from sightline.errors import RequestError
    from sightline.record.probe.processes import list_container, list_descendants
    from sightline.record.probe.targets import find_programs

    pids, containers = args.pid or [], args.container or []
    for pid in pids:
        if not psutil.pid_exists(pid):
            raise RequestError(f"there is no process {pid}")
    for container in containers:
        if not list_container(container):
            raise RequestError(
                f"there is no container {container}",
                why="no control group of a process has this id in its name",
                hint="Its id:  docker ps --no-trunc   or   crictl ps",
            )
    if not pids and not containers:
        return lambda: [p for p in find_programs(psutil.pids()) if p != os.getpid()]

    def select() -> list[int]:
        found = [child for pid in pids for child in list_descendants(pid)]
        found += [pid for name in containers for pid in list_container(name)]
        return list(dict.fromkeys(found))

    return select


def _start_samples(
    args: argparse.Namespace, folder: Path, select: Callable[[], list[int]]
) -> StackSampler | None:
    """Sample the processes and what they start; None where nobody asked. Raises RequestError."""
    from sightline.core.model.stack_file import SUFFIX
    from sightline.core.units import format_several
    from sightline.record.inline.rank import make_host_mark
    from sightline.record.sampling.events import check_rate
    from sightline.record.sampling.sampler import StackSampler

    if args.samples is None:
        return None
    check_rate("--samples", args.samples)
    pids = select()
    if not pids:
        return None  # all have ended meanwhile
    path = folder / f"host-{make_host_mark()}.{pids[0]}.cpu{SUFFIX}"
    sampler = StackSampler(path, args.samples)
    threads = sampler.attach(pids)
    sampler.start()
    _say(f"{format_several(threads, 'thread')} sampled {args.samples} times a second of CPU time")
    return sampler


def _open_backend(args: argparse.Namespace) -> Backend:
    """The one that was asked for, or the first that works here; why not the other is said."""
    from sightline.errors import RequestError
    from sightline.record.probe.bpf import Programs
    from sightline.record.probe.perf import Samples

    if args.backend != "perf":
        try:
            return Programs(
                calls=not args.prometheus or args.output is not None,
                stacks=args.stacks,
                sizes=bool(args.prometheus),
            )
        except RequestError as error:
            if args.backend == "bpf":
                raise
            _say(f"{error.what} ({error.why}): taking perf_event instead")
    return Samples(stacks=args.stacks, sizes=bool(args.prometheus))


def _make_folder(args: argparse.Namespace, stack: contextlib.ExitStack) -> tuple[Path, Path]:
    """The run's folder, and the path by which it is written to, as long as `stack` is open."""
    from sightline.core.model import run_folder
    from sightline.doors.cli._recorded import hold_made, make_folder, name_folder
    from sightline.record.inline.rank import make_host_mark

    folder = make_folder(name_folder(args.output, "probe"), chosen=args.output is not None)
    held = stack.enter_context(hold_made(folder))
    run_folder.write_facts(held, f"probe-{make_host_mark()}", {"tool": "probe"})
    return folder, held


def _say_targets(session: Session) -> None:
    from sightline.core.units import format_several

    for process in session.processes.values():
        places = ", ".join(sorted(process.modules)) or "nothing to probe yet"
        _say(f"  {process.pid}  {process.name:<16} {places}")
    for name in session.hidden:
        _say(
            f"  {name} was stripped: the CUDA runtime in it has no names to probe. What it asks\n"
            "  of the driver (libcuda) is seen."
        )
    if not session.processes and not session.hidden:
        _say("  none of the processes has loaded a GPU library yet; checking again every second")
    if session.refused:
        names = sorted({name for _, name in session.refused})
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        _say(f"  {format_several(len(names), 'function')} cannot be probed cheaply: {shown}")


def _watch(
    args: argparse.Namespace,
    session: Session,
    backend: Backend,
    length_s: float | None,
    call_cost_ns: float,
) -> None:
    import signal
    import threading

    from sightline.core.units import format_several
    from sightline.errors import RequestError
    from sightline.record.probe.counts import ProbeCollector
    from sightline.record.probe.session import run_session

    stopped = threading.Event()
    handlers: dict[signal.Signals, Any] = {}
    server: Any = None
    collector = ProbeCollector(session, backend, call_cost_ns)
    why = "failed"
    try:
        if args.prometheus:
            server = _serve(args.prometheus, collector)
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, lambda *_: stopped.set())
        # Not before: who reads it may do so at once.
        length = f" for {args.length}" if args.length else ""
        _say(f"{format_several(backend.attached, 'probe')} placed{length}; stop with Ctrl-C")
        why = run_session(session, length_s, stopped.is_set)
    except OSError as error:
        raise RequestError(
            "what was seen cannot be written", why=(error.strerror or str(error)).lower()
        ) from error
    finally:
        if server is not None:
            server.shutdown()
            server.server_close()
        collector.close()
        session.finish(why)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _serve(place: str, collector: Any) -> Any:
    import threading

    from sightline.errors import RequestError
    from sightline.record.monitor.exporter import make_exporter

    host, _, port = place.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise RequestError(f"'{place}' is not a port", hint="Write for example 9401.")
    try:
        server = make_exporter(collector, host.strip("[]") or "127.0.0.1", int(port))
    except OSError as error:
        raise RequestError(
            f"cannot serve metrics on {place}", why=error.strerror or str(error)
        ) from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _say("Metrics at http://{}:{}/metrics".format(*server.server_address[:2]))
    return server


def _list(pids: list[int]) -> int:
    """What would be probed where, and what not and why; needs no right but to read the files."""
    from sightline.record.probe.targets import Targets

    if not pids:
        print("no process has loaded a library of CUDA or HIP: there is nothing to probe")
    targets = Targets(cheap_steps=True)  # whether they are is measured when a probe begins
    for pid in pids:
        try:
            libraries = targets.find(pid)
        except PermissionError:
            _say(f"{pid}: its memory map may not be read")
            continue
        for library in libraries:
            print(f"{pid}  {library.path}")
            for site in library.sites:
                why = f"no: {site.refused}" if site.refused else site.function.kind
                print(f"    {site.function.name:<32} {why}")
    return 0


def _report(folder: Path, args: argparse.Namespace) -> int:
    from sightline.doors.cli._recorded import name_again, print_report
    from sightline.errors import MissingDataError

    if not folder.is_dir():
        raise MissingDataError(
            "what was seen is lost", why=f"{folder.name} was removed while it was written to"
        )
    if not any(folder.glob("*.probe")) and not any(folder.glob("*.stacks")):
        raise MissingDataError(
            "nothing was seen", why="no probed process made a call of a GPU library"
        )
    if not args.no_report:
        print_report(folder, sys.stdout)
    _say(f"\nTo see it again, or for more:  {name_again(folder)}")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
