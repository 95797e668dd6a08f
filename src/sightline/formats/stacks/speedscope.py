"""speedscope files, sampled and evented: py-spy, rbspy, and many exporters write them.

Format: https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.run_folder import WALL_TIME
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie, tabulate_weights
from sightline.core.redaction import redact_frame
from sightline.errors import DamagedError
from sightline.formats._json_tables import JsonTable, Wanted, read_tables
from sightline.formats._stacks import finish_import

IMPORTER = Importer(
    name="speedscope",
    label="speedscope profile (py-spy and others)",
    strong=(
        rb"speedscope\.app/file-format-schema\.json",
        rb'"(?:exporter|shared)"[\s\S]{0,4000}"type"\s*:\s*"(?:sampled|evented)"',
    ),
    weak=(),
    looks_like="JSON that names the schema speedscope.app/file-format-schema.json",
    suffixes=(".speedscope.json", ".speedscope"),
    version=5,
    source="https://www.speedscope.app/file-format-schema.json",
)

_UNITS = {
    "nanoseconds": ("cpu_time_ns", 1),
    "microseconds": ("cpu_time_ns", 1_000),
    "milliseconds": ("cpu_time_ns", 1_000_000),
    "seconds": ("cpu_time_ns", 1_000_000_000),
    "bytes": ("bytes", 1),
    "none": ("samples", 1),
}
# Weights and times are whole numbers, which stay exact, or decimals.
_TABLES = {
    "file": Wanted("", {"exporter": "exporter text", "name": "name text"}),
    "frames": Wanted(
        "shared.frames[]", {"name": "name text", "file": "file text", "line": "line int"}
    ),
    "profiles": Wanted(
        "profiles[]",
        {
            "type": "type text", "name": "name text", "unit": "unit text",
            "samples": "samples length", "weights": "weights length", "events": "events length",
        },
    ),
    "samples": Wanted("profiles[].samples[]", {"path": " ints"}),
    "weights": Wanted("profiles[].weights[]", {"whole": " int", "decimal": " float"}),
    "events": Wanted(
        "profiles[].events[]",
        {"type": "type text", "frame": "frame int", "whole": "at int", "decimal": "at float"},
    ),
}  # fmt: skip


class _Profile(NamedTuple):
    """A profile: its own values, and its rows of the tables below them."""

    told: dict[str, Any]
    lengths: pl.Series  # of each sample, how many frames
    frames: pl.Series  # of all samples, root first
    weights: pl.DataFrame
    events: pl.DataFrame


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all profiles of the file. Raises DamagedError where none can be read."""
    quality: list[Quality] = []
    trie = StackTrie()
    try:
        found = read_tables(source, quality, _TABLES)
        numbers = _number_frames(trie, found["frames"].rows, options.keep_identity)
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not a complete speedscope file ({error!r})"
        ) from error
    cut = any(q.kind == "truncated" for q in quality)
    profiles = list(_split_profiles(found))
    weights = [tabulate_weights([])]
    whole = found["file"].rows.get_column("name")[0] == WALL_TIME
    for number, profile in enumerate(profiles):
        try:
            name = profile.told["name"]
            frame = Frame("thread", redact_frame(str(number) if name is None else name))
            root = trie.add([frame]) if len(profiles) > 1 else None
            read = _read_profile(trie, profile, numbers, root, cut)
            weights.append(_name_wall(read) if whole else read)
        except ValueError as error:
            text = f"profile {number} is damaged and was left out ({error})"
            quality.append(Quality("damaged_profile", "warning", text, 1))
    exporter = found["file"].rows.get_column("exporter")[0]
    return finish_import(source, trie, pl.concat(weights), quality, exporter or "speedscope")


def _number_frames(trie: StackTrie, frames: pl.DataFrame, keep_identity: bool) -> pl.Series:
    """The trie's number of each of the file's frames."""
    numbers = []
    for name, file, line in frames.select("name", "file", "line").iter_rows():
        if name is None:
            raise ValueError("a frame without a name")
        layer = "python" if file is not None and file.endswith((".py", ".pyx")) else "native"
        shown = name if keep_identity else redact_frame(name)
        numbers.append(trie.number(Frame(layer, shown, file, line)))
    return pl.Series(numbers, dtype=pl.Int64)


def _split_profiles(found: dict[str, JsonTable]) -> Iterator[_Profile]:
    samples, weights, events, frames = 0, 0, 0, 0
    lengths, items = found["samples"].lists["path"]
    for told in found["profiles"].rows.iter_rows(named=True):
        count, weighed, happened = (told[k] or 0 for k in ("samples", "weights", "events"))
        own = lengths.slice(samples, count)
        inside = int(own.sum())
        yield _Profile(
            told,
            own,
            items.slice(frames, inside),
            found["weights"].rows.slice(weights, weighed),
            found["events"].rows.slice(events, happened),
        )
        samples, weights = samples + count, weights + weighed
        events, frames = events + happened, frames + inside


