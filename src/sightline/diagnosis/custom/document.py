"""A YAML or JSON file as plain values, each with the line that it stands on.

JSON is read by the same parser, as it is YAML but for tabs. What a rule has no use for is refused:
aliases (a few lines of them unfold to billions of values), tags, several documents.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sightline.core.text import replace_surrogates
from sightline.errors import InputError

MAX_DEPTH = 64  # a rule has five levels
MAX_BYTES = 1 << 18  # ClusterCockpit's own rules are under 2 KB each
_SCALARS = {"str", "int", "float", "bool", "null"}


@dataclass(frozen=True)
class Value:
    """A value and its place: `data` is a text, number, None, list of Value or dict of Value."""

    data: Any
    file: str
    line: int

    def wrong(self, why: str, hint: str | None = None) -> InputError:
        """The error that this value is: file, line and reason."""
        return InputError(f"{self.file}, line {self.line}", why=why, hint=hint)

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.data, list):
            return [v.plain() for v in self.data]
        if isinstance(self.data, dict):
            return {k: v.plain() for k, v in self.data.items()}
        return self.data


def read(path: Path) -> Value:
    """The whole file. Raises InputError with file, line and reason."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise InputError(f"cannot read {path}", why="it is not a file")
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"cannot read {path}", why=f"it is larger than {MAX_BYTES >> 10} KiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read {path}", why=str(why).lower()) from error
    return parse(text, str(path))


def parse(text: str, file: str) -> Value:
    """A file's text. Raises InputError with file, line and reason."""
    try:
        json.loads(text)
        text = text.replace("\t", " ")  # JSON allows tabs between values, and only there
    except (ValueError, RecursionError):
        pass
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:  # the parser's own time grows with its square
                raise RecursionError
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise InputError(f"{file}, line {line}", why="aliases (*name) are not read")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            raise InputError(f"{file}, line 1", why="the file is empty")
        return _value(node, file)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{file}, line {line}", why=f"no YAML or JSON: {problem}") from error
    except RecursionError as error:
        raise InputError(f"{file}, line 1", why="it is nested too deeply") from error


def _value(node: yaml.Node, file: str) -> Value:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return Value([_value(n, file) for n in node.value], file, line)
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Value] = {}
        for key, value in node.value:
            at = Value(None, file, key.start_mark.line + 1)
            if not isinstance(key, yaml.ScalarNode):
                raise at.wrong("a name must be a string")
            if key.value in found:
                raise at.wrong(f"'{_short(key.value)}' is given twice")
            found[replace_surrogates(key.value)] = _value(value, file)
        return Value(found, file, line)
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind not in _SCALARS:
        # A date, a merge key or a tag of somebody's own: what was written is what is meant.
        return Value(replace_surrogates(node.value), file, line)
    try:
        made = yaml.SafeLoader("").construct_object(node)
        return Value(replace_surrogates(made) if isinstance(made, str) else made, file, line)
    except (ValueError, yaml.YAMLError) as error:
        one = f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
        raise Value(None, file, line).wrong(f"'{_short(node.value)}' is not {one}") from error


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
