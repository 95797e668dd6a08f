"""A plan of MIG instances for a terminal: each GPU with its slots, what is left, what else is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from sightline.core.text import clean_text
from sightline.core.units import format_several
from sightline.mig.models import Model
from sightline.mig.placements import fill_up, list_maximal
from sightline.mig.planner import Alternative, CutGpu, Plan
from sightline.mig.sharing import MANNERS, Advice

_INNER = 63  # characters between the outer bars: slots of 7 or 15 with bars between them
_MOST_DRAWN = 6
_MOST_LAYOUTS = 40


def draw_plan(plan: Plan, available: int) -> Iterator[str]:
    """The headline, a picture of each kind of cut GPU, and what found no place."""
    wanted = sum(want.count for want in plan.wants)
    left = sum(plan.unserved)
    names = ", ".join(dict.fromkeys(gpu.model.name for gpu in plan.gpus)) or "no GPU"
    served = format_several(wanted - left, "workload")
    yield f"{served} on {plan.used} of {format_several(available, 'GPU')} ({names})" + (
        f"; {left} found no place" if left else ""
    )
    first = 0
    for gpu in plan.gpus[:_MOST_DRAWN]:
        yield ""
        yield from _draw_gpu(gpu, first, plan)
        first += gpu.count
    if len(plan.gpus) > _MOST_DRAWN:
        yield ""
        yield (
            f"{format_several(len(plan.gpus) - _MOST_DRAWN, 'more kind')} of cuts: --json lists "
            "them"
        )
    for want, count in zip(plan.wants, plan.unserved, strict=True):
        if count:
            yield ""
            need = "" if want.describe() == want.name else f" ({want.describe()})"
            yield f"No place for {count} of {want.count} x {clean_text(want.name)}{need}"
    for note in dict.fromkeys(want.note for want in plan.wants if want.note):
        yield f"Note: {note}"
    if any(not _is_proven(gpu) for gpu in plan.gpus):
        yield ""
        yield from textwrap.wrap(
            "Memory or SMs of some of these profiles are estimated from below: no real table of "
            "this GPU is known. Compare with nvidia-smi mig -lgip.",
            80,
        )


def _is_proven(gpu: CutGpu) -> bool:
    return all(gpu.model.sizes[one.key].is_proven for one in gpu.instances)


def _draw_gpu(gpu: CutGpu, first: int, plan: Plan) -> Iterator[str]:
    last = first + gpu.count - 1
    head = f"GPU {first}" if gpu.count == 1 else f"GPUs {first} to {last}, each"
    if gpu.whole_for is not None:
        yield f"{head}: {gpu.model.name}, not cut, for {clean_text(plan.wants[gpu.whole_for].name)}"
        return
    yield f"{head}: {gpu.model.name}"
    family = gpu.model.family
    width = (_INNER + 1) // family.memory - 1
    cells: list[tuple[int, str, str]] = []  # slots, name, want
    slot = 0
    for one in gpu.instances:
        if one.start > slot:
            cells.append((one.start - slot, "", ""))
        size = family.find_shape(one.key).memory
        name = clean_text(plan.wants[one.want].name)
        profile = gpu.model.sizes[one.key].name
        cells.append((size, profile, "" if name == profile else name))
        slot = one.start + size
    if slot < family.memory:
        cells.append((family.memory - slot, "", ""))
    widths = [slots * (width + 1) - 1 for slots, _, _ in cells]
    yield "  ┌" + "┬".join("─" * w for w in widths) + "┐"
    for row in (1, 2):
        texts = [
            str(cell[row]) if cell[1] else "·" * w for cell, w in zip(cells, widths, strict=True)
        ]
        yield "  │" + "│".join(f"{t[:w]:<{w}}" for t, w in zip(texts, widths, strict=True)) + "│"
    yield "  └" + "┴".join("─" * w for w in widths) + "┘"
    waste = gpu.measure_waste()
    more = fill_up(family, gpu.layout)
    lost_compute = waste.compute - sum(family.find_shape(item.key).compute for item in more)
    lost_memory = waste.memory - sum(family.find_shape(item.key).memory for item in more)
    parts = [f"  Free: {_count_free(gpu.model, [item.key for item in more])}"] if more else []
    lost = []
    if lost_compute:
        lost.append(f"{lost_compute} of {format_several(family.compute, 'compute slice')}")
    if lost_memory:
        lost.append(f"{lost_memory} of {format_several(family.memory, 'memory slot')}")
    sms = _count_lost_sms(gpu, [item.key for item in more])
    if sms:
        lost.append(f"{sms} of {gpu.model.sms} SMs")
    parts.append(f"  In no instance: {', '.join(lost) or 'nothing'}")
    yield from parts


def _count_lost_sms(gpu: CutGpu, more: Sequence[str]) -> int | None:
    """SMs that neither an instance nor what still fits has; None where they are not known."""
    waste = gpu.measure_waste()
    sizes = [gpu.model.sizes[key].sms for key in more]
    if waste.sms is None or any(size is None for size in sizes):
        return None
    return waste.sms - sum(size or 0 for size in sizes)


def _count_free(model: Model, keys: Sequence[str]) -> str:
    counts = {key: keys.count(key) for key in dict.fromkeys(keys)}
    return ", ".join(f"{count} x {model.sizes[key].name}" for key, count in counts.items())


def draw_alternatives(model: Model, plan: Plan, others: Sequence[Alternative]) -> Iterator[str]:
    """What one cut for all GPUs would take, beside the plan."""
    yield f"{'One cut for all GPUs instead':<40}{'GPUs':>6}{'not served':>12}"
    rows = [("this plan", plan), *((_count_free_mix(model, one.mix), one.plan) for one in others)]
    for name, one in rows:
        yield f"  {name[:38]:<38}{one.used:>6}{sum(one.unserved):>12}"


def _count_free_mix(model: Model, mix: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{count} x {model.sizes[key].name}" for key, count in mix)


def draw_advice(advice: Advice) -> Iterator[str]:
    """Which way to share suits, what the others would take, what each is worth."""
    yield from textwrap.wrap(f"Suits: {advice.manner}: {advice.why}.", 80)
    yield f"  {'':<13}{'GPUs':>6}"
    counts = {"MIG": advice.mig, "MPS": advice.mps, "time-slicing": advice.time_slicing}
    for manner in MANNERS:
        gpus = counts.get(manner.name, "")
        count = "cannot" if gpus is None else str(gpus)
        words = f"isolates {manner.isolation}; {manner.limit}"
        yield from textwrap.wrap(
            words, 80, initial_indent=f"  {manner.name:<13}{count:>6}  ", subsequent_indent=" " * 23
        )


def list_profiles(models: Sequence[Model]) -> Iterator[str]:
    """Each GPU with its profiles: how often each fits, SMs and memory; ~ is estimated."""
    for model in models:
        yield f"{model.name:<18}PCI {', '.join(model.pci_ids)}; driver {model.driver}"
        yield f"  {model.source}"
        for shape in model.family.shapes:
            size = model.sizes.get(shape.key)
            if size is None:
                continue
            sms = "?" if size.sms is None else f"{'' if size.has_real_sms else '~'}{size.sms}"
            about = "" if size.has_real_memory else "~"
            memory = f"{about}{size.memory_bytes / (1 << 30):.1f} GiB"
            starts = ",".join(map(str, shape.starts))
            yield f"  {size.name:<12}{shape.most:>2} x{sms:>6} SMs{memory:>11}   at {starts}"
        yield ""


def list_cuts(model: Model) -> Iterator[str]:
    """All maximal placements of a model, media extensions apart."""
    layouts = list_maximal(model.family, frozenset({"1g+me"}))
    for layout in layouts[:_MOST_LAYOUTS]:
        yield "  " + "  ".join(f"{item.start}:{model.sizes[item.key].name}" for item in layout)
    if len(layouts) > _MOST_LAYOUTS:
        yield f"  and {len(layouts) - _MOST_LAYOUTS} more: --json lists all"
