"""Intel unitrace --stall-sampling: EU stall samples per kernel and instruction address.

Format: intel/pti-gpu, tools/unitrace: a title line per device, then CSV with the columns Kernel,
IP[Address], Active[Events] and one per stall. Names are padded with blanks.
"""

from __future__ import annotations

import csv
from itertools import chain

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie, tabulate_weights
from sightline.core.model.stall_classes import classify_stall
from sightline.errors import DamagedError
from sightline.formats._stacks import finish_import, note_bad_lines, read_text

IMPORTER = Importer(
    name="unitrace_stalls",
    label="Intel unitrace stall sampling (CSV)",
    strong=(rb"(?:^|\n)[ \t]*Kernel,[ \t]*IP\[Address\],[^\n]*\[Events\]",),
    weak=(),
    looks_like="CSV with the columns Kernel, IP[Address] and ...[Events]",
    suffixes=(".csv",),
    version=4,
    source="https://github.com/intel/pti-gpu/blob/master/tools/unitrace/README.md",
    covers=("unitrace_summary",),
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all rows; the weight is `samples`. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    trie = StackTrie()
    device, columns = "GPU", [""]
    rows: list[list[str]] = []
    parts = [tabulate_weights([])]
    bad = 0
    at = 0
    reader = csv.reader(read_text(source, quality).splitlines(), skipinitialspace=True)
    try:
        for row in chain(reader, [["Device"]]):  # one more heading ends the last table
            # A quotation that nothing ends takes the lines that follow into its cell.
            bad += max(reader.line_num - at - 1, 0)
            at = reader.line_num
            cells = [cell.strip() for cell in row] if len(row) < 3 or "Kernel" in row[0] else row
            is_device = len(cells) == 1 and "Device" in cells[0]
            if is_device or cells[:2] == ["Kernel", "IP[Address]"]:
                weights, damaged = _weigh(trie, device, columns, rows)
                parts.append(weights)
                bad += damaged
                rows = []
                if is_device:
                    device = cells[0].strip("= ").removesuffix(" Metrics")
                else:
                    columns = cells
            elif len(row) == len(columns) > 2:
                rows.append(row)
            else:
                bad += len(columns) > 2 and any(row)
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=str(error)) from error
    quality += note_bad_lines(bad, "row of samples")
    return finish_import(source, trie, pl.concat(parts), quality, "unitrace")


def _weigh(
    trie: StackTrie, device: str, columns: list[str], rows: list[list[str]]
) -> tuple[pl.DataFrame, int]:
    """The weights of one table's rows, and how many rows are damaged."""
    weights = [tabulate_weights([])]
    if not rows:
        return weights[0], 0
    names = [str(number) for number in range(len(columns))]
    cells = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    cells = cells.select(pl.all().str.strip_chars())
    kernel, address, *counts = names
    numbers = cells.filter(pl.all_horizontal(pl.col(counts).str.contains(r"^[0-9]{0,17}$")))
    is_whole = pl.any_horizontal(pl.col(counts) != "")
    numbers = numbers.filter(is_whole).with_columns(
        pl.col(counts).cast(pl.Int64, strict=False).fill_null(0)
    )
    plain = pl.col(kernel).str.strip_chars('" ')
    shown = numbers.select(
        pl.lit(trie.number(Frame("device", device))).alias("device"),
        pl.when(plain == "").then(pl.lit("[unknown kernel]")).otherwise(plain).alias("kernel"),
        pl.format("+0x{}", address).alias("instruction"),
    )
    for layer in ("kernel", "instruction"):
        texts = shown.get_column(layer).unique(maintain_order=True)
        known = [trie.number(Frame(layer, text)) for text in texts]
        coded = pl.col(layer).replace_strict(texts, known, return_dtype=pl.Int64)
        shown = shown.with_columns(coded) if len(texts) else shown.cast({layer: pl.Int64})
    placed = numbers.with_columns(trie.add_rows(None, shown))
    for name, column in zip(counts, columns[2:], strict=True):
        kept = placed.filter(pl.col(name) > 0)
        below = [pl.lit(trie.number(frame)).alias(frame.layer) for frame in _list_reasons(column)]
        stacks = trie.add_rows(
            kept["stack_id"], kept.with_columns(below).select("stall_class", "stall_reason")
        )
        found = pl.DataFrame({"stack_id": stacks, "value": kept[name].cast(pl.Int128)})
        weights.append(
            found.select("stack_id", metric=pl.lit("samples"), value="value", match=pl.lit("exact"))
        )
    # Older versions leave what is 0 empty; where most rows do not, a cell is missing.
    empty = cells.filter(pl.any_horizontal(pl.col(counts) == "")).height
    missing = empty if 2 * empty <= cells.height else 0
    return pl.concat(weights), max(cells.height - numbers.height, missing)


def _list_reasons(column: str) -> tuple[Frame, Frame]:
    reason = column.removesuffix("[Events]").removesuffix("Stall").lower()
    return Frame("stall_class", classify_stall(reason)), Frame("stall_reason", reason)
