"""Logs of inference servers: what vLLM, SGLang and TensorRT-LLM say of load and steps.

vLLM's line of statistics and SGLang's of each batch become counters, called as the same server's
/metrics calls them; so do the lines of each iteration (vLLM with enable_logging_iteration_details,
TensorRT-LLM with print_iter_log): `iteration_ms`, whose source is the phase, and beside it how many
prompts, tokens of prompts, running requests and tokens of these the iteration computed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import count_cut, is_nearly

IMPORTER = Importer(
    name="server_log",
    label="Log of an inference server (vLLM, SGLang, TensorRT-LLM)",
    strong=(
        rb"(?:\A|\n)[^\n]{0,120}INFO (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d[^\n]{0,40}\[\w+\.py:\d+\]",
        rb"(?:\A|\n)\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]\n]{0,40}\] (?:Prefill|Decode) batch",
        rb"(?:\A|\n)[^\n]{0,80}\biter = \d+,[^\n]{0,200}host_step_time = ",
    ),
    weak=(),
    looks_like="lines such as Avg generation throughput: 48.4 tokens/s, or Decode batch.",
    suffixes=(".log", ".txt", ".out"),
    version=8,
    source="https://docs.vllm.ai/en/latest/usage/metrics.html",
)


class _Value(NamedTuple):
    """A number of a line: where it stands, what the server's /metrics calls it, and its scale."""

    pattern: re.Pattern[str]
    metric: str
    scale: float = 1.0
    unit: str = ""


_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"


def _value(text: str, metric: str, scale: float = 1.0, unit: str = "") -> _Value:
    return _Value(re.compile(text.replace("N", _NUMBER, 1)), metric, scale, unit)


