"""A run's fingerprint: what a comparison needs of it, in a text file of at most 20 KB.

It is small and changes line by line, so that it can live in git; the same run makes the same bytes.
A fingerprint holds kernel families instead of kernels, by operator and place, each with its times
and how they vary over the steps; what does not fit is added up by part, so that all still sums to
the step. Where a side of a comparison is a fingerprint, the other is reduced to one as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sightline.compare.facts import METRICS, OPTIONS, Facts
from sightline.compare.matching import name_family
from sightline.compare.sample import CPU_PARTS, GPU_PARTS, KEY, Sample, measure_groups
from sightline.compare.statistics import Spread
from sightline.errors import DamagedError, InputError

SCHEMA = "sightline-fingerprint/1"
MAX_BYTES = 20_000
REST = "smaller operations"
# A text longer than this is cut, and told apart by a hash (ours: of 2,000 names of kernel families
# in public recordings one in fifty is longer).
_MAX_TEXT = 96
# Of operators' input shapes a sample is kept: those whose names have the smallest hashes, so that
# two runs keep the same ones (Broder, "On the resemblance and containment of documents", 1997).
_MAX_SHAPES = 120
_REST_BYTES = 120  # of such a row, at most
_AMOUNTS = ("instances", "total_ns", "own_ns")
_DAMAGE = (
    *(ValueError, TypeError, KeyError, AttributeError),
    *(OverflowError, RecursionError, pl.exceptions.PolarsError),
)
_HEAD = f'{{\n"schema": "{SCHEMA}",'.encode()


def is_fingerprint(path: str) -> bool:
    """Whether a path is a file that begins as fingerprints do."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_HEAD)) == _HEAD
    except OSError:
        return False


def write_fingerprint(sample: Sample) -> bytes:
    """The fingerprint of a run, as text of at most MAX_BYTES."""
    length = sample.length
    head = {
        "schema": SCHEMA,
        "steps": {
            "source": sample.source,
            "confidence": sample.confidence,
            "count": length.count,
            "mean_ns": length.mean,
            "apart": _round(length.apart),
            "together": _round(length.together),
            "low": length.low,
            "high": length.high,
        },
        "run": {
            "has_device": sample.has_device,
            "devices": sample.devices,
            "count": sample.count,
            "whole_ns": sample.whole_ns,
            "left_out": sample.left_out,
        },
        "facts": _list_facts(sample.facts),
    }
    shapes = _hash_shapes(sample.facts.shapes) if sample.run else sample.facts.shapes.rows()
    used = len(_layout(head, {"shapes": shapes, "operations": []}))
    rows = _fit_rows(_list_operations(sample), MAX_BYTES - used)
    rows.sort(key=lambda row: [text or "" for text in row[: len(KEY)]])
    return _layout(head, {"shapes": shapes, "operations": rows})


def reduce_sample(sample: Sample) -> Sample:
    """A run as its fingerprint has it."""
    return (
        sample if sample.run is None else parse_fingerprint(write_fingerprint(sample), sample.name)
    )


def read_fingerprint(path: str) -> Sample:
    """The run that a fingerprint is of, named after its file. Raises InputError, DamagedError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"cannot read {path}", why=(error.strerror or str(error)).lower()
        ) from error
    return parse_fingerprint(data, path)


def parse_fingerprint(data: bytes, name: str) -> Sample:
    """The run that a fingerprint is of. Raises DamagedError."""
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        sample = _parse(json.loads(data, parse_constant=_refuse), name)
        if sample.leaves.get_column("own_ns").sum() != sample.whole_ns:
            raise ValueError("its operations do not sum to its step")
    except (
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        RecursionError,
        pl.exceptions.PolarsError,
    ) as error:
        why = str(error) if type(error) is ValueError else "a value is not what it should be"
        raise DamagedError(
            f"{name} is a damaged fingerprint",
            why=why,
            hint="Make it again:  sightline fingerprint RUN -o FILE",
        ) from error
    return sample


# -- writing --------------------------------------------------------------------------------------


def _list_operations(sample: Sample) -> list[list[Any]]:
    """Rows of KEY and amounts, the costliest first; where steps are known also how they vary."""
    reduced = sample.leaves
    if sample.run is not None:
        name = pl.when(pl.col("part") == "idle").then("name").otherwise(_map("name", name_family))
        reduced = reduced.with_columns(_map(name, _cut), *[_map(c, _cut) for c in KEY[2:]])
    groups = (
        reduced.group_by(KEY)
        .agg(pl.col(_AMOUNTS).sum(), "leaf")
        .sort("own_ns", *KEY, descending=[True, *[False] * len(KEY)])
        .with_row_index("group")
    )
    spreads = measure_groups(sample, groups.select("group", "leaf").explode("leaf"))
    rows = []
    for row in groups.iter_rows(named=True):
        spread = spreads.get(row["group"])
        varies = [] if spread is None else [_round(spread.apart), _round(spread.together)]
        rows.append([*(row[c] for c in (*KEY, *_AMOUNTS)), *varies])
    return rows


def _map(column: str | pl.Expr, change: Callable[[str], str]) -> pl.Expr:
    column = pl.col(column) if isinstance(column, str) else column
    return column.map_elements(change, return_dtype=pl.String)


def _cut(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[: _MAX_TEXT - 9]}~{_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _fit_rows(rows: list[list[Any]], room: int) -> list[list[Any]]:
    """The costliest rows that fit into so many bytes, and what is left of each part as one row."""
    sizes = [len(_write(row).encode()) + 2 for row in rows]
    if sum(sizes) <= room:
        return rows
    room -= _REST_BYTES * len({row[0] for row in rows})
    fitting = 0
    while sizes[fitting] <= room:
        room -= sizes[fitting]
        fitting += 1
    left: dict[str, list[Any]] = {}
    for part, *_, instances, total, own in (row[:8] for row in rows[fitting:]):
        known = left.setdefault(part, [part, REST, None, None, None, 0, 0, 0])
        known[5:] = [known[5] + instances, known[6] + total, known[7] + own]
    return [*rows[:fitting], *left.values()]


def _hash_shapes(shapes: pl.DataFrame) -> list[list[Any]]:
    """Hashes of operators and of their inputs' shapes, and calls per step, of a sample."""
    rows = sorted(
        (_hash(name), _hash(inputs), calls)
        for name, inputs, calls in shapes.select("name", "input_shapes", "calls").iter_rows()
    )
    whole = rows[:_MAX_SHAPES]
    if len(rows) > _MAX_SHAPES:  # an operator is in the sample with all of its shapes
        cut = rows[_MAX_SHAPES][0]
        whole = [row for row in whole if row[0] != cut]
    return [list(row) for row in whole]


