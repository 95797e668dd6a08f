"""A run folder as `sightline run` leaves it: several recordings of each rank, on one clock.

core/model/run_folder.py says what lies in it. What belongs to one process gets one rank; what was
recorded of a GPU goes to the rank of that number on its host, what was recorded of a whole host to
its lowest rank; hosts whose clocks were compared are moved to the clock of the host that was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sightline.core.model.declare import ImportOptions, Quality
from sightline.core.model.run_folder import read_facts
from sightline.core.model.store import Member
from sightline.core.model.store import read_facts as facts_of
from sightline.core.units import format_ns
from sightline.errors import InputError
from sightline.opening.members import FolderFile, list_members, read_rank

Import = Callable[[Path, ImportOptions], Path]
# A file of the folder, the store that it was read into, and one of the recordings in it.
Read = list[tuple[FolderFile, Path, dict[str, Any]]]


def read_folder(
    folder: Path, given: str, options: ImportOptions, import_one: Import
) -> list[Member]:
    """Each recording in the folder. Raises InputError."""
    told = list(read_facts(folder))
    found: Read = []
    unread: list[Quality] = []
    for member in list_members(folder):
        try:
            store = import_one(member.path, options)
            found += [(member, store, facts) for facts in facts_of(store)]
        except InputError as error:
            text = (
                f"{member.path.name} could not be read and is left out: {error.why or error.what}"
            )
            unread.append(Quality("recording_left_out", "warning", text, 1))
    if not found:
        raise _explain_nothing(given, unread, told)
    found, idle = _drop_idle(found)
    shifts = _list_shifts(found, told)
    monotonic: dict[str, int] = {}  # files on the monotonic clock, and what to add to their times
    for facts in told:
        own = facts.get("shifts_ns")
        if isinstance(own, dict):
            monotonic.update((k, v) for k, v in own.items() if type(v) is int)
    marks_steps = any("step" in f.get("layers", ()) for *_, f in found)
    has_gpu = not told or any(facts.get("gpus") for facts in told)
    processes = _Processes(found, folder)
    answer: list[Member] = []
    for number, (member, store, facts) in enumerate(found):
        shift = shifts.get(member.mark or "")
        move = (0 if shift is None else shift[0]) + monotonic.get(member.path.name, 0)
        if move:
            store = import_one(member.path, replace(options, clock_shift_ns=move))
            facts = facts_of(store)[0]
        own = {**facts, **processes.placed(member, facts)}
        if shift is not None:
            own["clock_uncertainty_ns"] = shift[1] + (own.get("clock_uncertainty_ns") or 0)
        notes = [*unread, *idle, *_note_run(told, shifts)] if number == 0 else []
        told_here = _keep_fitting(facts.get("quality", ()), marks_steps, has_gpu)
        own["quality"] = [*told_here, *map(vars, notes)]
        answer.append(Member(store, 0, own))
    return answer


def _explain_nothing(given: str, unread: list[Quality], told: list[dict[str, Any]]) -> InputError:
    """Why a run folder has nothing to report on, as its recording noted it, and what would have."""
    notes = [n for facts in told for n in facts.get("notes", ()) if isinstance(n, dict)]
    why = [q.text for q in unread]
    codes = [c for f in told if type(c := f.get("exit_code")) is int and c != 0]
    why += [f"the program ended with {code}" for code in codes[:1]]
    why += [
        str(n.get("text"))
        for n in notes
        if n.get("severity") in ("warning", "error") or n.get("kind") in _ABSENT
    ]
    sampled = any(n.get("kind") == "cpu_samples" for n in notes)
    return InputError(
        f"there is nothing to report on in {given}",
        why="; ".join(dict.fromkeys(why)) or "the program ran, but none of its work was recorded",
        hint=(_SAMPLES if sampled else "") + "What can be recorded here:  sightline doctor",
    )


# Notes that are no fault where something else was recorded, and the reason where nothing was.
_ABSENT = ("torch_absent",)
_SAMPLES = """\
Samples are taken of threads that run, every 5 or 10 ms.
Marks (sl.annotate, sl.mark, sl.step) are recorded in any program.
"""


def _drop_idle(
    found: Read,
) -> tuple[Read, list[Quality]]:
    """Without processes that have no rank and did nothing, where others have one: launchers."""
    ranked = {
        m.process
        for m, _, facts in found
        if m.rank is not None or facts.get("own_rank") is not None
    }
    busy = {
        m.process
        for m, _, facts in found
        if facts["rows"].get("host_ops") or facts["rows"].get("device_ops")
    }
    if not ranked:
        return found, []
    idle = {m.process for m, *_ in found if m.process} - ranked - busy
    if not idle:
        return found, []
    text = "processes without a rank did no recorded work and were left out"
    kept = [f for f in found if f[0].process not in idle]
    return kept, [Quality("idle_processes", "info", text, len(idle))]


class _Processes:
    """Which process each recording belongs to, and the rank that any recording of it names."""

    def __init__(self, found: Read, folder: Path) -> None:
        self._folder = folder
        self._ranks: dict[str, int] = {}
        self._first: dict[str, str] = {}  # of each host: members are in order of rank
        self._local: dict[tuple[str, int], str] = {}  # by host and rank on it
        for member, _, facts in found:
            if member.process is None:
                continue
            self._first.setdefault(member.mark or "", member.process)
            own = facts.get("own")
            if isinstance(own, dict) and type(own.get("local_rank")) is int:
                self._local.setdefault((member.mark or "", own["local_rank"]), member.process)
            rank = facts.get("own_rank")
            if rank is None:
                rank = member.rank
            if rank is not None:
                self._ranks.setdefault(member.process, rank)

    def placed(self, member: FolderFile, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts on a recording's place in the run."""
        process = member.process
        if process is None and member.mark is not None:  # recorded of a whole host
            process = self._first.get(member.mark, f"host-{member.mark}")
            if member.device is not None:  # the launchers' ranks take the GPUs in order
                process = self._local.get((member.mark, member.device), process)
        if process is None and facts.get("of_host"):  # what a server's client or its metrics say
            path = f"{self._folder.name}/{member.path.name}"
            return {"path": path, "own_rank": None, "rank_source": "host"}
        if process is None:  # what another tool has left, as a server's trace
            process = f"file-{member.path.name}"
            rank = facts.get("own_rank")
            source = "recording" if rank is not None else "file name"
            rank = read_rank(member.path.name) if rank is None else rank
        else:
            rank, source = self._ranks.get(process), "recording"
        return {
            "path": f"{self._folder.name}/{member.path.name}",
            "process": process,
            "own_rank": rank,
            "rank_source": "order" if rank is None else source,
        }