def _name_wall(weights: pl.DataFrame) -> pl.DataFrame:
    """Weights of samples that were taken of threads that wait, too."""
    metric = pl.col("metric").replace("cpu_time_ns", "wall_time_ns")
    return weights.with_columns(metric)


def _read_profile(
    trie: StackTrie, profile: _Profile, numbers: pl.Series, root: int | None, cut: bool
) -> pl.DataFrame:
    """Its weights: stack_id, metric, value, match. Raises ValueError where it is damaged."""
    metric, scale = _UNITS.get(profile.told["unit"] or "none", ("samples", 1))
    if profile.told["type"] == "sampled":
        lengths, frames, values = _read_samples(profile, cut)
    elif profile.told["type"] == "evented":
        lengths, frames, values = _read_events(profile.events)
    else:
        raise ValueError(f"of type {profile.told['type']!r}")
    if frames.null_count() or not frames.is_between(0, len(numbers) - 1).all():
        raise ValueError("a frame that does not exist")
    spent = values.cast(pl.Int128) if values.dtype.is_integer() else values
    each = pl.DataFrame(
        {"stack_id": trie.add_paths(numbers.gather(frames), lengths, root), "value": spent}
    )
    summed = each.group_by("stack_id", maintain_order=True).agg(pl.col("value").sum() * scale)
    return summed.filter(pl.col("value") > 0).select(
        "stack_id",
        metric=pl.lit(metric),
        value=pl.col("value").round(mode="half_to_even").cast(pl.Int128),
        match=pl.lit("exact"),
    )


def _choose_exact(rows: pl.DataFrame, what: str) -> pl.Series:
    """The whole numbers where all are whole, else decimals."""
    whole, decimal = rows.get_column("whole"), rows.get_column("decimal")
    if decimal.null_count():
        raise ValueError(f"{what} that is not a number")
    return decimal if whole.null_count() else whole


def _read_samples(profile: _Profile, cut: bool) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Of each sample how many frames it has, the frames of all, and the weights."""
    lengths = profile.lengths
    if profile.told["samples"] is None or profile.told["weights"] is None:
        raise ValueError("it has no samples, or no weights")
    if len(lengths) != profile.weights.height and not cut:
        raise ValueError("it has different numbers of weights and samples")
    # Of one that is cut off, as many as there are.
    kept = min(len(lengths), profile.weights.height)
    lengths = lengths.head(kept)
    if lengths.null_count():
        raise ValueError("a sample that is not a list")
    frames = profile.frames.head(int(lengths.sum()))
    return lengths, frames, _choose_exact(profile.weights.head(kept), "a weight")


def _read_events(events: pl.DataFrame) -> tuple[pl.Series, pl.Series, pl.Series]:
    """The same of events: time between two belongs to the frames that are open between them."""
    # A number for each path, as a trie: a tuple of the whole path at every event would take time
    # with the square of the depth.
    steps: dict[tuple[int, int], int] = {}
    paths: list[tuple[int, int]] = [(-1, -1)]  # of each number: the one below it, and the frame
    open_at = [0]
    spent: dict[int, float] = {}
    last: float | None = None
    for kind, frame, whole, decimal in events.drop("parent").iter_rows():
        if frame is None or decimal is None:
            raise ValueError("an event without its frame, or its time")
        # Beyond 64 bits a time is the nearest float, which is whole.
        at = whole if whole is not None else int(decimal) if decimal.is_integer() else decimal
        if last is not None:
            if at < last:
                raise ValueError("events are not in order of time")
            spent[open_at[-1]] = spent.get(open_at[-1], 0) + at - last
        last = at
        if kind == "O":
            key = (open_at[-1], frame)
            if key not in steps:
                steps[key] = len(paths)
                paths.append(key)
            open_at.append(steps[key])
        elif len(open_at) == 1 or paths[open_at.pop()][1] != frame:
            raise ValueError("an event closes a frame that is not the innermost")
    found = {number: value for number, value in spent.items() if value > 0}
    lists = [_list_path(paths, number) for number in found]
    is_whole = all(isinstance(value, int) and value < 2**100 for value in found.values())
    dtype = pl.Int128 if is_whole else pl.Float64
    return (
        pl.Series([len(path) for path in lists], dtype=pl.Int64),
        pl.Series([frame for path in lists for frame in path], dtype=pl.Int64),
        pl.Series(found.values(), dtype=dtype),
    )


def _list_path(paths: list[tuple[int, int]], number: int) -> list[int]:
    """The frames of a path, root first."""
    found: list[int] = []
    while number > 0:
        number, frame = paths[number]
        found.append(frame)
    return found[::-1]
