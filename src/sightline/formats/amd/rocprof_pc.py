"""AMD rocprofv3 PC sampling, host-trap and stochastic, as CSV.

Format: ROCm/rocm-systems, rocprofiler-sdk documentation, "Using PC sampling". Every sample names
its dispatch, so the join to the launch is exact. Host-trap samples have no stall reason: that layer
is absent. The CSV names no kernel; the JSON does (rocprofv3_json), through the dispatch.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import StackTrie
from sightline.errors import DamagedError
from sightline.formats._rocm import SOURCE
from sightline.formats._stacks import finish_import, note_bad_lines, read_text
from sightline.formats._text_damage import count_misspelt, note_odd_header
from sightline.formats.amd._rocm_samples import Sample, count_samples, make_sample

IMPORTER = Importer(
    name="rocprof_pc",
    label="AMD rocprofv3 PC sampling (CSV)",
    strong=(rb'^"?Sample_Timestamp"?,"?Exec_Mask"?,"?Dispatch_Id"?,',),
    weak=(),
    looks_like="CSV with Sample_Timestamp, Exec_Mask, Dispatch_Id",
    suffixes=(".csv",),
    version=7,
    source=SOURCE,
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    trie = StackTrie()
    text = read_text(source, quality)
    quality += note_odd_header(text.partition("\n")[0])
    weights, bad = count_samples(_list_samples(text, source), trie)
    return finish_import(
        source, trie, weights, quality + note_bad_lines(bad, "sample"), "rocprofv3"
    )


_STOCHASTIC = ("Instruction_Type", "Stall_Reason", "Wave_Count")
_COLUMNS = (
    "Sample_Timestamp", "Exec_Mask", "Dispatch_Id", "Instruction", "Instruction_Comment",
    "Correlation_Id", "Wave_Issued_Instruction", *_STOCHASTIC,
)  # fmt: skip
# A file and its line, or a file or mark alone; a word or a number is none.
_PLACE = re.compile(r"^.*:(?:\d+|\?)(?: \(.*\))?$|^(?!-?[\d.]+$)[^:]*[/.?\[][^:]*$", re.DOTALL)


def _list_samples(text: str, source: Source) -> Iterator[Sample]:
    reader = csv.DictReader(text.splitlines())
    names = reader.fieldnames or ()
    yield from [(None, None)] * count_misspelt(names, _COLUMNS)
    # What stochastic sampling writes beside whether a wave issued.
    if "Wave_Issued_Instruction" in names:
        yield from [(None, None) for name in _STOCHASTIC if name not in names]
    at = 1
    try:
        for row in reader:
            # A quotation that nothing ends takes the lines that follow into its cell.
            yield from [(None, None)] * (reader.line_num - at - 1)
            at = reader.line_num
            dispatch, instruction = row.get("Dispatch_Id"), row.get("Instruction")
            # More cells than the header has stand under None, fewer are None.
            is_ragged = None in row or None in row.values()
            if not (dispatch or "").isdecimal() or instruction is None or is_ragged:
                yield None, None
                continue
            issued, reason = row.get("Wave_Issued_Instruction"), row.get("Stall_Reason")
            kernel = f"[kernel of dispatch {dispatch}]"
            comment = row.get("Instruction_Comment") or ""
            sample = make_sample(kernel, comment, instruction, None, issued, reason)
            # The source's line and whether the wave issued are there, or are nothing, or damaged.
            is_odd = bool(comment and not _PLACE.match(comment)) or issued not in (None, "0", "1")
            # Of a wave that waits the reason is there, where reasons are.
            is_odd |= issued == "0" and reason == ""
            yield from [(None, None)] * is_odd
            yield sample
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=str(error)) from error
