"""The main job: every rule is asked of a run, and one list of findings is made of the answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from sightline.core import registry
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.algorithms import name_algorithms
from sightline.diagnosis.api_names import drop_versions
from sightline.diagnosis.build import abstain
from sightline.diagnosis.next_recording import name_checks
from sightline.diagnosis.one_offs import mark_one_offs
from sightline.diagnosis.price import price_findings
from sightline.diagnosis.ranking import rank_findings
from sightline.diagnosis.symptoms import absorb_symptoms
from sightline.diagnosis.vendor_words import translate_findings
from sightline.diagnosis.without_recorder import show_recorded
from sightline.errors import MissingDataError
from sightline.replay.graph import list_nodes
from sightline.replay.unrecorded import remove_recorder
from sightline.timeline.host_parts import find_longest_window
from sightline.timeline.segments import select_repeating
from sightline.timeline.sum_facts import measure_sums

if TYPE_CHECKING:
    from sightline.diagnosis.custom.forms import OwnRule

_AT_ONCE = 4  # rules: each takes memory of its own


def diagnose_run(run: Run, own: Sequence[OwnRule] = (), *, vendor: bool = False) -> list[Finding]:
    """All rules' findings: merged, the largest gain first, notes and abstentions last.

    They are about what repeats, where much of the recording happens once (timeline/segments.py),
    and about the program without its recorder, where that is known to have taken much of the host's
    time; the times in them are those of the recording.

    `own` are rules that a person wrote (`sightline.diagnosis.custom.forms.load`); `vendor` asks the
    rules of `nsys analyze`, too.
    """
    # Polars leaves a core idle where a query is small, so rules are asked side by side. What two
    # of them ask of the run is computed once (model.run); where all would wait for it, it is begun
    # first, before the rules are even loaded.
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _AT_ONCE)) as pool:
        # A rule that needs them meets the same error, if any.
        pool.submit(list_nodes, run)
        loading = pool.submit(load_rules_for, run)
        run = select_repeating(run)
        bare = remove_recorder(run)
        recorded, run = run, run if bare is None else bare.run
        pool.submit(list_nodes, run)
        pool.submit(run.ask, "idle_rules")
        asked = [m for m in loading.result() if vendor or not m.RULE.vendor]
        found = [f for answers in pool.map(partial(_check, run), asked) for f in answers]
    found = drop_versions(translate_findings(run, found))
    if own:
        from sightline.diagnosis.custom.check import check

        found += check(run, own)
    rules = {module.RULE.name: module.RULE for module in asked}
    window_ns = find_longest_window(run)
    priced = price_findings(
        found,
        rules,
        recorded.ask("quality_gate"),
        operations=run.rows("device_ops"),
        window_ns=window_ns,
    )
    once = mark_one_offs(run, absorb_symptoms(priced, rules), rules)
    ranked = rank_findings(
        once, rules, window_ns=window_ns or _sum_profiled(run) or measure_sums(run)
    )
    shown = ranked if bare is None else [show_recorded(f, rules, bare) for f in ranked]
    return name_checks(recorded, name_algorithms(run, shown))


def load_rules_for(run: Run) -> list[Any]:
    """The modules of the rules whose subjects have something to say of the run."""
    subjects = {name: registry.subject_of("rules", name) for name in registry.list_names("rules")}
    return [
        registry.load("rules", name)
        for name, subject in subjects.items()
        if subject is None or not subject.needs or any(map(run.rows, subject.needs))
    ]


def _sum_profiled(run: Run) -> int:
    """The time of all profiled kernels, ns: what their findings are shares of."""
    return int(run.table("profiled_kernels").get_column("duration_ns").sum() or 0)


def _check(run: Run, module: Any) -> list[Finding]:
    """One rule's findings; where the recording lacks what it needs, that it was not judged."""
    rule: Rule = module.RULE
    try:
        return list(module.check(run))
    except MissingDataError as missing:
        return [abstain(rule, missing.sentence())]
