"""Each rule has a flag for each engine, and each flag a source."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from sightline.core import registry
from sightline.subjects.serving.flags import _read_flags, find_engine, name_flag
from support.traces import host, opened

ENGINES = ("vllm", "sglang", "trtllm", "any")


NO_FAULT = "no-requests"  # nothing of the server would change it


def test_every_rule_has_a_flag_of_every_engine() -> None:
    rules = [
        registry.load("rules", name).RULE.name
        for name in registry.list_names("rules")
        if (subject := registry.subject_of("rules", name)) and subject.name == "serving"
        if registry.load("rules", name).RULE.name != NO_FAULT
    ]
    assert set(_read_flags()) == set(product(rules, ENGINES))
    assert all(flag.fix and flag.source for flag in _read_flags().values())


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_each_option_that_is_named_is_on_the_engines_own_list(engine: str) -> None:
    """vllm_options.tsv is what `vllm serve --help=all` of 0.32.0 lists; SGLang's is published."""
    lines = (Path(__file__).parent / f"{engine}_options.tsv").read_text().splitlines()
    known = {line for line in lines if not line.startswith("#")}
    named = {
        option
        for (_, of), flag in _read_flags().items()
        if of == engine
        for option in re.findall(r"--[a-z][a-z0-9-]+", flag.fix)
    }
    assert len(named) > 15
    assert named <= known


@pytest.mark.parametrize(
    ("text", "engine", "word"),
    [
        ("execute_context_0(0)_generation_1(1)", "vllm", "--async-scheduling"),
        ("step[DECODE bs=8]", "sglang", "--disable-overlap-schedule"),
        ("[Executor] _forward_step 1: 0 ctx reqs, 4 gen reqs", "trtllm", "disable_overlap"),
        ("decode[bs=4/8 tok=4]", "any", "asynchronous"),
    ],
)
def test_the_fix_is_in_the_words_of_the_engine(
    text: str, engine: str, word: str, tmp_path: Path
) -> None:
    run = opened(tmp_path, [host("user_annotation", text, 0, 9)])
    assert find_engine(run) == engine
    assert word in name_flag(run, "scheduler-bubble").fix
