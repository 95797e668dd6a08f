"""The page of one job: what it used, what is wrong, its metrics on all scopes, radar, roofline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sightline.cluster.access import Visitor
from sightline.cluster.notes import PRIVATE, SHARED, Trace
from sightline.core.job_metrics import GPU_MEMORY, GPU_PIPES, METRICS
from sightline.core.units import format_bytes, format_several
from sightline.subjects.jobs.job import GPU, NODE, Job, Use
from sightline.subjects.jobs.judging import judge_job
from sightline.subjects.jobs.phases import list_phases
from sightline.subjects.jobs.verdict import Verdict, measure_energy, measure_hours, price_problem
from sightline.views.cluster.charts import HUES, draw_lines, draw_radar, draw_roofline
from sightline.views.cluster.frame import hide_form, link, show, write_figures, write_table
from sightline.views.jobs.figures import title_of
from sightline.views.jobs.words import write_energy, write_hours, write_length, write_time

_LEAST, _LARGEST = 1e-99, 1e99  # what a logarithmic axis has: values of an archive may be anything
_LINES = 16  # places with a line each; of more the mean with the least and the largest
# What is drawn first; others follow by name.
_ORDER = (
    "acc_utilization", "acc_sm_active", "acc_mem_used", "acc_power", "cpu_load", "cpu_user",
    "flops_any", "mem_bw", "mem_used", "ib_recv", "ib_xmit", "eth_recv", "eth_xmit", "file_read",
    "file_write",
)  # fmt: skip


def write_job(
    job: Job,
    key: str,
    most: Mapping[str, float],
    tags: Sequence[tuple[str, str]],
    traces: Sequence[Trace],
    visitor: Visitor,
    form: str,
    *,
    may_trace: bool,
) -> list[str]:
    """The parts of the page. `most` is what jobs of the cluster reach, where no peak is known."""
    verdicts = list(judge_job(job))
    return [
        _write_head(job),
        _write_problems(job, verdicts),
        _write_tags(key, tags, visitor, form),
        _write_traces(job, key, traces, form, may_trace=may_trace),
        '<h2>Footprint</h2><div class="plots">'
        f"{_write_radar(job, most)}{_write_roofline(job)}{_write_gpu_roofline(job)}</div>",
        "<h2>Over time</h2>",
        _write_phases(job),
        _write_courses(job),
        _write_unjudged(verdicts),
    ]


def _write_phases(job: Job) -> str:
    phases = list_phases(job)
    if not phases:
        return ""
    metric = METRICS[phases[0].metric]
    parts = [
        f"{write_length(round(p.start_s * 1e9))} to {write_length(round(p.end_s * 1e9))}: "
        f"{p.level / metric.per:,.0f} {metric.unit}".strip()
        for p in phases
    ]
    return f"<p>Phases of its work ({show(metric.name)}): {show(', '.join(parts))}.</p>"


def _write_head(job: Job) -> str:
    row = job.row
    gpus, cores = measure_hours(job)
    limit = f" of {write_length(row['limit_ns'])}" if row["limit_ns"] else ""
    size = [
        format_several(row[key], noun)
        for key, noun in (("nodes", "node"), ("cpus", "core"), ("gpus", "GPU"))
        if row[key]
    ]
    given = [
        f"{write_hours(hours)} {noun} hours"
        for hours, noun in ((gpus, "GPU"), (cores, "core"))
        if hours
    ]
    memory = row["memory_bytes"]
    return write_figures(
        (
            ("owner", link("", row["user"], {"user": row["user"]}) if row["user"] else None),
            ("project", show(row["project"]) if row["project"] else None),
            ("name", show(row["name"]) if row["name"] else None),
            ("cluster", show(" · ".join(filter(None, (row["cluster"], row["partition"]))))),
            ("state", show(row["state"])),
            ("start, UTC", show(write_time(row["start_ns"]))),
            ("length", show(write_length(row["duration_ns"]) + limit)),
            ("size", show(", ".join(size)) if size else None),
            ("memory asked for", show(format_bytes(memory)) if memory else None),
            ("given", show(", ".join(given)) if given else None),
            ("energy", show(write_energy(measure_energy(job))) or None),
            ("program", show(row["application"]) if row["application"] else None),
            ("nodes", show(_list_hosts(job)) if job.nodes else None),
        )
    )


def _list_hosts(job: Job) -> str:
    names = [str(node["host"]) for node in job.nodes]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _write_problems(job: Job, verdicts: list[Verdict]) -> str:
    found = sorted((v for v in verdicts if v.holds), key=lambda v: -v.lost)
    if not found:
        asked = sum(v.holds is False for v in verdicts)
        text = (
            f"Nothing is wrong with it: {format_several(asked, 'question')} asked."
            if asked
            else "It was not judged: it was too short, or nothing is known of its use."
        )
        return f'<p class="lead">{text}</p>'
    cards = []
    for n, verdict in enumerate(found):
        gpus, cores = price_problem(job, verdict)
        noun, hours = ("GPU", gpus) if gpus else ("core", cores)
        energy = write_energy(verdict.energy_j)
        cost = f"{write_hours(hours)} {noun} hours ({100 * verdict.lost:.0f} %)" if hours else ""
        cost += f", {energy}" if energy and cost else ""
        evidence = "".join(f'<p class="soft">{show(line)}</p>' for line in verdict.evidence)
        fix = f"<p><b>Next</b> {show(verdict.fix)}</p>" if verdict.fix else ""
        cards.append(
            f'<li class="card{" first" if n == 0 else ""}"><header><h3>'
            f"{show(title_of(verdict.rule))}</h3>"
            f'<span class="cost">{show(cost) if cost else ""}</span></header>'
            f"<p>{show(verdict.text)}</p>{evidence}{fix}</li>"
        )
    return f'<h2>What is wrong</h2><ul class="cards">{"".join(cards)}</ul>'


def _write_unjudged(verdicts: list[Verdict]) -> str:
    by: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.holds is None:
            by.setdefault(verdict.text, []).append(title_of(verdict.rule))
    if not by:
        return ""
    lines = "".join(f"<li>{show(', '.join(r))}: {show(why)}</li>" for why, r in by.items())
    return f'<h2>Not judged</h2><ul class="note">{lines}</ul>'


def _write_tags(key: str, tags: Sequence[tuple[str, str]], visitor: Visitor, form: str) -> str:
    shown = "".join(
        f'<span class="tag">{link("", tag, {"tag": tag})}'
        f"{' · for all' if scope == SHARED else ''}</span>"
        for tag, scope in tags
    )
    if not form:
        return f"<p>{shown}</p>" if shown else ""
    scopes = "".join(
        f'<option value="{scope}">{label}</option>'
        for scope, label in ((PRIVATE, "for me"), (SHARED, "for all"))
        if scope == PRIVATE or visitor.sees_all
    )
    return (
        f'<p>{shown}<form class="inline" method="post" action="/tag">{hide_form(form)}'
        f'<input type="hidden" name="id" value="{show(key)}">'
        '<input name="tag" maxlength="40" required aria-label="tag" placeholder="tag">'
        f'<select name="scope" aria-label="who sees it">{scopes}</select>'
        '<button>Add</button><button name="remove" value="1">Remove</button></form></p>'
    )


def _write_traces(
    job: Job, key: str, traces: Sequence[Trace], form: str, *, may_trace: bool
) -> str:
    rows = [
        (
            show(write_time(trace.at * 10**9)),
            show(trace.by),
            show(trace.why),
            link("trace", "the report", {"n": trace.id})
            if trace.state == "done"
            else show(trace.state),
            show(trace.note),
        )
        for trace in traces
    ]
    table = (
        write_table("recordings", ("when, UTC", "by", "why", "recording", "note"), rows)
        if rows
        else ""
    )
    button = ""
    if may_trace and form and job.row["state"] == "running":
        button = (
            f'<form class="inline" method="post" action="/record">{hide_form(form)}'
            f'<input type="hidden" name="id" value="{show(key)}">'
            '<button class="primary">Record it for 2 s</button></form>'
            '<p class="note">Its processes are recorded by the daemon of their nodes, and the '
            "report says line by line where their time goes.</p>"
        )
    if not rows and not button:
        return ""
    return f"<h2>Recordings</h2>{table}{button}"


def _find_peak(job: Job, metric: str, most: Mapping[str, float]) -> float | None:
    """What the metric reaches on such a node as stated, else what jobs of this cluster reach."""
    return job.limits.get(metric, {}).get("peak") or most.get(metric)


def _write_radar(job: Job, most: Mapping[str, float]) -> str:
    axes: list[tuple[str, float | None]] = []
    for name, metric in (("memory bandwidth", "mem_bw"), ("FLOP/s", "flops_any")):
        axes.append((name, _share(_mean(job, metric), _find_peak(job, metric, most))))
    used = job.find_use("mem_used")
    peak = used.peak if used is not None else None
    asked = job.row["memory_bytes"]
    nodes = job.count("nodes") or 1
    limit = asked / nodes if asked else _find_peak(job, "mem_used", most)
    axes.append(("memory used", _share(peak, limit)))
    true = _mean(job, "acc_sm_active", GPU)
    busy = true if true is not None else _mean(job, "acc_utilization", GPU)
    name = "GPU true use" if true is not None or busy is None else "GPU utilization"
    axes.append((name, None if busy is None else busy / 100))
    axes.append(("network", _share(_sum_network(job), _find_network(job, most))))
    stated = [m for m in ("mem_bw", "flops_any", "ib_recv") if job.limits.get(m, {}).get("peak")]
    note = (
        "As a share of a node's peak, from cluster.json."
        if len(stated) == 3
        else "As a share of a node's peak in cluster.json, or else of the highest value of any "
        "job on this cluster."
    )
    if not job.count("gpus"):
        axes = [axis for axis in axes if not axis[0].startswith("GPU")]
    return f"<figure><figcaption><b>Radar</b> {note}</figcaption>{draw_radar(axes)}</figure>"


def _mean(job: Job, metric: str, scope: str = NODE) -> float | None:
    use = job.find_use(metric, scope)
    return None if use is None or math.isnan(use.mean) else use.mean


def _sum_network(job: Job) -> float | None:
    parts = [_mean(job, metric) for metric in ("ib_recv", "ib_xmit", "eth_recv", "eth_xmit")]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _find_network(job: Job, most: Mapping[str, float]) -> float | None:
    names = ("ib_recv", "ib_xmit", "eth_recv", "eth_xmit")
    known = [
        peak
        for name in names
        if _mean(job, name) is not None and (peak := _find_peak(job, name, most))
    ]
    return sum(known) if known else None


def _share(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else value / whole


def _write_roofline(job: Job) -> str:
    flops, traffic = job.find_use("flops_any"), job.find_use("mem_bw")
    if flops is None or traffic is None:
        return ""
    points = list_roofline_points(flops, traffic)
    peaks = [job.limits.get(name, {}).get("peak") for name in ("flops_any", "mem_bw")]
    plot = draw_roofline(points, peaks[0], peaks[1])
    if not plot:
        return ""
    known = "" if all(peaks) else " Ceilings are drawn where cluster.json has peaks of both."
    return (
        "<figure><figcaption><b>Roofline</b> FLOP/s of a node over FLOP per byte of its memory "
        f"traffic, a point each sample.{known}</figcaption>{plot}</figure>"
    )


def _write_gpu_roofline(job: Job) -> str:
    points = list_gpu_points(job)
    plot = draw_roofline(points, 1.0, 1.0, told=_GPU_TOLD)
    if not plot:
        return ""
    return (
        "<figure><figcaption><b>Roofline of its GPUs</b> The busiest pipe, of its peak, over that "
        "divided by the memory's share of its own: left of 1 memory is the ceiling, a point each "
        f"sample.</figcaption>{plot}</figure>"
    )


_GPU_TOLD = "{count} points: the busiest pipe's share of its peak, up to {most}"


def list_gpu_points(job: Job) -> list[tuple[float, float]]:
    """Of each GPU and sample the busiest pipe's share over the memory's, and the pipe's; 0 to 1.

    Both are shares of the GPU's own peaks, so no model needs to be known: the ridge is at 1.
    """
    memory = job.find_use(GPU_MEMORY, GPU)
    pipes = [use for name in GPU_PIPES if (use := job.find_use(name, GPU)) is not None]
    if memory is None or not pipes:
        return []
    rows = {place: n for n, place in enumerate(memory.places)}
    best: dict[tuple[int, int], float] = {}
    traffic = _list_values(memory)
    for use in pipes:
        if use.values is not None and memory.values is not None and use.step_s != memory.step_s:
            continue
        for place, values in zip(use.places, _list_values(use), strict=True):
            row = rows.get(place)
            if row is not None and len(values) == len(traffic[row]):
                for at, value in enumerate(values):
                    best[row, at] = max(best.get((row, at), 0.0), value)
    pairs = [(share / 100, traffic[row][at] / 100) for (row, at), share in best.items()]
    found = [(f / b, f) for f, b in pairs if 0 < f <= 1 and 0 < b <= 1]
    return found[:: max(1, -(-len(found) // 2_000))]


def _list_values(use: Use) -> list[list[float]]:
    """The samples of each place; its mean where there is nothing else. NaN counts as none."""
    values = use.avg[:, None] if use.values is None else use.values
    return [[0.0 if v != v else v for v in row] for row in values.tolist()]


def list_roofline_points(flops: Use, traffic: Use) -> list[tuple[float, float]]:
    """Of each node and sample FLOP per byte and FLOP/s, where both are above 0; 2,000 at most."""
    if flops.values is None or traffic.values is None or flops.step_s != traffic.step_s:
        pairs = [(flops.mean, traffic.mean)]
    else:
        rows = {place: n for n, place in enumerate(traffic.places)}
        pairs = [
            (f, b)
            for n, place in enumerate(flops.places)
            if place in rows
            for f, b in zip(
                flops.values[n].tolist(), traffic.values[rows[place]].tolist(), strict=False
            )
        ]
    found = [(f / b, f) for f, b in pairs if f > 0 and b > 0]
    found = [p for p in found if all(_LEAST < one < _LARGEST for one in p)]
    return found[:: max(1, -(-len(found) // 2_000))]


def _write_courses(job: Job) -> str:
    plots = "".join(_list_plots(job))
    if not plots:
        return '<p class="soft">No metric of it is known over time.</p>'
    return f'<div class="plots">{plots}</div>'


def _list_plots(job: Job) -> Iterator[str]:
    place = {name: n for n, name in enumerate(_ORDER)}
    for metric, scope in sorted(job.uses, key=lambda k: (place.get(k[0], 99), k[0], k[1])):
        use = job.uses[metric, scope]
        if use.values is not None:
            yield plot_use(metric, scope, use, job.limits.get(metric, {}))


def plot_use(
    metric: str, scope: str, use: Use, limits: Mapping[str, float | None] | None = None
) -> str:
    """A metric of one scope over time, with its legend."""
    if use.values is None:
        return ""
    unit, per = name_unit(metric)
    values = use.values / per
    seconds = use.step_s * values.shape[1]
    known = [(k, v / per) for k, v in (limits or {}).items() if v and scope == NODE]
    noun = "GPU" if scope == GPU else scope
    title = f"{metric}, {format_several(len(use.places), noun)}"
    legend = ""
    if len(use.places) <= _LINES:
        lines = [(_name(p), values[n]) for n, p in enumerate(use.places)]
        plot = draw_lines(title, lines, seconds, unit, known)
        if len(lines) > 1:
            legend = "".join(_write_key(n, name) for n, (name, _) in enumerate(lines[:HUES]))
            legend += f" and {len(lines) - HUES} more" if len(lines) > HUES else ""
    else:
        empty = np.isnan(values).all(axis=0)
        filled = np.where(empty, 0.0, values)
        low, mean, high = (
            np.where(empty, np.nan, fold(filled, axis=0))
            for fold in (np.nanmin, np.nanmean, np.nanmax)
        )
        plot = draw_lines(title, [("mean", mean)], seconds, unit, known, (low, high))
        legend = "mean, least and largest"
    if not plot:
        return ""
    of = f"of {format_several(len(use.places), noun)}" if len(use.places) > 1 else f"of a {noun}"
    about = f"{show(unit)} {show(of)} · mean {show(_write(use.mean / per))}"
    return (
        f"<figure><figcaption><b>{show(metric)}</b> {about}<br>{legend}</figcaption>{plot}</figure>"
    )


def _write_key(n: int, name: str) -> str:
    return (
        f'<span class="key"><svg viewBox="0 0 14 10" aria-hidden="true"><rect class="hue-{n}" '
        f'width="14" height="10"/></svg>{show(name)}</span>'
    )


def _name(place: tuple[str | None, str | None]) -> str:
    host, element = place
    return f"{host or ''} {element}".strip() if element is not None else (host or "all")


def name_unit(metric: str) -> tuple[str, float]:
    """What a plot counts in, and how much of our unit that is."""
    known = METRICS.get(metric)
    if known is None:
        return "", 1.0
    if known.unit not in ("bytes", "bytes/s", "flop/s"):
        return known.unit, 1.0
    letter = {1e9: "G", 1e6: "M"}.get(known.per, "")
    word = {"bytes": "B", "bytes/s": "B/s", "flop/s": "FLOP/s"}[known.unit]
    return letter + word, known.per if letter else 1.0


def _write(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def describe_comparison(jobs: Sequence[Job], keys: Sequence[str]) -> list[str]:
    """Jobs beside each other: figures, and each metric's mean over its places in one plot."""
    names = [f"job {job.row['job_id']}" for job in jobs]
    rows: list[tuple[str, ...]] = []
    for label, cell in (
        ("owner", lambda j: show(j.row["user"])),
        ("state", lambda j: show(j.row["state"])),
        ("start, UTC", lambda j: show(write_time(j.row["start_ns"]))),
        ("length", lambda j: show(write_length(j.row["duration_ns"]))),
        ("nodes", lambda j: show(j.row["nodes"])),
        ("GPUs", lambda j: show(j.row["gpus"])),
        ("what is wrong", lambda j: show(_list_titles(j))),
    ):
        rows.append((label, *(cell(job) for job in jobs)))  # type: ignore[no-untyped-call]
    shared = [key for key in jobs[0].uses if all(key in job.uses for job in jobs[1:])]
    plots = []
    for metric, scope in sorted(shared):
        unit, per = name_unit(metric)
        means = [job.uses[metric, scope].mean / per for job in jobs]
        rows.append((show(f"{metric} ({unit or scope})"), *(show(_write(m)) for m in means)))
        lines, seconds = [], 0.0
        for job in jobs:
            use = job.uses[metric, scope]
            if use.values is not None:
                seconds = max(seconds, use.step_s * use.values.shape[1])
        for name, job in zip(names, jobs, strict=True):
            use = job.uses[metric, scope]
            if use.values is not None and seconds:
                lines.append((name, _stretch(use, seconds) / per))
        plot = draw_lines(metric, lines, seconds, unit) if lines else ""
        if plot:
            key = "".join(_write_key(n, name) for n, (name, _) in enumerate(lines))
            plots.append(
                f"<figure><figcaption><b>{show(metric)}</b> {show(unit)} mean of "
                f"{show('GPU' if scope == GPU else scope)}s<br>{key}</figcaption>{plot}</figure>"
            )
    head = ("", *(link("job", name, {"id": key}) for name, key in zip(names, keys, strict=True)))
    return [write_table("the jobs", head, rows), f'<div class="plots">{"".join(plots)}</div>']


def _list_titles(job: Job) -> str:
    found = sorted((v for v in judge_job(job) if v.holds), key=lambda v: -v.lost)
    return "; ".join(title_of(v.rule) for v in found) or "nothing"


def _stretch(use: Use, seconds: float) -> np.ndarray:
    """The mean over places on 600 points of a span, NaN behind its end."""
    assert use.values is not None
    empty = np.isnan(use.values).all(axis=0)
    mean = np.where(empty, np.nan, np.nanmean(np.where(empty, 0.0, use.values), axis=0))
    at = (np.arange(600) * seconds / 600 / use.step_s).astype(int)
    inside = np.minimum(at, len(mean) - 1)
    return np.where(at < len(mean), mean[inside], np.nan)
