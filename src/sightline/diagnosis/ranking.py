"""The order of findings: the most important first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sightline.core import registry
from sightline.core.model.declare import Finding, Rule
from sightline.core.registry import OF_SUMS, OF_WINDOW
from sightline.diagnosis.one_offs import ONCE
from sightline.diagnosis.price import share_of

# Nothing gains much below so much of the window: what the run as a whole is bound by comes first.
# XProf's overview calls a program input-bound from 10 % of the step on. Nor does what is uncertain:
# of a recording that lacks what would tell, that its kernels take most of the time is known.
MAJOR_PCT = 10.0
# Start-up that takes so many times what could be gained in what repeats comes first (ours).
_AHEAD = 4
# `Finding.where` holds it for what is said of start-up or the tail.
SEGMENT = "segment"
# Its value for what lies outside the devices' window: costs are shares of the recording there.
OUTSIDE = "outside"
# And this for what a general rule says of one function that samples name: that is a narrow finding.
NARROW = "is_narrow"
# And this for a wait whose gaps are mostly what the host does after it: a finding that names what
# that is stands before it, unless the wait gains so many times as much (ours).
REST = "is_mostly_rest"
_REST_GENERAL = 1.25


def rank_findings(
    priced: Sequence[Finding], rules: Mapping[str, Rule], *, window_ns: int
) -> list[Finding]:
    """What the recording was made for, the largest gain, then remarks, then abstentions.

    Where start-up is most of a recording it leads, unless what repeats could gain a quarter of it;
    so does a kernel that is most of the window, but for who changes options alone.
    What happened once stands behind what each step loses, however much it takes.

    A general finding, such as that launches come late, stands behind the narrower ones, unless it
    gains so many times what they do as its rule says: who ends the narrow one has less of it. So
    does one beside those of an inference server's options.

    Gains of the program's window come before those of profiled kernels, which a kernel profiler
    runs one by one, with other clocks: the two are no measure for each other. Of findings about one
    kernel the cause comes before its symptom (`Rule.explains`): the tree is that of Nsight
    Compute's rules, where stall reasons and occupancy are children of the issue slots, and those of
    the speed of light (2024.1, `get_parent_rules_identifiers` in sections/*.py).
    """
    led = _lead_by_causes(priced, rules)
    behind = _put_general_behind(priced, rules)
    loud = [
        f.gain_ns or 0
        for f in priced
        if f.severity != "info" and not _is_unsure(f) and ONCE not in f.where
    ]
    most = max(loud, default=0)
    changes_options = any(_find_ahead(f) > 1 for f in priced if not f.abstained)
    order = sorted(
        range(len(priced)),
        key=lambda i: (
            (f := priced[i]).abstained,
            not f.is_asked,
            not (f.states_limit and SEGMENT in f.where and (f.cost_ns or 0) >= _AHEAD * most),
            not (
                f.states_limit
                and (
                    100 * most < MAJOR_PCT * max(window_ns, 1)
                    or (
                        not changes_options
                        and (f.cost_ns or 0) >= _choose_factor(f.rule) * max(most, 1)
                    )
                )
            ),
            f.is_remark,
            f.severity == "info",
            share_of(f.rule) != OF_WINDOW,
            ONCE in f.where,
            behind[i],
            -led[i],
            _count_steps_to_cause(f.rule, rules)
            if "kernel" in f.where
            else _is_explained(f, priced, rules),
            -_weigh_gain(f),
            -_take_gain(f, "bytes"),
            -_take_gain(f, "j"),
            -_weigh_cost(f),
            f.rule,
        ),
    )
    return [priced[i] for i in order]


def _weigh_cost(found: Finding) -> int:
    """What a finding without a gain costs of the window, ns: of several the largest leads."""
    is_inside = share_of(found.rule) == OF_WINDOW and SEGMENT not in found.where
    return (found.cost_ns or 0) if is_inside and not found.gain_ns else 0


def _choose_factor(rule: str) -> float:
    """How many times what others gain a limit must cost to stand first.

    What a kernel could gain, sums do not bound: the largest of all leads there.
    """
    return 1 if share_of(rule) == OF_SUMS else _AHEAD


def _take_gain(found: Finding, unit: str) -> float:
    gain = found.gain
    return gain.amount if gain is not None and gain.unit == unit else 0


def _put_general_behind(found: Sequence[Finding], rules: Mapping[str, Rule]) -> list[bool]:
    """Which findings are general ones that a narrower one comes before."""
    times = _list_general(found, rules)
    narrow = [
        f
        for f, general in zip(found, times, strict=True)
        if not (f.abstained or f.is_remark or f.severity == "info" or _is_unsure(f))
        and general == 1
        and share_of(f.rule) == OF_WINDOW
    ]
    apart = {name for name, rule in rules.items() if rule.apart}
    most = max((_weigh_gain(f) for f in narrow if f.rule not in apart), default=0)
    beside = max((_weigh_gain(f) for f in narrow if f.rule in apart), default=0)
    return [
        general > 1 and _weigh_gain(f) < max(general * most, beside)
        for f, general in zip(found, times, strict=True)
    ]


def _find_ahead(found: Finding) -> float:
    """How far a finding of its subject stands ahead of others; 1 where it is none of options."""
    subject = registry.subject_of("rules", found.rule.replace("-", "_"))
    return 1.0 if subject is None else subject.ahead


def _list_general(found: Sequence[Finding], rules: Mapping[str, Rule]) -> list[float]:
    """How many times as much as narrower ones each must gain to stand before them; 1: it is one.

    Beside a finding of a subject whose users change options only, those of others are general.
    """
    ahead = [_find_ahead(f) for f in found]
    most = max(ahead, default=1.0)
    return [
        max(
            rules[f.rule].general if f.rule in rules and NARROW not in f.where else 1.0,
            most if mine < most else 1.0,
            _REST_GENERAL if REST in f.where else 1.0,
        )
        for f, mine in zip(found, ahead, strict=True)
    ]


def _lead_by_causes(found: Sequence[Finding], rules: Mapping[str, Rule]) -> list[int]:
    """Where each finding stands, by a gain in ns: its own, or that of a symptom that it explains.

    A finding explains most of another one about the same kernel where it gains at least half.
    """
    led = [_weigh_gain(f) for f in found]
    by_kernel: dict[tuple[str, str], list[int]] = {}
    for i, f in enumerate(found):
        if not f.abstained and "kernel" in f.where:
            by_kernel.setdefault((f.rule, f.where["kernel"]), []).append(i)
    # From the root of the tree on: what explains the cause of a symptom leads both.
    nearest_last = sorted(
        (i for places in by_kernel.values() for i in places),
        key=lambda i: -_count_steps_to_cause(found[i].rule, rules),
    )
    for i in nearest_last:
        cause = found[i]
        declared = rules.get(cause.rule)
        for symptom in () if declared is None else declared.explains:
            for j in by_kernel.get((symptom, cause.where["kernel"]), ()):
                is_most = 2 * _weigh_gain(cause) >= _weigh_gain(found[j])
                if is_most and cause.severity == found[j].severity:
                    led[i] = max(led[i], led[j])
    return led


def _count_steps_to_cause(rule: str, rules: Mapping[str, Rule]) -> int:
    """How far above the deepest cause a rule stands in the tree of what explains what."""
    below = [r.name for r in rules.values() if rule in r.explains]
    return 1 + max(_count_steps_to_cause(name, rules) for name in below) if below else 0


def _is_explained(symptom: Finding, found: Sequence[Finding], rules: Mapping[str, Rule]) -> bool:
    """Whether another finding explains most of it: it gains at least half."""
    mine = symptom.gain
    return any(
        cause.rule in rules
        and symptom.rule in rules[cause.rule].explains
        and (mine is None or 2 * _take_gain(cause, mine.unit) >= mine.amount)
        for cause in found
        if not cause.abstained
    )


def _is_unsure(found: Finding) -> bool:
    """Of the program's window, and of low confidence."""
    return found.confidence == "low" and share_of(found.rule) == OF_WINDOW


def _weigh_gain(found: Finding) -> int:
    """The gain, as far as it does not rest on the replay alone: at most twice what is seen, ns."""
    gain = found.gain_ns or 0
    return gain if found.direct_ns is None else min(gain, 2 * found.direct_ns)
