"""The forms of a rule, read into one, with everything checked that can be without a run.

ours            name, tag, parameters (name: value), metrics, variables, requirements, rule, hint;
                cost, gain, severity, fix, verify, sources where wanted; several under `rules:`
ClusterCockpit  the same names; parameters are a list whose values stand in parameters.json beside
                the file, variables a list of {name, expr}, the hint a Go template
Puzzle Jobs     tag, threshold, metrics, vars, trigger; `config.x` stands in config.json beside
Job Defense Shield  config.yaml with an entry each alert: defense_shield.py
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sightline.core import registry
from sightline.core.model.history_folder import KINDS
from sightline.core.units import parse_duration_ns
from sightline.diagnosis.custom import document
from sightline.diagnosis.custom.defense_shield import is_policies, list_rules
from sightline.diagnosis.custom.document import Value
from sightline.diagnosis.custom.expression import CONSTANTS, FUNCTIONS, Expression, parse_expression
from sightline.errors import InputError, RequestError

OURS, COCKPIT, PUZZLE = "sightline", "ClusterCockpit", "Puzzle Jobs"
SHIELD = "Job Defense Shield"
SEVERITIES = ("critical", "warning", "info")
_KEYS = {
    OURS: {
        "name", "tag", "parameters", "metrics", "variables", "requirements", "rule", "hint",
        "cost", "gain", "severity", "fix", "verify", "sources", "watch",
    },
    COCKPIT: {
        "name", "tag", "parameters", "metrics", "variables", "requirements", "rule", "hint",
    },
    PUZZLE: {"name", "tag", "threshold", "metrics", "vars", "trigger", "config", "hint"},
}  # fmt: skip
_NEEDED = {OURS: ("tag", "rule"), COCKPIT: ("tag", "rule"), PUZZLE: ("tag", "trigger")}
# What stands beside a file of rules and is none: values of parameters.
BESIDE = ("parameters.json", "config.json")
_TAG = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
MAX_RULES, MAX_TEXT = 200, 2_000


@dataclass(frozen=True)
class Watched:
    """How `sightline watch` asks a rule of live values, for each entity of a kind.

    It is violated once it held for `for_ns`, and over once `clear` (default: the rule does not
    hold) did so for as long. Statistics are of the values of the last `over_ns`.
    """

    of: str = "gpus"
    for_ns: int = 0
    over_ns: int = 0
    clear: Expression | None = None


@dataclass(frozen=True)
class OwnRule:
    """One rule, checked: all expressions parse, and every name in them is declared."""

    name: str
    tag: str
    form: str
    at: Value
    metrics: tuple[str, ...]
    parameters: dict[str, Any]
    variables: dict[str, Expression]
    requirements: tuple[Expression, ...]
    rule: Expression
    hint: str
    texts: dict[str, str] = field(default_factory=dict)  # severity, fix, verify
    sources: tuple[str, ...] = ()
    cost: Expression | None = None
    gain: Expression | None = None
    watched: Watched = Watched()


def read_rules(paths: list[str]) -> list[OwnRule]:
    """All rules of files and folders, as they are. Raises InputError with file, line and reason."""
    return [rule for path in paths for file in _files(Path(path)) for rule in _rules(file)]


def parse_rule(rule: dict[str, Any], place: str) -> OwnRule:
    """One rule of values, as a file would have it. Raises InputError, which names `place`."""
    return _rule(document.parse(json.dumps(rule), place), Path(place))


def load_rules(paths: list[str]) -> list[OwnRule]:
    """All rules of files and folders, of different tags. Raises InputError, also for ours."""
    found = read_rules(paths)
    taken = {m.RULE.name: "a rule of sightline" for _, m in registry.load_members("rules")}
    for rule in found:
        if rule.tag in taken:
            raise rule.at.wrong(f"the tag '{rule.tag}' is taken by {taken[rule.tag]}")
        taken[rule.tag] = f"the rule in {rule.at.file}, line {rule.at.line}"
    return found


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(
        f for f in path.iterdir() if f.suffix in (".json", ".yaml", ".yml") and f.name not in BESIDE
    )
    if not found:
        raise InputError(f"there are no rules in {path}", why="no .json, .yaml or .yml file")
    return found


def _rules(file: Path) -> Iterator[OwnRule]:
    top = document.read(file)
    if is_policies(top):
        for at, rule in list_rules(top):
            yield replace(parse_rule(rule, at.file), at=at, form=SHIELD)
        return
    if isinstance(top.data, dict) and "rules" in top.data:
        extra = set(top.data) - {"rules"}
        if extra:
            raise top.data[min(extra)].wrong(f"'{min(extra)}' is not known next to 'rules'")
        top = top.data["rules"]
    items = top.data if isinstance(top.data, list) else [top]
    if len(items) > MAX_RULES:
        raise top.wrong(f"a file may have at most {MAX_RULES} rules")
    for item in items:
        yield _rule(item, file)


def _rule(item: Value, file: Path) -> OwnRule:
    if not isinstance(item.data, dict):
        raise item.wrong("a rule is expected: names and values, at least  tag  and  rule")
    form = _form(item)
    _known(item, _KEYS[form], form)
    for key in _NEEDED[form]:
        if key not in item.data:
            raise item.wrong(f"the rule has no '{key}'")
    return _read(item, form, file)


def _form(item: Value) -> str:
    if "trigger" in item.data or "vars" in item.data:
        return PUZZLE
    lists = [item.data.get(key) for key in ("parameters", "variables")]
    return COCKPIT if any(v is not None and isinstance(v.data, list) for v in lists) else OURS


def _known(item: Value, keys: set[str], form: str) -> None:
    for key, value in item.data.items():
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            raise value.wrong(
                f"a rule in {form}'s form has no '{key[:60]}'",
                f"Did you mean {near[0]}?" if near else f"It has: {', '.join(sorted(keys))}.",
            )


def _read(item: Value, form: str, file: Path) -> OwnRule:
    get = item.data.get
    tag = _text(item.data["tag"], _TAG, "small letters, digits, '-' and '_'")
    metrics = tuple(_text(v, _NAME, "a metric's name") for v in _list(get("metrics")))
    parameters = _parameters(item, form, file)
    config = _config(item, file) if form == PUZZLE else {}
    # What an expression may name, and whether a dot may follow it.
    known = {
        **dict.fromkeys((*metrics, "job", "run", *(["config"] if form == PUZZLE else [])), True),
        **dict.fromkeys(parameters, False),
    }
    variables = _variables(item, form, known)
    texts = {
        key: _text(item.data[key]) for key in ("severity", "fix", "verify") if key in item.data
    }
    if texts.get("severity", "info") not in SEVERITIES:
        raise item.data["severity"].wrong(f"a severity must be one of {', '.join(SEVERITIES)}")
    return OwnRule(
        name=_text(get("name")) if "name" in item.data else tag,
        tag=tag.replace("_", "-"),
        form=form,
        at=item,
        metrics=metrics,
        parameters={**parameters, **({"config": config} if form == PUZZLE else {})},
        variables=variables,
        requirements=tuple(_checked(v, known) for v in _list(get("requirements"))),
        rule=_checked(item.data["trigger" if form == PUZZLE else "rule"], known),
        hint=_text(get("hint")) if "hint" in item.data else "",
        texts=texts,
        sources=tuple(_text(v) for v in _list(get("sources"))),
        cost=_checked(get("cost"), known) if "cost" in item.data else None,
        gain=_checked(get("gain"), known) if "gain" in item.data else None,
        watched=_read_watched(get("watch"), known),
    )


def _read_watched(value: Value | None, known: dict[str, bool]) -> Watched:
    if value is None:
        return Watched()
    if not isinstance(value.data, dict):
        raise value.wrong("names and values are expected here: of, for, over, clear")
    _known(value, {"of", "for", "over", "clear"}, f"the watch of {OURS}")
    of = value.data.get("of")
    kind = _text(of) if of is not None else Watched.of
    if of is not None and kind not in KINDS:
        raise of.wrong(f"what is watched must be one of {', '.join(KINDS)}")
    clear = value.data.get("clear")
    return Watched(
        kind,
        _read_duration(value.data.get("for")),
        _read_duration(value.data.get("over")),
        _checked(clear, known) if clear is not None else None,
    )


def _read_duration(value: Value | None) -> int:
    if value is None:
        return 0
    try:
        return parse_duration_ns(_text(value))
    except RequestError as error:
        raise value.wrong("a duration is expected here, such as 30s or 10min") from error


def _text(value: Value, shape: re.Pattern[str] | None = None, like: str = "") -> str:
    text = value.data
    if not isinstance(text, str) or not text.strip():
        raise value.wrong("a string is expected here")
    if len(text) > MAX_TEXT:
        raise value.wrong(f"a string may have at most {MAX_TEXT} characters")
    if shape and not shape.fullmatch(text):
        raise value.wrong(f"'{text[:60]}' is not {like}")
    return text


def _list(value: Value | None) -> list[Value]:
    if value is None or value.data is None:
        return []
    if not isinstance(value.data, list):
        raise value.wrong("a list is expected here")
    return value.data


def _constant(value: Value) -> Any:
    if not isinstance(value.data, bool | int | float | str):
        raise value.wrong("a number or string is expected here")
    is_count = isinstance(value.data, int) and not isinstance(value.data, bool)
    if is_count and not -(10**300) < int(value.data) < 10**300:
        raise value.wrong("the number is too large")
    return float(value.data) if is_count else value.data


def _parameters(item: Value, form: str, file: Path) -> dict[str, Any]:
    """Names and values; ClusterCockpit's stand in a file beside."""
    given = item.data.get("parameters")
    if given is None:
        return {}
    if form == OURS:
        if not isinstance(given.data, dict):
            raise given.wrong("names and values are expected here")
        for name, value in given.data.items():
            _free(name, value)
        return {name: _constant(value) for name, value in given.data.items()}
    values = _beside(file, "parameters.json")
    found = {}
    for value in _list(given):
        name = _text(value, _NAME, "a parameter's name")
        _free(name, value)
        if name not in values:
            raise value.wrong(
                f"the parameter '{name}' has no value",
                f"Write it into {file.parent / 'parameters.json'}.",
            )
        found[name] = _constant(values[name])
    return found