# vllm/v1/metrics/loggers.py; before 0.8 vllm/engine/metrics.py (Pending, and "is preempted by").
_VLLM = (
    _value(r"Avg prompt throughput: N", "vllm:avg_prompt_throughput_toks_per_s", 1, "tokens/s"),
    _value(
        r"Avg generation throughput: N", "vllm:avg_generation_throughput_toks_per_s", 1, "tokens/s"
    ),
    _value(r"Running: N reqs", "vllm:num_requests_running"),
    _value(r"(?:Waiting|Pending): N reqs", "vllm:num_requests_waiting"),
    _value(r"(?:GPU|CPU|TPU|XPU) KV cache usage: N%", "vllm:kv_cache_usage_perc", 0.01),
    _value(r"Prefix cache hit rate: (?:GPU: )?N%", "vllm:prefix_cache_hit_rate", 0.01),
    _value(r"Preemptions: N", "vllm:num_preemptions_total"),
    _value(r"total_num_cumulative_preemption=N", "vllm:num_preemptions_total"),
)
# sglang/srt/managers/scheduler_components/metrics_reporter.py.
_SGLANG = (
    _value(r"#running-req: N", "sglang:num_running_reqs"),
    _value(r"#queue-req: N", "sglang:num_queue_reqs"),
    _value(r"(?<!full )(?:token|full token) usage: N", "sglang:token_usage"),
    _value(r"gen throughput \(token/s\): N", "sglang:gen_throughput", 1, "tokens/s"),
    _value(r"input throughput \(token/s\): N", "sglang:input_throughput", 1, "tokens/s"),
    _value(r"#retracted-req: N", "sglang:num_retracted_reqs"),
    _value(r"accept len: N", "sglang:spec_accept_length"),
)
# The marks of a line, its numbers, and those of them that are in each such line of any version.
_LINES = (
    (re.compile(r"Avg prompt throughput:|total_num_cumulative_preemption="), _VLLM, ()),
    (re.compile(r"\] Prefill batch"), _SGLANG, ("#running-req", "#queue-req")),
    (
        re.compile(r"\] Decode batch"),
        _SGLANG,
        ("#running-req", "token usage", "gen throughput", "#queue-req"),
    ),
)
_OF_ALL = 5  # the first numbers of vLLM are in each line of any version
# vllm/v1/engine/core.py: log_iteration_details; tensorrt_llm/_torch/pyexecutor/py_executor.py.
_ITERATIONS = (
    re.compile(
        r"Iteration\(\d+\): (\d{1,9}) context requests, (\d{1,9}) context tokens, "
        r"(\d{1,9}) generation requests, (\d{1,9}) generation tokens, iteration elapsed time: "
        + _NUMBER
        + " ms"
    ),
    re.compile(
        r"host_step_time = (?P<ms>\d{1,9}(?:\.\d{1,9})?)\s?ms.*'num_ctx_requests': (?P<c>\d{1,9})"
        r"(?:.*'num_ctx_tokens': (?P<t>\d{1,9}))?.*'num_generation_tokens': (?P<g>\d{1,9})"
    ),
)
# Of a line that is damaged or cut off.
_LOOKS = re.compile(
    r"throughput: |tokens/s|KV cache usage|#running-req|#queue-req|(?:Prefill|Decode) bat"
    r"|host_step_time|num_ctx_requests|Iteration\(|preemption=| context requests|elapsed time: "
    r"|\] Engine \d{1,4}:[ A-Za-z]{0,20}$|\[loggers\.py:\d+\] E[ngie]{0,5}[ \d]{0,5}$"
    r"|\[core\.py:\d+\] I[teraion]{0,8}$"
)
# A line up to where its kind is known, and how long that may be.
_BEGIN = re.compile(
    r"^.*?(?:\] (?:Prefill|Decode) batch|Avg prompt throughput|Iteration\(|host_step_time)"
)
_LONGEST_HEAD = 240
# A line that ends within the time or place that both servers begin their lines with.
_HALF_HEAD = re.compile(
    r"^(?:\(\w+ pid=\d+\) )?(?:INFO|WARNING|ERROR) \d\d-\d\d[ \d:]*(?:\[[\w.]*:?\d*)?$"
    r"|^\((?:API|Eng)\w*(?: p(?:id?)?(?:=\d*)?)?(?:\) ?(?:INFO|WARNING|ERROR)?(?: [\d :-]*)?)?$"
    r"|^\[\d{4}-\d\d-\d[-\d: ]*(?: [A-Z]+\d+)*"
    r"(?:\](?: (?:P|Pr|Pre|Pref|Prefi|Prefil|Prefill|D|De|Dec|Deco|Decod|Decode)?(?: b?a?t?)?)?)?$"
)
# What comes once in a line: where it comes twice, the end of a line is missing.
_ONCE = (
    re.compile(r"Avg prompt throughput:|(?:Prefill|Decode) batch"),
    re.compile(r"host_step_time = |iteration elapsed time"),
)
_STATES = re.compile(r"states = (.*)$")
_STATE_NAMES = ("num_ctx_requests", "num_ctx_tokens", "num_generation_tokens")
_WHOLE_STATES = re.compile(r"\{(?:'\w+': \d+(?:, )?)*\}[^{}]*")
_SGLANG_NAMES = (
    "#new-seq", "#new-token", "#cached-token", "token usage", "#running-req", "#queue-req",
    "input throughput (token/s)", "gen throughput (token/s)", "#retracted-req", "cuda graph",
    "accept len", "#token",
)  # fmt: skip
_VLLM_NAMES = {
    "Avg prompt throughput", "Avg generation throughput", "Running", "Waiting", "Pending",
    "Swapped", "GPU KV cache usage", "CPU KV cache usage", "Prefix cache hit rate", "Preemptions",
    "External prefix cache hit rate", "MM cache hit rate",
}  # fmt: skip
# Statistics end with a number, a share or a bracket; some of SGLang's with a comma.
_LAST = re.compile(r"[\d%.)\]}],?\s*$")
_DATED = re.compile(r"\[?(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)")
_UNDATED = re.compile(r"\b()(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
_TRTLLM = re.compile(r"\[(\d\d)/(\d\d)/(\d{4})-(\d\d):(\d\d):(\d\d)\]")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines of statistics. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    samples = Samples()
    undated = timeless = bad = 0
    others: list[str] = []
    heads: set[str] = set()
    for line in read_text(source, quality).splitlines():
        values = list(_read_line(line))
        bad += _is_damaged(line)
        if not values:
            if _LOOKS.search(line):
                bad += not _is_damaged(line)
            elif _HALF_HEAD.match(line):
                bad += 1
            elif len(line) < _LONGEST_HEAD:
                others.append(line)
            continue
        if begin := _BEGIN.match(line):
            heads.add(begin[0])
        moment = _read_time(line)
        timeless += moment is None
        undated += moment is not None and moment < _YEAR_NS
        for metric, place, value, unit in values:
            samples.add(metric, value, moment or 0, source=place, unit=unit)
    if not samples.has_values():
        raise DamagedError(
            f"cannot read {source.given}",
            why="it is a server's log without a line of its statistics",
            hint="vLLM writes one every ten seconds unless it was started with "
            "--disable-log-stats; the server's /metrics hold the same, saved by\n"
            "  curl http://127.0.0.1:8000/metrics > metrics.txt",
        )
    bad += count_cut(others, heads, least=2)
    quality += [*note_bad_lines(bad, "line of statistics"), *samples.note_gaps()]
    if undated:
        quality.append(Quality("no_year", "info", "the log has no year: its times are of 1970"))
    if timeless:
        quality.append(Quality("no_times", "info", "lines without a time", timeless))
    return Imported(samples.tables(None), Recording("inference server", of_host=True), quality)


_YEAR_NS = 366 * 86_400 * 10**9


def _is_damaged(line: str) -> bool:
    """Whether a line of statistics is two, lacks a number, or ends before its last one."""
    if any(len(mark.findall(line)) > 1 for mark in _ONCE):
        return True
    if (states := _STATES.search(line)) is not None:  # of TensorRT-LLM
        is_whole = all(f"'{name}': " in states[1] for name in _STATE_NAMES)
        return not is_whole or not _WHOLE_STATES.fullmatch(states[1])
    for marks, values, needed in _LINES:
        if not (begin := marks.search(line)):
            continue
        names = (name.search(line) and not value.pattern.search(line) for name, value in
                 zip(map(_name_of, values), values, strict=True))  # fmt: skip
        if any(names) or not _LAST.search(line):
            return True
        if values is _SGLANG:
            told = line[begin.end() :].lstrip(". ").rstrip(", ").split(", ")
            lacks = any(name not in line for name in needed)
            titles = [part.partition(":")[0] for part in told]
            return (
                lacks
                or any(part.count(":") != 1 or ": " not in part for part in told)
                or any(part.startswith("#") and "." in part for part in told)  # a count is whole
                or any(
                    is_nearly(name, known)
                    for name in titles
                    for known in _SGLANG_NAMES
                    if name not in _SGLANG_NAMES
                )
            )
        if _has_odd_part(line):
            return True
        of_all = values[:_OF_ALL]
        return "Avg prompt" in line and not all(one.pattern.search(line) for one in of_all)
    return False


def _has_odd_part(line: str) -> bool:
    """Whether a part of vLLM's statistics is no name and value, or nearly another name."""
    _, mark, rest = line.partition("Avg prompt")
    parts = f"{mark}{rest}".rstrip(", ").split(", ") if mark else []
    names = {part.partition(":")[0] for part in parts} - _VLLM_NAMES
    is_near = any(is_nearly(name, known) for name in names for known in _VLLM_NAMES)
    return is_near or not all(": " in part for part in parts)


@functools.cache
def _name_of(value: _Value) -> re.Pattern[str]:
    """What stands before a value's number: a name, though the number is damaged."""
    return re.compile(value.pattern.pattern.partition(_NUMBER)[0].rstrip())


def _read_line(line: str) -> Iterator[tuple[str, str | None, float, str]]:
    """What a line says: metric, source, value and unit."""
    for marks, values, _ in _LINES:
        if marks.search(line):
            for value in values:
                if found := value.pattern.search(line):
                    yield value.metric, None, float(found[1]) * value.scale, value.unit
            return
    for pattern, take in zip(_ITERATIONS, (_take_vllm, _take_trtllm), strict=True):
        if found := pattern.search(line):
            contexts, tokens, generations, made, ms = take(found)
            phase = _name_phase(contexts, generations)
            yield "iteration_ms", phase, ms, "ms"
            if tokens is not None:
                yield "iteration_prompts", None, contexts, ""
                yield "iteration_prompt_tokens", None, tokens, ""
                yield "iteration_decodes", None, generations, ""
                yield "iteration_decode_tokens", None, made, ""


def _name_phase(contexts: int, generations: int) -> str:
    """As timeline.engine_steps calls it."""
    if contexts:
        return "mixed" if generations else "prefill"
    return "decode" if generations else "empty"


def _take_vllm(found: re.Match[str]) -> tuple[int, int | None, int, int, float]:
    return int(found[1]), int(found[2]), int(found[3]), int(found[4]), float(found[5])


def _take_trtllm(found: re.Match[str]) -> tuple[int, int | None, int, int, float]:
    tokens = int(found["t"]) if found["t"] else None
    made = int(found["g"])  # of its requests it says no more
    return int(found["c"]), tokens, made, made, float(found["ms"])


def _read_time(line: str) -> int | None:
    """When a line was written, ns since the epoch; in 1970 where it has no year."""
    head = line[:160]
    if found := _DATED.search(head) or _UNDATED.search(head):
        year, month, day, *clock = (int(part or 1970) for part in found.groups())
    elif found := _TRTLLM.search(head):
        month, day, year, *clock = map(int, found.groups())
    else:
        return None
    try:
        moment = datetime(year, month, day, *clock, tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    return int(moment.timestamp()) * 10**9
