"""A trial as data: what `sightline try --json` prints, and what its screen is drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from sightline.errors import RequestError
from sightline.experiment.disturbances import list_disturbances
from sightline.experiment.judge import (
    Aim,
    Pair,
    choose_reach,
    compare_pairs,
    count_more_rounds,
    count_warmup,
    find_fastest,
    is_known,
)
from sightline.experiment.rounds import Round, Trial
from sightline.experiment.variants import Variant

FASTER, SLOWER, SAME, OPEN = "faster", "slower", "same", "open"
METHOD = (
    "differences of logarithms within rounds in random order; anytime-valid t confidence sequence "
    "(Wang and Ramdas 2025), Bonferroni over pairs"
)


def describe_trial(
    variants: Sequence[Variant], trial: Trial, aim: Aim, unit: str, *, more_is_better: bool = False
) -> dict[str, Any]:
    """All of a trial: variants, their differences, what is known of them, and every run.

    Values are ns where `unit` is 'ns', else what programs printed; `_pct` of a difference is how
    much more (+) or less (−) the value of `variant` is than that of `against`, with the interval
    that holds at every look. Raises RequestError where no round was whole.
    """
    if not trial.rounds:
        raise RequestError("interrupted before each variant had run once", why="nothing is known")
    logs = [one.logs for one in trial.rounds]
    if more_is_better:
        logs = [[-value for value in values] for values in logs]
    warm = count_warmup(logs)
    kept = logs[warm:]
    pairs = compare_pairs(kept, aim)
    names = [variant.name for variant in variants]
    sign = -1 if more_is_better else 1
    return {
        "unit": unit,
        "more_is_better": more_is_better,
        "variants": [
            _describe_variant(variant, number, trial.rounds, warm)
            for number, variant in enumerate(variants)
        ],
        "fastest": names[find_fastest(kept)],
        "differences": [_describe_pair(pair, names, aim, sign) for pair in pairs],
        "rounds": len(trial.rounds),
        "warmup_rounds": warm,
        "stopped": trial.stopped,
        "until_pct": None if aim.until is None else 100 * math.expm1(aim.until),
        "confidence_pct": 100 * (1 - aim.alpha),
        "method": METHOD,
        "round_ns": round(
            fmean(sum(run.wall_ns for run in one.outcomes) for one in trial.rounds[warm:])
        ),
        "disturbances": list_disturbances(names, trial.rounds, warm),
        "runs": [
            _describe_run(number, one, variant, names)
            for number, one in enumerate(trial.rounds, 1)
            for variant in one.order
        ],
    }


def _describe_variant(
    variant: Variant, number: int, rounds: Sequence[Round], warm: int
) -> dict[str, Any]:
    runs = [one.outcomes[number] for one in rounds[warm:]]
    logs = [one.logs[number] for one in rounds[warm:]]
    mean = fmean(logs)
    apart = sum((value - mean) ** 2 for value in logs) / max(len(logs) - 1, 1)
    return {
        "name": variant.name,
        "command": variant.line,
        "runs": len(runs),
        "mean": math.exp(mean),  # the geometric one, whose ratios are the differences
        "least": min(run.value for run in runs if run.value is not None),
        "most": max(run.value for run in runs if run.value is not None),
        "spread_pct": 100 * math.expm1(math.sqrt(apart)) if len(logs) > 1 else None,
        "cpu_ns": round(fmean(run.cpu_ns for run in runs)),
        "peak_bytes": max(run.peak_bytes for run in runs),
        "exit_codes": sorted({one.outcomes[number].code for one in rounds}),
    }


def _describe_pair(pair: Pair, names: Sequence[str], aim: Aim, sign: int) -> dict[str, Any]:
    interval = pair.interval
    ends = sorted((sign * interval.low, sign * interval.high))
    is_open = not math.isfinite(interval.reach)
    return {
        "variant": names[pair.after],
        "against": names[pair.before],
        "rounds": interval.rounds,
        "answer": _name_answer(pair, aim),
        "is_known": is_known(interval, aim),
        "change_pct": 100 * math.expm1(sign * interval.mean),
        "low_pct": None if is_open else 100 * math.expm1(ends[0]),
        "high_pct": None if is_open else 100 * math.expm1(min(ends[1], 700.0)),
        "aim_pct": 100 * math.expm1(choose_reach(interval, aim)),
        "rounds_to_know": count_more_rounds(interval, choose_reach(interval, aim), aim, len(names)),
        "rounds_to_tell_apart": count_more_rounds(interval, abs(interval.mean), aim, len(names)),
    }


def _name_answer(pair: Pair, aim: Aim) -> str:
    if pair.interval.excludes_zero:
        return SLOWER if pair.interval.mean > 0 else FASTER
    return SAME if is_known(pair.interval, aim) else OPEN


def _describe_run(number: int, one: Round, variant: int, names: Sequence[str]) -> dict[str, Any]:
    outcome = one.outcomes[variant]
    return {
        "round": number,
        "variant": names[variant],
        "value": outcome.value,
        "wall_ns": outcome.wall_ns,
        "cpu_ns": outcome.cpu_ns,
        "peak_bytes": outcome.peak_bytes,
        "exit_code": outcome.code,
        **one.around[variant],
    }
