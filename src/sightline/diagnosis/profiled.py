"""How a rule about profiled kernels is declared, and its findings by kernel name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from sightline.core.algebra.kernel_libraries import find_library
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.diagnosis.algorithms import LLAMA, OF_LLAMA
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.kernel_bounds import Case, HotLine
from sightline.diagnosis.kernel_cases import load_amd_cases, load_cases, require_sm_count
from sightline.diagnosis.kernel_estimates import Hit
from sightline.roofline.amd_kernels import AmdKernel
from sightline.roofline.chart import shorten_name

# Below it registers, shared memory or block size keep waves away (Nsight Compute 2024.1, rule
# TheoreticalOccupancy).
THEORETICAL_PCT = 80.0
# A finding that costs less of all profiled time than this is a note. Ours: below it, noise of
# the measurement (a few per cent between runs with locked clocks) is as large as the gain.
NOTE_PCT = 5.0
# And less than this is nothing that anybody would act on (ours: a thousandth).
NOTHING_PCT = 0.1

# What the caller of a library can change about its kernels: cuBLAS, "Tensor Core Usage"; PyTorch,
# "Performance Tuning Guide"; CUB's pages on its device-wide algorithms.
_FROM_OUTSIDE = {
    "PyTorch": "this is PyTorch's code: fuse it with what comes before and after it "
    "(torch.compile), or call it with other shapes, memory formats or types",
    "CUB": "this is CUB's code: one call over more items, another of its algorithms, or a newer "
    "CUB",
    "rocPRIM": "this is rocPRIM's code: one call over more items, another of its algorithms, or a "
    "newer rocPRIM",
    "cuFFT": "this is cuFFT's code: many transforms in one plan (cufftPlanMany), sizes of small "
    "prime factors, or a narrower type where the accuracy allows it",
    "cuSPARSE": "this is cuSPARSE's code: another format or algorithm of the call (CSR, blocked "
    "ELL; its *_ALG_ values), or several right-hand sides at once",
    "Thrust": "this is Thrust's code: one call over more items, or fuse it with its neighbors "
    "(transform iterators)",
    LLAMA: OF_LLAMA,
}
_BY_THE_CALL = (
    "this is {0}'s code: choose another of its kernels by the shapes, layouts and types of the "
    "call (TF32, BF16 or FP16 where the accuracy allows it, sizes in multiples of 8, batches), or "
    "a newer {0}"
)

Found = Hit | Iterable[Hit] | None


def judge_kernels(
    rule: Rule,
    find: Callable[[Case], Found],
    *,
    metrics: Iterable[str],
    more: Iterable[str] = (),
    opcodes: Collection[str] = (),
    record: str,
    fix: Callable[[Hit], str] | str,
    verify: str,
    summary: Callable[[Hit], str] | str = "{}.",
    about_limit: bool = False,
    needs_sm_count: bool = False,
    is_callers: bool = False,
) -> Callable[[Run], Iterator[Finding]]:
    """The `check` of a rule that looks at NVIDIA's profiled kernels one by one.

    `find` gives a kernel's hits. It is asked where a kernel has one of `metrics`, which `record`
    collects, and gets `more` where they are there. The line that executes most of `opcodes` is
    quoted, else the one with most samples. `summary` is a sentence with a place for the
    hit's evidence. What `is_callers` is changed by whoever launches a library's kernel: the shape,
    the types. A check makes one finding per kernel name and subject (`make_findings`).
    """
    asked, beside = tuple(metrics), tuple(more)

    def check(run: Run) -> Iterator[Finding]:
        """One finding per kernel name and subject."""
        every = load_cases(run, asked, record, beside, opcodes)
        if needs_sm_count:
            require_sm_count(every)
        hits = (hit for case in every for hit in _list_hits(find(case)))
        yield from make_findings(
            rule,
            hits,
            every,
            summary,
            fix,
            verify,
            about_limit=about_limit,
            is_callers=is_callers or about_limit,
        )

    return check


def judge_amd_kernels(
    rule: Rule,
    find: Callable[[Case, AmdKernel], Found],
    *,
    figures: Iterable[str] = (),
    fix: Callable[[Hit], str] | str,
    verify: str,
    summary: Callable[[Hit], str] | str = "{}.",
    about_limit: bool = False,
) -> Callable[[Run], Iterator[Finding]]:
    """As `judge_kernels`, of kernels that AMD's profiler measured and that have these figures."""
    asked = tuple(figures)

    def check(run: Run) -> Iterator[Finding]:
        """One finding per kernel name and subject."""
        every = load_amd_cases(run, *asked)
        hits = (hit for case, kernel in every for hit in _list_hits(find(case, kernel)))
        cases = [case for case, _ in every]
        yield from make_findings(rule, hits, cases, summary, fix, verify, about_limit=about_limit)

    return check


