"""speedscope files, sampled and evented: py-spy, rbspy, and many exporters write them.

Format: https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

from sightline.errors import DamagedError
from sightline.importers._json import parse_json
from sightline.importers._stacks import finish_import, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.model.source import Source
from sightline.model.stack_trie import Frame, StackTrie
from sightline.redaction import redact_frame

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
    version=2,
    source="https://www.speedscope.app/file-format-schema.json",
)

_UNITS = {
    "nanoseconds": ("cpu_time_ns", 1.0),
    "microseconds": ("cpu_time_ns", 1e3),
    "milliseconds": ("cpu_time_ns", 1e6),
    "seconds": ("cpu_time_ns", 1e9),
    "bytes": ("bytes", 1.0),
    "none": ("samples", 1.0),
}


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all profiles of the file. Raises DamagedError where none can be read."""
    quality: list[Quality] = []
    try:
        document = parse_json(read_text(source, quality), quality)
        frames = [_frame(f, options.keep_identity) for f in document["shared"]["frames"]]
        profiles = document["profiles"]
        if not isinstance(profiles, list):
            raise TypeError("'profiles' is not a list")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not a complete speedscope file ({error!r})"
        ) from error
    cut = any(q.kind == "truncated" for q in quality)
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = []
    for number, profile in enumerate(profiles):
        try:
            name = str(profile.get("name", number))
            root = [trie.number(Frame("thread", redact_frame(name)))] if len(profiles) > 1 else []
            weights += _profile(trie, profile, frames, root, cut)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            text = f"profile {number} is damaged and was left out ({error})"
            quality.append(Quality("damaged_profile", "warning", text, 1))
    return finish_import(
        source, trie, weights, quality, str(document.get("exporter", "speedscope"))
    )


def _frame(entry: dict[str, Any], keep_identity: bool) -> Frame:
    file, line = entry.get("file"), entry.get("line")
    layer = "python" if isinstance(file, str) and file.endswith((".py", ".pyx")) else "native"
    return Frame(
        layer,
        str(entry["name"]) if keep_identity else redact_frame(str(entry["name"])),
        file if isinstance(file, str) else None,
        line if isinstance(line, int) else None,
    )


def _profile(
    trie: StackTrie,
    profile: dict[str, Any],
    frames: list[Frame],
    root: list[int],
    cut: bool,
) -> list[tuple[int | None, str, int, str]]:
    metric, scale = _UNITS.get(str(profile.get("unit", "none")), ("samples", 1.0))
    own: Counter[tuple[int, ...]] | dict[tuple[int, ...], float]
    if profile["type"] == "sampled":
        own = _sampled(profile, len(frames), cut)
    elif profile["type"] == "evented":
        own = _evented(profile, len(frames))
    else:
        raise ValueError(f"of type {profile['type']!r}")
    number = cache(lambda place: trie.number(frames[place]))
    paths = (([*root, *map(number, path)], value) for path, value in own.items() if value > 0)
    return [(trie.add_numbers(p), metric, round(value * scale), "exact") for p, value in paths]


def _sampled(profile: dict[str, Any], count: int, cut: bool) -> dict[tuple[int, ...], float]:
    own: dict[tuple[int, ...], float] = {}
    samples, each = profile["samples"], profile["weights"]
    if len(samples) != len(each) and not cut:
        raise ValueError("it has different numbers of weights and samples")
    # Of one that is cut off, as many as there are.
    for sample, weight in zip(samples, each, strict=False):
        path = tuple(sample)
        own[path] = own.get(path, 0) + weight
    if any(not isinstance(f, int) or not 0 <= f < count for path in own for f in path):
        raise ValueError("a frame that does not exist")
    return own


def _evented(profile: dict[str, Any], count: int) -> dict[tuple[int, ...], float]:
    """Time between two events belongs to the frames that are open between them."""
    # A number for each path, as a trie: a tuple of the whole path at every event would take time
    # with the square of the depth.
    steps: dict[tuple[int, int], int] = {}
    paths: list[tuple[int, int]] = [(-1, -1)]  # of each number: the one below it, and the frame
    open_at = [0]
    spent: dict[int, float] = {}
    last: float | None = None
    for event in profile["events"]:
        at, frame = event["at"], event["frame"]
        if not isinstance(frame, int) or not 0 <= frame < count:
            raise ValueError("a frame that does not exist")
        if last is not None:
            if at < last:
                raise ValueError("events are not in order of time")
            spent[open_at[-1]] = spent.get(open_at[-1], 0) + at - last
        last = at
        if event["type"] == "O":
            key = (open_at[-1], frame)
            if key not in steps:
                steps[key] = len(paths)
                paths.append(key)
            open_at.append(steps[key])
        elif len(open_at) == 1 or paths[open_at.pop()][1] != frame:
            raise ValueError("an event closes a frame that is not the innermost")
    return {_list_path(paths, number): value for number, value in spent.items() if value > 0}


def _list_path(paths: list[tuple[int, int]], number: int) -> tuple[int, ...]:
    """The frames of a path, root first."""
    found: list[int] = []
    while number > 0:
        number, frame = paths[number]
        found.append(frame)
    return tuple(reversed(found))
