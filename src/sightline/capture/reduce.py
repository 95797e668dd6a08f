"""Reduces the traces of one capture, in a process of its own.

    python -m sightline.capture.reduce DIR ranks|fingerprint

Reads what is known of the run from standard input, and leaves beside the traces what other nodes
need of them (`shelf`): first the ranks, for which somebody waits. The daemon loads none of this.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from sightline.capture.shelf import FINGERPRINT, RANKS, RUN
from sightline.core.model import run_folder
from sightline.core.model.run import Run
from sightline.core.whole_file import write_whole
from sightline.errors import SightlineError
from sightline.fleet.rank_file import RankFile, write_ranks
from sightline.fleet.read import reduce_runs
from sightline.fleet.reduce import Rank
from sightline.record.collect import conditions, finishing
from sightline.record.inline.torch_profiler import without_names

# Ranks that a fingerprint is made of: a node has eight or sixteen GPUs, and its ranks are alike.
_MOST_PRINTED = 16
_FORMAT = "kineto"  # as PyTorch writes them
_NICE = {"ranks": 10, "fingerprint": 19}  # behind the program whose node it is, and who waits


def reduce_capture(folder: Path, facts: dict[str, Any]) -> None:
    """Write the run's facts and its ranks. Raises OSError, SightlineError."""
    run = folder / RUN
    machine, devices = conditions.read_host(), conditions.list_gpus()
    facts = {**facts, "machine": machine, "gpus": devices}
    facts.pop("history", None)
    facts["notes"] = [*conditions.list_notes(machine, devices), *facts.get("notes", ())]
    run_folder.write_facts(run, f"{facts['host_mark']}-{os.getpid()}", facts)
    ranks: list[tuple[str, Rank]] = []
    lost: list[tuple[str, str]] = []
    for name, found in reduce_runs(map(_open_trace, sorted(run.glob("*.torch-0.json")))):
        if isinstance(found, str):
            lost.append((name, found))
        else:
            ranks += [(name, rank) for rank in found]
    write_whole(folder / RANKS, write_ranks(RankFile(ranks, lost)))


def _open_trace(trace: Path) -> tuple[str, Run | str]:
    """A trace's name as it is kept, and its run, or why it cannot be read."""
    from sightline.opening.run import open_run
    from sightline.opening.unkept import open_unkept

    without_names(trace)
    is_small = trace.stat().st_size <= finishing.COMPRESS_ABOVE
    if not is_small:
        finishing.compress_trace(trace)
        trace = trace.with_name(f"{trace.name}.gz")
    try:
        # To keep a small one in the cache takes longer than to read it, and few are asked again.
        return trace.name, open_unkept(trace, _FORMAT) if is_small else open_run([str(trace)])
    except SightlineError as error:
        return trace.name, error.what if error.why is None else f"{error.what}: {error.why}"


def fingerprint_capture(folder: Path, history: dict[str, Any] | None) -> None:
    """Write the node's ranks as a comparison needs them: none of a run without steps or operations.

    Raises OSError, and InputError where a server of profiles does not take a window.
    """
    from sightline.capture.profile_push import list_pushed, push_all, read_target
    from sightline.compare.fingerprint import write_fingerprint
    from sightline.compare.sides import open_side
    from sightline.history.profiles import add_window

    try:
        traces = sorted((folder / RUN).glob("*.torch-0.json*"))
        whole = [str(folder / RUN)] if len(traces) <= _MOST_PRINTED else []
        sample = open_side(whole or [str(trace) for trace in traces[:_MOST_PRINTED]])[0]
        write_whole(folder / FINGERPRINT, write_fingerprint(sample))
        if history is None:
            return
        place = Path(history["folder"])
        counts = {str(name): float(value) for name, value in history.get("counts", {}).items()}
        run_id = add_window(place, sample, history["labels"], history["time_ns"], counts)
    except SightlineError as error:
        (folder / f"{FINGERPRINT}.log").write_text(f"{error}\n")
        return
    for target in map(read_target, history.get("push", ())):
        push_all(target, list_pushed(place, {"run_id": run_id}), print)


def _stand_back() -> None:
    """Take no turn of what is still reduced: ranks of other daemons of the machine, and the job."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> int:
    """Reduce or fingerprint the capture that is named; the exit code, and why on standard error."""
    os.nice(_NICE[sys.argv[2]])
    try:
        folder, facts = Path(sys.argv[1]), json.load(sys.stdin)
        if sys.argv[2] == "ranks":
            reduce_capture(folder, facts)
        else:
            if not facts.get("history"):
                _stand_back()
            fingerprint_capture(folder, facts.get("history"))
    except SightlineError as error:
        sys.stderr.write(f"{error.what}: {error.why}\n" if error.why else f"{error.what}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