def _list_hits(found: Found) -> Iterable[Hit]:
    if isinstance(found, Hit):
        return (found,)
    return found or ()


def make_findings(
    rule: Rule,
    hits: Iterable[Hit],
    every: list[Case],
    summary: Callable[[Hit], str] | str,
    fix: Callable[[Hit], str] | str,
    verify: str,
    *,
    about_limit: bool = False,
    is_callers: bool = False,
) -> Iterator[Finding]:
    """One finding per kernel name and subject: what it costs over all its executions.

    What is in a library's code is a note, with the advice that its caller can follow.

    Of a kernel that a unit binds (60 % of its peak) that warps wait is not said at all. Of a kernel
    at its limit all is a note but what takes work off the unit that is there, and what
    is `about_limit`. That leads, if it gains nothing and kernels that the same unit binds take most
    of the profiled time: it says what the run is bound by.
    """
    total = sum(c.time_ns for c in every) or 1.0
    groups: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits:
        if hit.is_symptom and not hit.case.waits:
            continue  # a unit binds the kernel: that warps wait for it is no news
        row = hit.case.facts.row
        groups.setdefault((row["name"] or row["kind"], hit.subject), []).append(hit)
    leading = _find_leading(groups, total) if about_limit else {}
    for (name, subject), group in groups.items():
        worst = max(group, key=lambda h: h.case.time_ns * h.gain_pct)
        gain = sum(h.case.time_ns * h.gain_pct / 100 for h in group)
        pct = 100 * gain / total
        took = sum(h.case.time_ns for h in group)
        if 0 < pct < NOTHING_PCT or 0 < 100 * took < NOTHING_PCT * total:
            continue
        scope = "global" if worst.weight_pct is None else "local"
        sentence = summary.format(worst.evidence) if isinstance(summary, str) else summary(worst)
        sentence = sentence[:1].upper() + sentence[1:]
        line = worst.case.hot_line
        library = None if is_callers else find_library(name)
        advised = fix if isinstance(fix, str) else fix(worst)
        yield build_finding(
            rule,
            sentence,
            Evidence(
                (
                    *([] if worst.evidence[1:] in sentence else [worst.evidence]),
                    *([worst.describe_estimate()] if worst.gain_pct or not about_limit else []),
                    _count_launches(len(group), len(every)) + f", {format_ns(took)}",
                    *([] if line is None else [_describe_hot_line(line)]),
                    *leading.get((name, subject), ()),
                ),
                where={
                    "kernel": name,
                    "kernel_ids": [h.case.kernel_id for h in group],
                    "estimate": scope,
                    "estimate_pct": worst.gain_pct,
                    **({"subject": subject} if subject else {}),
                },
            ),
            Advice(
                fix=advised if library is None else advise_library(library),
                verify=verify,
            ),
            price=(make_price(round(gain), "ns", pct), make_price(round(gain), "ns")),
            title=f"{rule.title}: {_clip_name(shorten_name(name))}",
            severity="warning"
            if pct >= NOTE_PCT and (about_limit or worst.may_gain) and library is None
            else "info",
            confidence="medium" if scope == "global" else "low",
            states_limit=not gain and (name, subject) in leading,
        )


def advise_library(library: str) -> str:
    """What who calls a library can do about one of its kernels."""
    return _FROM_OUTSIDE.get(library, _BY_THE_CALL.format(library))


def _find_leading(
    groups: dict[tuple[str, str], list[Hit]], total: float
) -> dict[tuple[str, str], tuple[str, ...]]:
    """The longest kernel of each unit that binds most of the time, and what is said of the others.

    `total` is the profiled time in ns.
    """
    times = {key: sum(h.case.time_ns for h in group) for key, group in groups.items()}
    leading: dict[tuple[str, str], tuple[str, ...]] = {}
    for subject in dict.fromkeys(subject for _, subject in groups):
        mine = [key for key in groups if key[1] == subject]
        together = sum(times[key] for key in mine)
        if 2 * together <= total:
            continue
        longest = max(mine, key=lambda key: times[key])
        others = len(mine) - 1
        leading[longest] = ()
        if others:
            leading[longest] = (
                f"the same holds for {format_several(others, 'other kernel')}: "
                f"{format_pct(100 * together / total)} of the profiled time together",
            )
    return leading


def _describe_hot_line(line: HotLine) -> str:
    return f"hottest line: {line.quote()} ({format_pct(line.share_pct)} {line.of})"


def _count_launches(count: int, every: int) -> str:
    if every == 1:
        return "the profiled launch"
    return (
        f"{format_count(count)} of {format_several(every, 'profiled launch', 'profiled launches')}"
    )


def _clip_name(name: str, length: int = 36) -> str:
    """A name that leaves room for the title on one line."""
    return name if len(name) <= length else name[: length - 1] + "…"
