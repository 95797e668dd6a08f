"""Advice in the words of the program at hand: its framework's options."""

from __future__ import annotations

from sightline.core.model.run import Run
from sightline.timeline.programs import recognise_program


def choose_fix(run: Run, usual: str, **others: str) -> str:
    """The advice for the run's framework (`pytorch`, `vllm`, `native` …), or the usual one."""
    return others.get(recognise_program(run).framework, usual)
