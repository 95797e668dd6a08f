"""Claims about recordings that others make, as a file says them (docs/agents.md has the schema)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

from sightline.core.registry import did_you_mean
from sightline.core.units import format_several
from sightline.errors import InputError

# More are no claims that somebody made: bounds of what is read, not of what can be judged.
MOST_BYTES, MOST_CLAIMS, _MOST_RUNS = 1 << 20, 100, 100
_COMMON = ("claim", "window")
_OF_CHANGE = ("before", "after", "metric", "floor", "same_workload", "within_pct")
_OF_FIGURE = ("recording", "finding", "kernel", "analysis", "sql", "column", "where", "within")
# What is said of the figure: key, how it is meant.
_CHANGES = {
    "change_pct": "is",
    "change_at_most_pct": "at_most",
    "change_at_least_pct": "at_least",
}
_FIGURES = {"is": "is", "at_most": "at_most", "at_least": "at_least"}
SOURCES = ("finding", "kernel", "analysis", "sql")


@dataclass(frozen=True)
class Claim:
    """One claim: of two sides where `before` is not empty, else of one recording.

    `relation` is is, at_most or at_least, or exists, for a finding without a figure. `value` is in
    the figure's unit, of two sides in % of before; `within` is how far off it still is true.
    `given` is what was read.
    """

    text: str
    relation: str
    value: float
    within: float
    given: Mapping[str, Any]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    recording: tuple[str, ...] = ()


def read_claims(data: bytes, name: str) -> list[Claim]:
    """The claims of a file, one or a list; `name` is for its errors. Raises InputError."""
    if len(data) > MOST_BYTES:
        raise _refuse(name, f"it is larger than {MOST_BYTES >> 20} MiB")
    try:
        # Digits as they were written: -12 is true of -12.4, -12.0 is not.
        given = json.loads(data, parse_float=Decimal, parse_int=Decimal, parse_constant=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise _refuse(name, f"it is not JSON: {error}") from error
    several = given if isinstance(given, list) else [given]
    if not 0 < len(several) <= MOST_CLAIMS:
        raise _refuse(
            name, f"it has {format_several(len(several), 'claim')}, not 1 to {MOST_CLAIMS}"
        )
    return [_parse(one, f"{name}, claim {n}") for n, one in enumerate(several, 1)]


def _refuse(name: str, why: str) -> InputError:
    hint = 'As  {"before": "a.json", "after": "b.json", "metric": "step_ns", "change_pct": -12}'
    return InputError(f"cannot read {name}", why=why, hint=hint)


def _parse(given: object, name: str) -> Claim:
    if not isinstance(given, dict):
        raise _refuse(name, "it is not an object")
    is_change = "before" in given or "after" in given
    relations = _CHANGES if is_change else _FIGURES
    known = [*_COMMON, *(_OF_CHANGE if is_change else _OF_FIGURE), *relations]
    for key in given:
        if key not in known:
            kind = "of two sides" if is_change else "of one recording"
            near = did_you_mean(key, known)
            raise _refuse(
                name, f"a claim {kind} has no '{key[:40]}'" + (f": {near}" if near else "")
            )
    said = [key for key in relations if key in given]
    exists = not said and "finding" in given and "column" not in given
    if len(said) != 1 and not exists:
        raise _refuse(name, f"it needs one of {', '.join(relations)}")
    value = _number(given, said[0], name) if said else Decimal(0)
    tolerance = "within_pct" if is_change else "within"
    within = _number(given, tolerance, name) if tolerance in given else _half_digit(value)
    if within < 0:
        raise _refuse(name, f"'{tolerance}' is less than 0")
    paths = {key: _paths(given, key, name) for key in ("before", "after", "recording")}
    _check_source(given, is_change, paths, name)
    return Claim(
        _text(given, "claim", name),
        "exists" if exists else relations[said[0]],
        float(value),
        float(within),
        {k: _plain(v) for k, v in given.items()},
        **paths,
    )


def _check_source(
    given: dict[str, Any], is_change: bool, paths: dict[str, tuple[str, ...]], name: str
) -> None:
    """That it says of what it speaks, and only that."""
    for key in ("metric", "floor", "window", "column", *SOURCES):
        _text(given, key, name)
    if not isinstance(given.get("same_workload", False), bool):
        raise _refuse(name, "'same_workload' is not true or false")
    if is_change:
        if not (paths["before"] and paths["after"]):
            raise _refuse(name, "it needs 'before' and 'after'")
        if "metric" not in given:
            raise _refuse(name, "it needs a 'metric'")
        return
    sources = [key for key in SOURCES if key in given]
    if not paths["recording"] or len(sources) != 1:
        raise _refuse(
            name, f"it needs 'before' and 'after', or 'recording' and one of {', '.join(SOURCES)}"
        )
    if sources[0] == "analysis" and "column" not in given:
        raise _refuse(name, "it needs the 'column' of the analysis")
    where = given.get("where", {})
    if not isinstance(where, dict) or not all(map(_is_plain, where.values())):
        raise _refuse(name, "'where' is not an object of columns and their values")


def _is_plain(value: object) -> bool:
    if isinstance(value, Decimal):
        return math.isfinite(float(value))
    return isinstance(value, (str, bool))


def _text(given: dict[str, Any], key: str, name: str) -> str:
    value = given.get(key, "")
    if not isinstance(value, str):
        raise _refuse(name, f"'{key}' is not a string")
    return value


def _paths(given: dict[str, Any], key: str, name: str) -> tuple[str, ...]:
    value = given.get(key, [])
    several = [value] if isinstance(value, str) else value
    if (
        not isinstance(several, list)
        or len(several) > _MOST_RUNS
        or not all(isinstance(path, str) and path and "\0" not in path for path in several)
    ):
        raise _refuse(name, f"'{key}' is neither a path nor a list of up to {_MOST_RUNS} paths")
    return tuple(several)


def _number(given: dict[str, Any], key: str, name: str) -> Decimal:
    value = given[key]
    if not isinstance(value, Decimal) or not math.isfinite(float(value)):
        raise _refuse(name, f"'{key}' is not a number")
    return value


def _half_digit(value: Decimal) -> Decimal:
    """Half of the last digit that was written: what rounding may have taken."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "numbers are finite"
    return Decimal(5).scaleb(exponent - 1) if exponent > -300 else Decimal(0)


def _plain(value: Any) -> Any:
    """Decimals as numbers of Python, at any depth that a claim has."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def match_names(pattern: str, names: Iterable[str]) -> set[str]:
    """The names in which a pattern is found. Raises InputError where it is none.

    By Polars, whose patterns take time in proportion to the name: a claim may be anybody's.
    """
    known = pl.Series(sorted(set(names)), dtype=pl.String)
    try:
        return set(known.filter(known.str.contains(pattern)).to_list())
    except pl.exceptions.PolarsError as error:
        why = str(error).splitlines()[-1]
        raise InputError(f"'{pattern[:80]}' is not a pattern", why=why) from error
