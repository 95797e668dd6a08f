"""Intel iaprof's stream of tab-separated records.

Records (intel/iaprof, main since its fast mode):

    string   id text
    interval n seconds
    kernel   address command pid cpu-stack file symbol   (ids of strings, but for the pid)
    eustall  offset instruction, then samples by reason: active control pipestall send dist_acc
             sbid sync inst_fetch other tdr
    metric   name value

An eustall record belongs to the last kernel. The ten numbers are samples by stall reason; the
stream is read directly, since the converter that ships with iaprof loses most of them.
"""

from __future__ import annotations

import re

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.core.model.stall_classes import classify_stall
from sightline.formats._stacks import finish_import, note_bad_lines, read_text

IMPORTER = Importer(
    name="iaprof",
    label="Intel iaprof stream",
    strong=(
        rb"^(?:string|interval|kernel|metric)\t[^\n]*\n(?:(?:string|interval|kernel|eustall|metric)\t)",
    ),
    weak=(),
    looks_like="tab-separated records 'string', 'interval', 'kernel', 'eustall'",
    suffixes=(".iaprof", ".iaprof.gz"),
    version=4,
    source="https://github.com/intel/iaprof",
)

_RECORD = re.compile(r"(?:string|interval|kernel|eustall)\t(?=[0-9a-fx])")
REASONS = (
    "active",
    "control",
    "pipestall",
    "send",
    "dist_acc",
    "sbid",
    "sync",
    "inst_fetch",
    "other",
    "tdr",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all records. Raises DamagedError where there is no sample."""
    quality: list[Quality] = []
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = []
    strings: dict[str, str] = {}
    above: list[Frame] | None = None
    bad = orphans = unnamed = 0
    for line in read_text(source, quality).split("\n"):
        fields = line.rstrip("\r").split("\t")
        kind = fields[0]
        bad += len(_RECORD.findall(line)) > 1  # two lines in one
        if kind == "string" and len(fields) >= 3:
            bad += not (_is_id(fields[1]) and any(fields[2:]))
            strings[fields[1]] = "\t".join(fields[2:])
        elif kind == "kernel" and len(fields) >= 7:
            above = _kernel(fields, strings)
            used = {fields[n] for n in (2, 4, 5, 6)}
            unnamed += sum(_is_id(one) and one != "0" for one in used - strings.keys())
        elif kind == "eustall" and len(fields) >= 13 and _counts(fields[3:13]):
            if above is None:
                orphans += 1
                above = [Frame("note", "[unmatched launch]")]
            weights += _samples(trie, above, fields, strings)
            unnamed += fields[2] not in strings and _is_id(fields[2]) and fields[2] != "0"
        elif (kind not in ("interval", "metric") or len(fields) < 3) and line.strip():
            bad += 1
    quality += note_bad_lines(bad, "iaprof record")
    if unnamed:
        text = "records refer to strings that the file does not hold: stacks lack these names"
        quality.append(Quality("missing_names", "warning", text, unnamed))
    if orphans:
        text = "samples precede any kernel; they are listed under '[unmatched launch]'"
        quality.append(Quality("unmatched_samples", "warning", text, orphans))
    return finish_import(source, trie, weights, quality, "iaprof")


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _kernel(fields: list[str], strings: dict[str, str]) -> list[Frame]:
    """The frames above a kernel's instructions: process, CPU stack, source file, kernel."""
    _, address, command, pid, stack, file, symbol = fields[:7]
    path = [Frame("process", f"{strings.get(command, '[unknown]')} {pid}")]
    path += [Frame("native", name) for name in strings.get(stack, "").split(";") if name]
    if strings.get(file):
        path.append(Frame("gpu_file", strings[file]))
    path.append(Frame("kernel", strings.get(symbol) or f"[kernel at {address}]"))
    return path


def _counts(fields: list[str]) -> bool:
    return all(f.isascii() and f.isdecimal() and len(f) < 18 for f in fields)


def _samples(
    trie: StackTrie, above: list[Frame], fields: list[str], strings: dict[str, str]
) -> list[tuple[int | None, str, int, str]]:
    instruction = strings.get(fields[2], "")
    where = Frame("instruction", f"+{fields[1]} {instruction}".rstrip())
    # Launch stacks are matched to samples by address and interval, not by launch.
    match = "unmatched" if above[0].layer == "note" else "window"
    rows = []
    for reason, count in zip(REASONS, map(int, fields[3:13]), strict=True):
        if count:
            path = [
                *above,
                where,
                Frame("stall_class", classify_stall(reason)),
                Frame("stall_reason", reason),
            ]
            rows.append((trie.add(path), "samples", count, match))
    return rows
