"""Why a run is slow: all of it is asked, or excerpts that stand for it. The one place that decides.

Of a run of up to MOST_ASKED_WHOLE rows every rule is asked of all of it. Of a longer one whose
steps repeat, rules about what is in each step (`Subject.in_steps`) are asked of excerpts
(sampling/choose.py), and what they find is scaled to the run's exact totals (sampling/merge.py);
rules about what happens once or grows (`Rule.over_time`), and all others, are asked of the whole.
Rules know nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sightline.core import registry
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.diagnose import Diagnosis, ask_rules, diagnose_run, show_moments
from sightline.diagnosis.kernel_advice import advise_kernels
from sightline.diagnosis.next_recording import name_checks
from sightline.diagnosis.one_offs import mark_one_offs
from sightline.diagnosis.ranking import rank_findings
from sightline.opening.excerpt import open_excerpt
from sightline.replay.gains import sum_windows
from sightline.replay.unrecorded import measure_length, measure_step
from sightline.timeline.host_parts import find_longest_window
from sightline.timeline.segments import select_repeating

if TYPE_CHECKING:
    import polars as pl

    from sightline.diagnosis.custom.forms import OwnRule
    from sightline.diagnosis.sampling.choose import Excerpt, Sample
    from sightline.diagnosis.sampling.merge import Asked

# Rows of device_ops and host_ops up to which every rule is asked of the whole run, as before there
# were excerpts. From a million on excerpts are the cheaper ones (benchmarks/README.md, "Causes from
# excerpts"); what they say is an estimate, so that it begins where the whole takes over 20 s.
MOST_ASKED_WHOLE = 4_000_000
_AT_ONCE = 2  # excerpts: each asks its rules side by side as well


class Causes(NamedTuple):
    """The findings, in order, and of which steps they are: no row where they are of all.

    `sample` has steps, asked, and of each excerpt its kind, first and last step's name, start_ns,
    end_ns and weight, how often it stands in the run. `unrecorded` is as in `Answer`; None where
    the whole run was asked.
    """

    findings: list[Finding]
    sample: dict[str, Any]
    unrecorded: dict[str, Any] | None = None


def find_causes(
    run: Run,
    own: Sequence[OwnRule] = (),
    *,
    vendor: bool = False,
    whole: bool = False,
    most_whole: int | None = None,
) -> Causes:
    """Why a run is slow, as `diagnose_run` says it; of a long run from excerpts.

    `whole` asks all of it, however long; so does a window that was chosen. `most_whole` is another
    size than MOST_ASKED_WHOLE, for tests: then also few steps are divided.
    """
    sample = None
    if not whole and _is_long(run, MOST_ASKED_WHOLE if most_whole is None else most_whole):
        # What chooses loads NumPy, which no first view of a small recording waits for.
        from sightline.diagnosis.sampling.choose import choose_excerpts

        repeating = select_repeating(run)
        sample = choose_excerpts(repeating, is_small=most_whole is not None)
    if sample is None:
        return Causes(diagnose_run(run, own, vendor=vendor), {})
    return _ask_excerpts(repeating, sample, own, vendor=vendor)


def _is_long(run: Run, most: int) -> bool:
    """Whether a run is longer than what is asked as a whole, and has a timeline to divide."""
    timeline = run.window is None and run.rows("device_ops") and not run.rows("profiled_kernels")
    return bool(timeline) and run.rows("device_ops") + run.rows("host_ops") > most


def _ask_excerpts(run: Run, sample: Sample, own: Sequence[OwnRule], *, vendor: bool) -> Causes:
    def is_whole(rule: Rule) -> bool:
        return _is_of_whole(rule) and (vendor or not rule.vendor)

    from sightline.diagnosis.sampling.merge import merge_findings

    gate = run.ask("quality_gate")
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _AT_ONCE)) as pool:
        parts = list(pool.map(partial(_ask_excerpt, run, gate=gate), sample.excerpts))
    all_of_it = ask_rules(run, own, is_whole, gate=gate, replays=False)
    merged = merge_findings(sample, [asked for asked, _ in parts])
    once = mark_one_offs(run, all_of_it.found, all_of_it.rules)
    rules = {**all_of_it.rules, **parts[0][1].rules}
    ranked = rank_findings([*merged, *once], rules, window_ns=find_longest_window(run))
    found = name_checks(run, advise_kernels(run, ranked))
    return Causes(found, _describe(sample), _scale_recorder(run, sample, [d for _, d in parts]))


def _is_of_whole(rule: Rule) -> bool:
    subject = registry.subject_of("rules", rule.name.replace("-", "_"))
    return rule.over_time or rule.vendor or subject is None or not subject.in_steps


def _ask_excerpt(run: Run, excerpt: Excerpt, *, gate: pl.DataFrame) -> tuple[Asked, Diagnosis]:
    """The findings of one excerpt, with the moments that were recorded, and its windows."""
    from sightline.diagnosis.sampling.merge import Asked

    part = open_excerpt(run, excerpt.span, excerpt.span[1] - excerpt.span[0])
    asked = ask_rules(part, (), lambda rule: not _is_of_whole(rule), gate=gate, is_excerpt=True)
    once = show_moments(asked, mark_one_offs(asked.run, asked.found, asked.rules))
    shown = show_moments(asked, asked.found)
    return Asked(shown, once, sum_windows(asked.run), find_longest_window(asked.run)), asked


def _describe(sample: Sample) -> dict[str, Any]:
    return {
        "steps": sample.steps,
        "asked": sample.asked,
        "excerpts": [
            {
                "kind": e.kind,
                "first_step": e.names[0],
                "last_step": e.names[1],
                "start_ns": e.span[0],
                "end_ns": e.span[1],
                "weight": round(e.weight, 3),
            }
            for e in sample.excerpts
        ],
    }


def _scale_recorder(run: Run, sample: Sample, parts: Sequence[Diagnosis]) -> dict[str, Any]:
    """A step as recorded, exactly, and without the recorder as the excerpts have it."""
    if all(part.bare is None for part in parts):
        return {}
    made = dict.fromkeys(("recorded_ns", "ns", "low_ns", "high_ns"), 0.0)
    for excerpt, part in zip(sample.excerpts, parts, strict=True):
        length = measure_length(part.recorded) if part.bare is None else 0
        for name in made:
            mine = length if part.bare is None else getattr(part.bare, name)
            made[name] += excerpt.weight * mine
    recorded = measure_length(run)
    times = recorded / made["recorded_ns"]
    rest = {name: round(made[name] * times) for name in ("ns", "low_ns", "high_ns")}
    return {"recorded_ns": recorded, **rest, "is_step": measure_step(run) > 0}
