"""tritonparse's logs: what Triton compiled, in which stages, from which lines; launches' arguments.

Format: meta-pytorch/tritonparse, structured_logging.py: a JSON object a line, of the type
`compilation` or `launch`; what tritonparse makes of it (`…_mapped.ndjson.gz`) has the same and
more. Stages are in µs (Triton's CompileTimes). Moments are whole seconds of local time: not read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import count_misspelt
from sightline.formats._torch_compile import name_compilation

IMPORTER = Importer(
    name="tritonparse",
    label="tritonparse log of Triton's compiler",
    strong=(rb'^\s*\{\s*"event_type"\s*:\s*"(?:compilation|launch)"',),
    weak=(),
    looks_like='lines of JSON with "event_type": "compilation" or "launch"',
    suffixes=(".ndjson", ".ndjson.gz"),
    version=4,
    source="https://github.com/meta-pytorch/tritonparse",
)

# Frames of these are the way to the compiler, and not the program that needed it.
_PACKAGES = ("/triton/", "/torch/", "/tritonparse/tritonparse/", "/torchinductor_", "<frozen ")
_OPTIONS = ("num_warps", "num_stages", "num_ctas")
_TIMES = ("ir_initialization", "lowering_stages", "store_results")
_MOST_ARGUMENTS = 64
_COMPILATION = {
    "compilation_id": pl.Int64, "name": pl.String, "hash": pl.String, "pid": pl.Int64,
    "cache_hit": pl.Boolean, "target": pl.String, "num_warps": pl.Int64, "num_stages": pl.Int64,
    "num_ctas": pl.Int64, "shared_bytes": pl.Int64, "constants": pl.String, "file": pl.String,
    "line": pl.Int64, "caller_file": pl.String, "caller_line": pl.Int64, "caller": pl.String,
    "pytorch_frame": pl.String, "duration_ns": pl.Int64,
}  # fmt: skip
_STAGE = {
    "compilation_id": pl.Int64, "position": pl.Int64, "stage": pl.String, "duration_ns": pl.Int64,
}  # fmt: skip
_LAUNCH = {
    "name": pl.String, "hash": pl.String, "stream_id": pl.Int64, "grid_x": pl.Int64,
    "grid_y": pl.Int64, "grid_z": pl.Int64, "arguments": pl.String, "caller_file": pl.String,
    "caller_line": pl.Int64, "caller": pl.String,
}  # fmt: skip
Row = dict[str, Any]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all compilations and launches. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    compilations: list[Row] = []
    stages: list[Row] = []
    launches: Counter[tuple[Any, ...]] = Counter()
    texts: dict[str, dict[int, str]] = {}
    bad = 0
    for line in read_text(source, quality).splitlines():
        try:
            event = json.loads(line) if line.strip() else {"event_type": "none"}
        except (ValueError, RecursionError):
            bad += 1
            continue
        kind = event.get("event_type") if isinstance(event, dict) else None
        if kind == "compilation" and (row := _describe_compilation(event, len(compilations))):
            found = list(_list_stages(event, len(compilations)))
            times = [stage["duration_ns"] for stage in found]
            compilations.append(row | {"duration_ns": sum(times) if times else None})
            stages += found
            bad += _count_odd_times(event)
            _add_source(event, texts)
        elif kind == "launch" and (launch := _describe_launch(event)):
            launches[launch] += 1
        else:
            bad += kind in ("compilation", "launch", None)
    if not compilations and not launches:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete line")
    quality += note_bad_lines(bad, "events of tritonparse")
    told = "Triton's compiler was logged, not how long kernels ran"
    remedy = "Record them, too:  torch.profiler, or proton"
    quality.append(Quality("no_timeline", "info", told, None, remedy))
    counts = pl.Series(list(launches.values()), dtype=pl.Int64)
    tables = {
        "compilations": pl.DataFrame(compilations, schema=_COMPILATION),
        "compile_stages": pl.DataFrame(stages, schema=_STAGE),
        "logged_launches": pl.DataFrame(list(launches), schema=_LAUNCH, orient="row").with_columns(
            launches=counts
        ),
        "source_files": pl.DataFrame(
            {"file": list(texts), "content": [_join_lines(lines) for lines in texts.values()]},
            schema={"file": pl.String, "content": pl.String},
        ),
    }
    # A log of the compiler is no rank of its own: it has that of the program beside it.
    return Imported(tables, Recording("tritonparse", of_host=True), quality)


def _describe_compilation(event: Row, number: int) -> Row | None:
    """A row of `compilations`; None where not even the kernel's name is there."""
    payload = _dict(event.get("payload"))
    metadata, source = _dict(payload.get("metadata")), _dict(payload.get("python_source"))
    name = _text(metadata.get("name")) or _find_name(payload)
    if name is None:
        return None
    hit = metadata.get("cache_hit")
    return {
        "compilation_id": number,
        "name": name,
        "hash": _text(metadata.get("hash")),
        "pid": _whole(event.get("pid")),
        "cache_hit": hit if isinstance(hit, bool) else None,
        "target": _name_target(metadata),
        **{option: _whole(metadata.get(option)) for option in _OPTIONS},
        "shared_bytes": _whole(metadata.get("shared")),
        "constants": _name_constants(_dict(metadata.get("src_constants"))),
        "file": _text(source.get("file_path")),
        "line": _whole(source.get("start_line")),
        **_find_caller(event.get("stack")),
        "pytorch_frame": name_compilation(_dict(payload.get("pt_info"))),
    }


