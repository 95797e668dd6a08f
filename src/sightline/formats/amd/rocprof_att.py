"""AMD thread traces and PC samples, decoded: `code.json`, what each instruction cost.

Format: ROCm/rocprof-compute-viewer, and rocprofiler-sdk's thread trace decoder, version 3: a row
for each instruction, with its source line, how often waves ran it (Hit), and the cycles that they
spent there, waited there (Stall) and idled before it; of PC samples how many issued and how many
waited, by reason. A row that begins with `;` names a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.core.model.stall_classes import classify_stall
from sightline.errors import DamagedError
from sightline.formats._json_tables import Wanted, read_tables
from sightline.formats._stacks import finish_import, note_bad_lines

IMPORTER = Importer(
    name="rocprof_att",
    label="AMD thread trace or PC sampling, decoded (code.json)",
    strong=(rb'^\s*\{\s*"code"\s*:\s*\[\s*\[\s*"', rb'^\s*\{\s*"header"\s*:\s*\[?\s*"ISA'),
    weak=(),
    looks_like='JSON with "code": rows of instructions with their source, hits and stalls',
    suffixes=(".json", ".json.gz"),
    version=3,
    source="https://rocm.docs.amd.com/projects/rocprofiler-sdk",
)

# rocprofiler_pc_sampling_instruction_not_issued_reason_t, in order.
REASONS = (
    "none", "no_instruction_available", "alu_dependency", "waitcnt", "internal_instruction",
    "barrier_wait", "arbiter_not_win", "arbiter_win_ex_stall", "other_wait", "sleep_wait",
)  # fmt: skip
# A row has at least what was measured of time; PC samples stand behind it.
_ROW = Wanted(
    "code[]",
    {
        "columns": " length", "isa": "[0] text", "source": "[3] text", "address": "[5] int",
        "hits": "[6] int", "latency": "[7] int", "stall": "[8] int", "idle": "[9] int",
        "issued": "[10] int", "stalled": "[11] int", "reasons": "[12] ints",
    },
)  # fmt: skip
_LEAST = 10
_NUMBERS = ("address", "hits", "latency", "stall", "idle", "issued", "stalled")
# What is no wait: where the time went instead.
_PLACES = {"issuing": "issuing", "wave_issued": "issuing", "stalled": "other", "idle": "other"}


class Count(NamedTuple):
    """How much waves did something at each instruction, and in which measures."""

    what: str
    metrics: tuple[str, ...]
    values: pl.Series

    @property
    def stall_class(self) -> str:
        """The class of a wait; of what is none, where the time went instead."""
        return _PLACES.get(self.what) or classify_stall(self.what)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all instructions; weights are `cycles`, `executions`, `samples`, `latency_samples`.

    Raises DamagedError where none carries a measurement.
    """
    quality: list[Quality] = []
    try:
        code = read_tables(source, quality, {"code": _ROW})["code"]
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"its JSON is damaged ({error})"
        ) from error
    # A row has no samples, or those that issued and those that waited.
    is_sampled = pl.col("columns") > _LEAST + 1
    is_whole = pl.col("isa").is_not_null() & (pl.col("columns") >= _LEAST)
    rows = code.rows.with_row_index("row").filter(is_whole.fill_null(False))
    quality += note_bad_lines(code.rows.height - rows.height, "instruction")
    trie = StackTrie()
    instructions = _place_instructions(trie, rows.with_columns(map(_count, _NUMBERS)))
    instructions = instructions.with_columns(
        pl.when(is_sampled).then(column).otherwise(0).alias(column)
        for column in ("issued", "stalled")
    )
    lengths, reasons = code.lists["reasons"]
    weights = [
        _add_waits(trie, instructions, count)
        for count in (*_list_cycles(instructions), *_list_samples(instructions, lengths, reasons))
    ]
    weights.append(_weigh(instructions.get_column("stack_id"), "executions", instructions["hits"]))
    found = pl.concat(weights).filter(pl.col("value") > 0)
    return finish_import(source, trie, found, quality, "rocprofv3 thread trace")


