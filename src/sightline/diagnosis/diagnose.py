"""The main job: every rule is asked of a run, and one list of findings is made of the answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sightline.core import registry
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.api_names import drop_versions
from sightline.diagnosis.build import abstain
from sightline.diagnosis.check_figures import add_figures
from sightline.diagnosis.kernel_advice import advise_kernels
from sightline.diagnosis.next_recording import name_checks
from sightline.diagnosis.one_offs import mark_one_offs
from sightline.diagnosis.price import price_findings
from sightline.diagnosis.ranking import rank_findings
from sightline.diagnosis.symptoms import absorb_symptoms
from sightline.diagnosis.vendor_words import translate_findings
from sightline.diagnosis.without_recorder import show_recorded
from sightline.errors import MissingDataError
from sightline.replay.graph import list_nodes
from sightline.replay.unrecorded import Unrecorded, remove_recorder
from sightline.timeline.host_parts import find_longest_window
from sightline.timeline.segments import select_repeating
from sightline.timeline.sum_facts import measure_sums

if TYPE_CHECKING:
    import polars as pl

    from sightline.diagnosis.custom.forms import OwnRule

_AT_ONCE = 4  # rules: each takes memory of its own


class Diagnosis(NamedTuple):
    """What the rules say of a run: priced, and not in order yet.

    `recorded` is the run that they were asked about, `bare` the same without its recorder, where
    that differs; then what findings cost is of that one.
    """

    found: list[Finding]
    recorded: Run
    bare: Unrecorded | None
    rules: dict[str, Rule]

    @property
    def run(self) -> Run:
        """The run that costs and gains are of."""
        return self.recorded if self.bare is None else self.bare.run


def diagnose_run(run: Run, own: Sequence[OwnRule] = (), *, vendor: bool = False) -> list[Finding]:
    """All rules' findings: merged, the largest gain first, notes and abstentions last.

    They are about what repeats, where much of the recording happens once (timeline/segments.py),
    and about the program without its recorder, where that is known to have taken much of the host's
    time; the times in them are those of the recording.

    `own` are rules that a person wrote (`sightline.diagnosis.custom.forms.load`); `vendor` asks the
    rules of `nsys analyze`, too.
    """
    whole = run  # which a check's command is about
    asked = ask_rules(run, own, lambda rule: vendor or not rule.vendor)
    run, rules = asked.run, asked.rules
    once = mark_one_offs(run, asked.found, rules)
    window_ns = find_longest_window(run) or _sum_profiled(run) or measure_sums(run)
    ranked = add_figures(whole, rank_findings(once, rules, window_ns=window_ns))
    return name_checks(asked.recorded, advise_kernels(run, show_moments(asked, ranked)))


def ask_rules(
    run: Run,
    own: Sequence[OwnRule],
    is_asked: Callable[[Rule], bool],
    *,
    gate: pl.DataFrame | None = None,
    replays: bool = True,
    is_excerpt: bool = False,
) -> Diagnosis:
    """What those rules find that are asked, and a person's own ones, with what it costs.

    `gate` is the answer of `quality_gate` where it is another run's. Without `replays` nothing is
    begun for rules that may find nothing to replay, and the recorder's cost stays in. An excerpt
    has no start-up: all of it is asked.
    """
    # Polars leaves a core idle where a query is small, so rules are asked side by side. What two
    # of them ask of the run is computed once (model.run); where all would wait for it, it is begun
    # first, before the rules are even loaded.
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _AT_ONCE)) as pool:
        # A rule that needs them meets the same error, if any.
        if replays:
            pool.submit(list_nodes, run)
        loading = pool.submit(load_rules_for, run)
        run = run if is_excerpt else select_repeating(run)
        bare = remove_recorder(run) if replays else None
        recorded, run = run, run if bare is None else bare.run
        if replays:
            pool.submit(list_nodes, run)
            pool.submit(run.ask, "idle_rules")
        asked = [m for m in loading.result() if is_asked(m.RULE)]
        found = [f for answers in pool.map(partial(_check, run), asked) for f in answers]
    found = drop_versions(translate_findings(run, found))
    if own:
        from sightline.diagnosis.custom.check import check

        found += check(run, own)
    rules = {module.RULE.name: module.RULE for module in asked}
    priced = price_findings(
        found,
        rules,
        recorded.ask("quality_gate") if gate is None else gate,
        operations=run.rows("device_ops"),
        window_ns=find_longest_window(run),
    )
    return Diagnosis(absorb_symptoms(priced, rules), recorded, bare, rules)


def show_moments(asked: Diagnosis, found: Sequence[Finding]) -> list[Finding]:
    """The findings, with the moments of their evidence as they were recorded."""
    bare = asked.bare
    return list(found) if bare is None else [show_recorded(f, asked.rules, bare) for f in found]


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