def _find_name(payload: Row) -> str | None:
    """The kernel's name, as its files have it: add_kernel.ttir."""
    files = [*_dict(payload.get("file_content")), *_dict(payload.get("file_path"))]
    return _text(next(iter(files), "").partition(".")[0])


def _name_target(metadata: Row) -> str | None:
    target = _dict(metadata.get("target"))
    backend, arch = target.get("backend") or metadata.get("backend_name"), target.get("arch")
    arch = arch if arch is not None else metadata.get("arch")
    parts = [str(part) for part in (backend, arch) if isinstance(part, str | int)]
    return _text(" ".join(parts))


def _name_constants(constants: Row) -> str | None:
    """The compiled-in values as `4=1024`: their places are written as texts of tuples, (4,)."""
    parts = [f"{key.strip('(),')}={value}" for key, value in constants.items()]
    return _text(", ".join(parts[:_MOST_ARGUMENTS]))


def _list_stages(event: Row, number: int) -> Iterator[Row]:
    """The stages that took time, in order."""
    times = _dict(_dict(event.get("payload")).get("times"))
    lowering = times.get("lowering_stages")
    pairs = [one for one in lowering if isinstance(one, list) and len(one) == 2] if isinstance(
        lowering, list
    ) else []  # fmt: skip
    named = [
        ("ir_initialization", times.get("ir_initialization")),
        *pairs,
        ("store_results", times.get("store_results")),
    ]
    known = [(stage, _whole(us)) for stage, us in named if isinstance(stage, str)]
    for position, (stage, us) in enumerate((s, us) for s, us in known if us is not None):
        if us < INT64_MAX // 10**6:
            yield {
                "compilation_id": number,
                "position": position,
                "stage": replace_surrogates(stage),
                "duration_ns": us * 1000,
            }


def _count_odd_times(event: Row) -> int:
    """How many times of stages are none, and how many of their names are damaged."""
    times = _dict(_dict(event.get("payload")).get("times"))
    lowering = times.get("lowering_stages")
    pairs = lowering if isinstance(lowering, list) else []
    told = [pair[1] if isinstance(pair, list) and len(pair) == 2 else None for pair in pairs]
    told += [times[name] for name in ("ir_initialization", "store_results") if name in times]
    return sum(_whole(us) is None for us in told) + count_misspelt(list(times), _TIMES)


def _describe_launch(event: Row) -> tuple[Any, ...] | None:
    """What is the same of launches that are counted together: the columns of _LAUNCH."""
    metadata = _dict(event.get("compilation_metadata"))
    name = _text(event.get("name")) or _text(metadata.get("name"))
    if name is None:
        return None
    grid = event.get("grid")
    sizes = [_whole(size) for size in grid[:3]] if isinstance(grid, list) else []
    caller = _find_caller(event.get("stack"))
    return (
        name,
        _text(metadata.get("hash")),
        _whole(event.get("stream")),
        *(sizes + [1 if sizes else None] * 3)[:3],
        _name_arguments(_dict(event.get("extracted_args"))),
        *caller.values(),
    )


def _name_arguments(arguments: Row) -> str | None:
    """The arguments as `x: float32[1024, 8], n: 98432`."""
    parts = []
    for name, argument in list(arguments.items())[:_MOST_ARGUMENTS]:
        said = _dict(argument)
        shape = said.get("shape")
        if isinstance(shape, list):
            kind = str(said.get("dtype", "tensor")).removeprefix("torch.")
            parts.append(f"{name}: {kind}{shape}")
        else:
            parts.append(f"{name}: {said.get('value', argument)}")
    return _text(", ".join(parts))


def _find_caller(stack: Any) -> Row:
    """The innermost frame of the program: its file, line and function."""
    frames = (
        [frame for frame in stack if isinstance(frame, dict)] if isinstance(stack, list) else []
    )
    for frame in reversed(frames):
        file = _text(frame.get("filename"))
        if file and not any(package in file for package in _PACKAGES):
            line, name = _whole(frame.get("line")), _text(frame.get("name"))
            return {"caller_file": file, "caller_line": line, "caller": name}
    return {"caller_file": None, "caller_line": None, "caller": None}


def _add_source(event: Row, texts: dict[str, dict[int, str]]) -> None:
    """The lines of the kernel, where they stand in its file."""
    source = _dict(_dict(event.get("payload")).get("python_source"))
    file, code, first = (source.get(name) for name in ("file_path", "code", "start_line"))
    if isinstance(file, str) and isinstance(code, str) and type(first) is int and 0 < first < 10**6:
        lines = texts.setdefault(replace_surrogates(file), {})
        lines |= {first + n: line for n, line in enumerate(code.splitlines())}


def _join_lines(lines: dict[int, str]) -> str:
    """A file's text, in which what was not logged is blank, so that lines keep their numbers."""
    last = max(lines, default=0)
    return replace_surrogates("\n".join(lines.get(n, "") for n in range(1, last + 1)))


def _dict(value: Any) -> Row:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return replace_surrogates(value) if isinstance(value, str) and value else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= INT64_MAX else None
