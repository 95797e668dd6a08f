"""What inference engines write around their steps: engine, requests and tokens.

One row per form of text. Its named groups are the columns of a step that it states; `phase` is
given where the text names it without numbers, else it follows from these (`engine_steps.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

# What a text may state. Requests and tokens are of the one step; `context` counts the tokens that
# attention looks at, and `slots` how many requests the replayed graph has room for.
NUMBERS = (
    *("prefill_requests", "prefill_tokens", "prefill_context"),
    *("decode_requests", "decode_tokens", "decode_context", "slots"),
)


class Form(NamedTuple):
    """One form of text: the engine that writes it, its pattern, and a phase that it names."""

    engine: str
    pattern: str
    phase: str | None = None


def _count(name: str) -> str:
    return rf"(?P<{name}>\d{{1,12}})"


def _term(key: str, name: str) -> str:
    return rf"(?:.*? {key}={_count(name)})?"


# vLLM: vllm/v1/worker/gpu_worker.py (annotate_profile) since 0.11, detailed_trace_annotation since
# 0.13, execute_new_N_cached_N before. SGLang: sglang/srt/model_executor/step_span_utils.py.
# TensorRT-LLM: _torch/pyexecutor/py_executor.py (NVTX), cpp/.../trtGptModelInflightBatching.cpp.
# ATOM (AMD's engine) and early SGLang: decode[bs=USED/SLOTS ...].
FORMS = (
    Form(
        "vllm",
        rf"^execute_context_{_count('prefill_requests')}\({_count('prefill_tokens')}\)"
        rf"_generation_{_count('decode_requests')}\({_count('decode_tokens')}\)",
    ),
    Form(
        "vllm",
        rf"^execute_\d+_context_{_count('prefill_requests')}"
        rf"\(sq{_count('prefill_tokens')}sk{_count('prefill_context')}sqsq\d+sqsk\d+\)"
        rf"_generation_{_count('decode_requests')}"
        rf"\(sq{_count('decode_tokens')}sk{_count('decode_context')}sqsq\d+sqsk\d+\)",
    ),
    Form("vllm", rf"^execute_new_{_count('prefill_requests')}_cached_{_count('decode_requests')}"),
    Form(
        "sglang",
        rf"^step\[MIXED bs=\d+ c={_count('prefill_requests')} g={_count('decode_requests')}"
        + _term("c_sq", "prefill_tokens")
        + _term("c_sk", "prefill_context")
        + _term("g_sq", "decode_tokens")
        + _term("g_sk", "decode_context"),
    ),
    Form("sglang", r"^step\[MIXED ", "mixed"),
    Form(
        "sglang",
        rf"^step\[(?:EXTEND|SPLIT_PREFILL|DLLM_EXTEND) bs={_count('prefill_requests')}"
        rf"(?: toks={_count('prefill_tokens')})?" + _term("c_sk", "prefill_context"),
        "prefill",
    ),
    Form(
        "sglang",
        rf"^step\[DECODE bs={_count('decode_requests')}"
        + _term("g_sq", "decode_tokens")
        + _term("g_sk", "decode_context"),
    ),
    Form("sglang", rf"^step\[TARGET_VERIFY bs={_count('decode_requests')}", "verify"),
    Form("sglang", rf"^step\[DRAFT\w* bs={_count('decode_requests')}", "draft"),
    Form("sglang", r"^step\[(?:IDLE|PREBUILT)", "empty"),
    Form(
        "trtllm",
        rf"^(?:\[Executor\] )?_forward_step:? ?\d*:? {_count('prefill_requests')} ctx reqs, "
        rf"(?:{_count('prefill_tokens')} ctx tokens, )?{_count('decode_requests')} gen reqs",
    ),
    Form(
        "trtllm",
        rf"^executeStep: {_count('prefill_requests')} ctx reqs "
        rf"{_count('decode_requests')} gen reqs",
    ),
    Form(
        "atom",
        rf"^prefill\[bs={_count('prefill_requests')}(?: tok={_count('prefill_tokens')})?",
        "prefill",
    ),
    Form("atom", rf"^decode\[bs={_count('decode_requests')}(?:/{_count('slots')})?"),
)

# What an engine's loop calls once a step, where Python's functions were recorded and no text was.
FUNCTIONS = (
    Form("vllm", r"vllm/v1/worker/(?:gpu|tpu|cpu)_model_runner\.py\(\d+\): execute_model$"),
    Form("sglang", r"sglang/srt/managers/scheduler\.py\(\d+\): run_batch$"),
    Form("trtllm", r"pyexecutor/py_executor\.py\(\d+\): _forward_step$"),
)
# Any of these texts, for who only asks whether there is one.
ANY_TEXT = (
    r"^execute_(?:context|new|\d+_context)_|^step\[[A-Z_]+[ \]]|^(?:prefill|decode)\[bs="
    r"|^(?:\[Executor\] )?_forward_step\b.* ctx reqs, |^executeStep: "
)


def parse_annotations(names: pl.Series, forms: tuple[Form, ...] = FORMS) -> pl.DataFrame:
    """What each different text states: name, engine, phase and `NUMBERS`; others have no row.

    The first form that fits counts. A number that no 64 bits hold is null.
    """
    left = names.unique(maintain_order=True).drop_nulls().cast(pl.String)
    found = [_read_form(left.clear(), forms[0])]
    for form in forms:
        fits = left.str.contains(form.pattern)
        if fits.any():
            found.append(_read_form(left.filter(fits), form))
            left = left.filter(~fits)
    return pl.concat(found)


def _read_form(names: pl.Series, form: Form) -> pl.DataFrame:
    groups = names.rename("name").to_frame()
    stated = [n for n in NUMBERS if f"?P<{n}>" in form.pattern]
    if stated:
        fields = pl.col("name").str.extract_groups(form.pattern).struct
        groups = groups.with_columns(
            fields.field(n).cast(pl.Int64, strict=False).alias(n) for n in stated
        )
    rest = [pl.lit(None, pl.Int64).alias(n) for n in NUMBERS if n not in stated]
    phase = pl.lit(form.phase, pl.String).alias("phase")
    return groups.with_columns(*rest, phase, engine=pl.lit(form.engine)).select(
        "name", "engine", "phase", *NUMBERS
    )
