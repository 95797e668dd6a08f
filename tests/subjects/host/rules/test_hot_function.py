"""hot-function: samples alone, and one function that holds most of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from support.rules import answers, assert_silent
from support.traces import op, opened

RULE = "hot-function"


def folded(folder: Path, *lines: str) -> sightline.Run:
    """The run of stacks as `perf script | stackcollapse-perf.pl` writes them."""
    path = folder / "program.folded"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return sightline.open(str(path))


def test_a_function_of_c(tmp_path: Path) -> None:
    (found,) = answers(folded(tmp_path, "main;step 60", "main;norm 30", "main 10"), RULE)
    assert found.summary == "step itself takes 60.0 % of the sampled CPU time."
    assert found.evidence == ("60 samples in the function itself",)
    assert "perf annotate step" in (found.fix or "")
    assert (found.severity, found.gain_ns, found.states_limit) == ("info", None, True)


@pytest.mark.parametrize(
    "lines",
    [
        ("main;step 45", "main;norm 40", "main 15"),  # none has half
        ("main;step 12", "main;norm 3"),  # too few samples
        ("main;[kernel.kallsyms] 90", "main 10"),  # no symbol
    ],
)
def test_nothing_holds_the_cpu(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert_silent(folded(tmp_path, *lines), RULE)


def test_a_timeline_says_more(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [op("aten::mm", 0, 1_000)]), RULE)


def test_the_line_of_a_python_function(tmp_path: Path) -> None:
    """py-spy's speedscope: 3.0 s at line 6, 0.1 s at line 5, 0.9 s elsewhere."""
    frames = [
        {"name": "<module>", "file": "np1.py", "line": 6},
        {"name": "<module>", "file": "np1.py", "line": 5},
        {"name": "load", "file": "io.py", "line": 2},
    ]
    profile = {
        "type": "sampled", "name": "Thread 1", "unit": "seconds", "startValue": 0, "endValue": 4,
        "samples": [[0], [1], [2]], "weights": [3.0, 0.1, 0.9],
    }  # fmt: skip
    path = tmp_path / "np1.speedscope.json"
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": frames}, "profiles": [profile], "exporter": "py-spy@0.4.3",
    }  # fmt: skip
    path.write_text(json.dumps(document), encoding="utf-8")
    (found,) = answers(sightline.open(str(path)), RULE)
    assert "<module> itself takes 77.5 % of the sampled CPU time" in found.summary
    assert found.summary.endswith("96.8 % of that at np1.py:6.")
    assert "whole arrays" in (found.fix or "")