def _list_facts(facts: Facts) -> dict[str, Any]:
    return {
        "devices": list(facts.devices),
        "world_size": facts.world_size,
        "clock_mhz": facts.clock_mhz,
        "tools": list(facts.tools),
        "versions": list(facts.versions),
        "options": sorted(facts.options),
        "losses": [[kind, _cut(text), count] for kind, text, count in facts.losses],
        "metrics": {name: _round(value) for name, value in sorted(facts.metrics.items())},
        **({} if facts.queued_pct is None else {"queued_pct": _round(facts.queued_pct)}),
    }


def _round(value: float) -> float:
    """Six digits: more of a spread says nothing."""
    return float(f"{value:.6g}")


def _write(value: Any) -> str:
    # A text that is no Unicode is written as escapes, which every line of a file can hold.
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def _layout(head: dict[str, Any], rows: dict[str, Sequence[Sequence[Any]]]) -> bytes:
    """JSON with a line for each row, so that a difference of two is a difference of lines."""
    parts = [
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()
    ]
    for key, listed in rows.items():
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in listed)
        parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


# -- reading --------------------------------------------------------------------------------------


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _parse(data: dict[str, Any], name: str) -> Sample:
    if data["schema"] != SCHEMA:
        raise ValueError(f"it is not a {SCHEMA}")
    run, steps, facts = data["run"], data["steps"], data["facts"]
    length = Spread(
        int(steps["count"]),
        *(float(steps[k]) for k in ("mean_ns", "apart", "together")),
        *(None if (ns := steps.get(k)) is None else float(ns) for k in ("low", "high")),
    )
    count = int(run["count"])
    if min(count, length.count, int(run["devices"])) < 1:
        raise ValueError("it has no step")
    rows = [[*row, None, None][:10] for row in data["operations"]]
    texts, varies = dict.fromkeys(KEY, pl.String), ("apart", "together")
    numbers = {**dict.fromkeys(_AMOUNTS, pl.Int64), **dict.fromkeys(varies, pl.Float64)}
    leaves = pl.DataFrame(
        rows,
        schema={**texts, **numbers},
        orient="row",
    ).with_row_index("leaf")
    if not set(leaves.get_column("part")) <= {*GPU_PARTS, *CPU_PARTS}:
        raise ValueError("it names a part that a step does not have")
    varying = leaves.drop_nulls("apart").select("leaf", "own_ns", "apart", "together")
    return Sample(
        run=None,
        name=name,
        steps=(),
        length=length,
        source=None if steps["source"] is None else str(steps["source"]),
        confidence=str(steps["confidence"]),
        has_device=bool(run["has_device"]),
        devices=int(run["devices"]),
        count=count,
        whole_ns=int(run["whole_ns"]),
        leaves=leaves.drop("apart", "together").with_columns(pl.col("leaf").cast(pl.Int64)),
        series=None,
        spreads={
            leaf: Spread(length.count, own / count, apart, together)
            for leaf, own, apart, together in varying.iter_rows()
        },
        left_out=int(run["left_out"]),
        facts=_parse_facts(facts, data["shapes"]),
    )


def _parse_facts(facts: dict[str, Any], shapes: list[list[Any]]) -> Facts:
    schema = {"name": pl.String, "input_shapes": pl.String, "calls": pl.Float64}
    return Facts(
        devices=tuple(map(str, facts["devices"])),
        world_size=None if facts["world_size"] is None else int(facts["world_size"]),
        clock_mhz=None if facts["clock_mhz"] is None else float(facts["clock_mhz"]),
        shapes=pl.DataFrame(shapes, schema=schema, orient="row"),
        tools=tuple(map(str, facts["tools"])),
        versions=tuple(map(str, facts["versions"])),
        options=frozenset(map(str, facts["options"])) & frozenset(OPTIONS),
        losses=tuple(
            (str(kind), str(text), None if count is None else int(count))
            for kind, text, count in facts["losses"]
        ),
        metrics={k: float(v) for k, v in facts["metrics"].items() if k in METRICS},
        queued_pct=None if facts.get("queued_pct") is None else float(facts["queued_pct"]),
    )