def _config(item: Value, file: Path) -> dict[str, Any]:
    own = item.data.get("config")
    if own is not None and not isinstance(own.data, dict):
        raise own.wrong("names and values are expected here")
    values: Mapping[str, Value] = own.data if own is not None else _beside(file, "config.json")
    return {name: _constant(value) for name, value in values.items()}


def _beside(file: Path, name: str) -> dict[str, Value]:
    path = file.parent / name
    if not path.is_file():
        return {}
    top = document.read(path)
    if not isinstance(top.data, dict):
        raise top.wrong("names and values are expected here")
    return top.data


def _free(name: str, at: Value) -> None:
    """A name of one's own must be a word that means nothing else."""
    if not _NAME.fullmatch(name):
        raise at.wrong(f"'{name[:60]}' is not a name: use letters, digits and '_'")
    if name in CONSTANTS or name in FUNCTIONS or name in ("job", "run", "config"):
        raise at.wrong(f"the name '{name}' means something else in expressions")


def _variables(item: Value, form: str, known: dict[str, bool]) -> dict[str, Expression]:
    """In order; each may use those before it, and becomes known to those behind it."""
    pairs: list[tuple[Value, str, Value]] = []
    if form == PUZZLE and "threshold" in item.data:
        pairs.append((item.data["threshold"], "threshold", item.data["threshold"]))
    given = item.data.get("vars" if form == PUZZLE else "variables")
    if given is not None and isinstance(given.data, dict):
        pairs += [(value, name, value) for name, value in given.data.items()]
    elif given is not None:
        for one in _list(given):
            if not isinstance(one.data, dict) or set(one.data) != {"name", "expr"}:
                raise one.wrong("a variable needs a 'name' and an 'expr'")
            pairs.append((one, _text(one.data["name"]), one.data["expr"]))
    found: dict[str, Expression] = {}
    for at, name, value in pairs:
        _free(name, at)
        if name in known:
            raise at.wrong(f"the name '{name}' is taken already")
        found[name] = _checked(value, known)
        known[name] = False
    return found


def _checked(value: Value | None, known: dict[str, bool]) -> Expression:
    """An expression whose names are all declared."""
    assert value is not None
    found = parse_expression(value)
    for name in found.names:
        first, dot, _ = name.partition(".")
        if first not in known:
            near = difflib.get_close_matches(first, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else "Declare it under metrics or parameters."
            raise value.wrong(f"the name '{first[:60]}' is not known here", hint)
        if dot and not known[first]:
            raise value.wrong(f"no dot may follow '{first[:60]}': it is a value, not a metric")
    return found