def _count(column: str) -> pl.Expr:
    """A count; 0 for what is missing or cannot be one."""
    value = pl.col(column)
    return pl.when(value.is_between(1, 2**53 - 1)).then(value).otherwise(0).alias(column)


def _place_instructions(trie: StackTrie, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of instructions, each with the stack that it is: kernel, source line, address.

    A row that begins with `;` is a kernel's, whose name with types stands where others have their
    source line.
    """
    isa, source = pl.col("isa"), pl.col("source").fill_null("")
    is_kernel = isa.str.starts_with(";")
    symbol = isa.str.strip_chars_start("; ")
    name = pl.when(source != "").then(source).when(symbol != "").then(symbol)
    placed = rows.with_columns(
        kernel=pl.when(is_kernel).then(name.otherwise(pl.lit("[unknown kernel]"))).forward_fill(),
        start=pl.when(is_kernel).then("address").forward_fill().fill_null(0),
    ).filter(~is_kernel)
    located = placed.select(
        file=source.str.extract(r"(?s)^(.*):\d{1,9}$"),
        line=source.str.extract(r"(?s)([^/]*:\d{1,9})$"),
    )
    addressed = (
        f"+0x{offset:x} {text}" if offset >= 0 else text
        for offset, text in placed.select(pl.col("address") - pl.col("start"), isa).iter_rows()
    )
    frames = {
        "kernel": placed.get_column("kernel").fill_null("[unknown kernel]"),
        "gpu_file": located.get_column("file"),
        "gpu_line": located.get_column("line"),
        "instruction": pl.Series(addressed, dtype=pl.String),
    }
    numbers = [trie.number_texts(layer, texts).alias(layer) for layer, texts in frames.items()]
    return placed.with_columns(trie.add_rows(None, pl.DataFrame(numbers)))


def _list_cycles(rows: pl.DataFrame) -> Iterator[Count]:
    """What waves did at each instruction, in cycles."""
    latency, stall = pl.col("latency"), pl.col("stall")
    counts = rows.select(
        issuing=(latency - stall).clip(0),
        stalled=pl.when(latency > 0).then(pl.min_horizontal(stall, latency)).otherwise(stall),
        idle="idle",
    )
    for count in counts:
        yield Count(count.name, ("cycles",), count)


def _list_samples(rows: pl.DataFrame, lengths: pl.Series, reasons: pl.Series) -> Iterator[Count]:
    """Samples that issued and that waited, by reason: of these no more than waited in all."""
    yield Count("wave_issued", ("samples",), rows["issued"])
    starts = lengths.fill_null(0).cum_sum() - lengths.fill_null(0)
    at = rows.select(
        first=starts.gather(rows["row"]), length=lengths.gather(rows["row"]).fill_null(0)
    )
    left = rows["stalled"]
    waits = dict.fromkeys(REASONS, left.clip(0, 0))
    for number, reason in enumerate(REASONS):
        is_there = pl.col("length") > number
        places = at.select(pl.when(is_there).then(pl.col("first") + number)).to_series()
        given = reasons.gather(places).to_frame("given").select(_count("given")).to_series()
        waits[reason] = pl.select(pl.min_horizontal(given, left)).to_series()
        left = left - waits[reason]
    waits["none"] = waits["none"] + left
    for reason, count in waits.items():
        yield Count(reason, ("samples", "latency_samples"), count)


def _add_waits(trie: StackTrie, rows: pl.DataFrame, count: Count) -> pl.DataFrame:
    """Weights of what waves did, below each instruction where they did."""
    kept = rows.select("stack_id", value=count.values).filter(pl.col("value") > 0)
    below = {"stall_class": count.stall_class, "stall_reason": count.what}
    numbers = {layer: pl.lit(trie.number(Frame(layer, text))) for layer, text in below.items()}
    stacks = trie.add_rows(kept["stack_id"], kept.with_columns(**numbers).select(*below))
    return pl.concat([_weigh(stacks, metric, kept["value"]) for metric in count.metrics])


def _weigh(stacks: pl.Series, metric: str, values: pl.Series) -> pl.DataFrame:
    weights = pl.DataFrame({"stack_id": stacks, "value": values})
    return weights.with_columns(metric=pl.lit(metric), match=pl.lit("exact"))
