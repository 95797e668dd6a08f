"""Is a claim about recordings true: yes, no, or cannot be said, with the figures.

sightline verify claim.json
sightline verify - < claim.json         from standard input
sightline verify claims.json --json     a file may hold a list of claims

{"claim": "step time fell by 12 % with pinned memory",
 "before": "a.json", "after": "b.json", "metric": "step_ns", "change_pct": -12}

{"recording": "a.json", "kernel": "gemm", "column": "window_pct", "is": 41.5}

Exit code: 0 yes, 1 no, 2 cannot be said. All that claims may hold:
docs/agents.md
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.doors.cli._output import add_target, encode_json, wants_json
from sightline.doors.cli._shared import GATE_FAILED

if TYPE_CHECKING:
    from sightline.compare.claim_rulings import Openers
    from sightline.compare.sample import Sample
    from sightline.core.model.run import Run

HELP = "is a claim about recordings true: yes, no, or cannot be said"
_UNDECIDED = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("claims", metavar="CLAIM", help="a JSON file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    from sightline.compare.claim_rulings import NO, OPEN, verify_claim
    from sightline.compare.claims import read_claims
    from sightline.views.comparison.claims import render_answers

    openers = _make_openers()
    claims = read_claims(_read(args.claims), args.claims)
    answers = [verify_claim(claim, openers) for claim in claims]
    print(encode_json(answers).decode().rstrip() if wants_json(args) else render_answers(answers))
    words = {answer["answer"] for answer in answers}
    return GATE_FAILED if NO in words else _UNDECIDED if OPEN in words else 0


def _read(name: str) -> bytes:
    import sys
    from pathlib import Path

    from sightline.compare.claims import MOST_BYTES
    from sightline.errors import InputError

    try:
        if name == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read {name}", why=(error.strerror or "").lower()) from error


def _make_openers() -> Openers:
    import functools
    import sys

    from sightline.answer.sql import answer_query
    from sightline.compare.claim_rulings import Openers
    from sightline.compare.sides import open_side
    from sightline.doors.cli._progress import Progress
    from sightline.session import open_session

    # Claims of one file are mostly about the same recordings.
    @functools.lru_cache(maxsize=4)
    def side(paths: tuple[str, ...], window: str | None) -> list[Sample]:
        with Progress(sys.stderr) as progress:
            return open_side(paths, window=window, progress=progress)

    @functools.lru_cache(maxsize=4)
    def run(paths: tuple[str, ...], window: str | None) -> Run:
        with Progress(sys.stderr) as progress:
            return open_session(paths, window=window, progress=progress)

    return Openers(side, run, answer_query)