def _list_shifts(found: Read, told: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """What to add to the times of each host, and the bound of its error; the surest measurement."""
    shifts: dict[str, tuple[int, int]] = {}
    measured = [(m.mark, facts.get("own")) for m, _, facts in found]
    measured += [(facts.get("host_mark"), facts.get("clock")) for facts in told]
    for mark, own in measured:
        if mark is None or not isinstance(own, dict):
            continue
        offset, bound = own.get("clock_offset_ns"), own.get("clock_uncertainty_ns")
        if type(offset) is not int or type(bound) is not int:
            continue
        if mark not in shifts or bound < shifts[mark][1]:
            shifts[mark] = (offset, bound)
    return shifts


def _keep_fitting(
    quality: Iterable[dict[str, Any]], marks_steps: bool, has_gpu: bool
) -> list[dict[str, Any]]:
    """What an importer noted on one file, without what the other files of the run have."""
    kept = []
    for row in quality:
        if row["kind"] == "no_steps" and marks_steps:
            continue
        if row["kind"] == "no_device_ops" and not has_gpu:
            row = {
                **row,
                "severity": "info",
                "remedy": None,
                "text": "CPU only: no NVIDIA GPU was found on the machine",
            }
        if row["kind"] == "no_python_stacks":  # beside py-spy's stacks, which are not of the trace
            row = {
                **row,
                "text": "PyTorch's trace has no Python stacks (--stacks records them): "
                "causes are named by op, not by line",
                "remedy": "Record with sightline run --stacks.",
            }
        kept.append(row)
    return kept


def _note_run(told: list[dict[str, Any]], shifts: dict[str, tuple[int, int]]) -> list[Quality]:
    """What the recording as a whole says of itself."""
    notes = []
    for offset, bound in shifts.values():
        text = f"a host's clock was moved by {format_ns(offset)} (± {format_ns(bound)}) to match"
        notes.append(Quality("clock_aligned", "info", text))
    for facts in told:
        for note in facts.get("notes", ()):
            if isinstance(note, dict) and isinstance(note.get("text"), str):
                severity = note.get("severity")
                known = severity if severity in ("info", "warning", "error") else "info"
                notes.append(
                    Quality(
                        str(note.get("kind", "recording")),
                        known,
                        note["text"],
                        None,
                        note.get("remedy"),
                    )
                )
    return notes
