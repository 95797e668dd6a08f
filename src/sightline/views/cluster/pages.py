"""The pages by name: each asks the store as the person who looks, and draws what it answers."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import polars as pl

from sightline.cluster.access import Visitor
from sightline.cluster.documents import is_key
from sightline.cluster.notes import Notes
from sightline.cluster.search import SORTS, Row, Search, Wanted
from sightline.cluster.store import Store
from sightline.cluster.verdicts import FOOTPRINT
from sightline.core.units import format_several
from sightline.errors import RequestError
from sightline.subjects.jobs.job import Job
from sightline.views.cluster.frame import (
    link,
    show,
    write_figures,
    write_meter,
    write_page,
    write_table,
)
from sightline.views.cluster.job_page import describe_comparison, name_unit, write_job
from sightline.views.jobs.figures import title_of
from sightline.views.jobs.words import (
    write_energy,
    write_hours,
    write_length,
    write_share,
    write_time,
)

Query = Mapping[str, str]
_PAGE = 50
_DAY_NS = 86_400 * 10**9
_SPANS = {"1": "a day", "7": "a week", "30": "30 days", "365": "a year", "": "all time"}
_FRESH_NS = 600 * 10**9  # what is "now" on a node: cc-collector sends each 10 s to 1 min
_MOST_NODES, _MOST_COMPARED = 500, 4
_LOW_PCT = 25.0  # Job Defense Shield, low-gpu-efficiency: eff_thres_pct 25
# Columns of the list that can be sorted by, and their names.
_HEAD = (
    ("job", "job"), ("user", "user"), ("", "state"), ("start", "start, UTC"), ("length", "length"),
    ("nodes", "nodes"), ("", "GPUs"), ("gpu", "GPU %"), ("cpu", "CPU %"), ("memory", "memory %"),
    ("wasted", "wasted GPU h"), ("wasted-cores", "core h"), ("problems", "what is wrong"),
)  # fmt: skip


class Pages:
    """All pages of a store."""

    def __init__(
        self, store: Store, search: Search, notes: Notes | None, *, may_trace: bool = False
    ) -> None:
        self._store, self._search, self._notes = store, search, notes
        self._may_trace = may_trace

    def show_jobs(self, visitor: Visitor, query: Query, form: str = "") -> str:
        """The list, as it is filtered and sorted."""
        wanted = self.read_wanted(visitor, query)
        sort, way = query.get("sort") or "start", query.get("way") or "down"
        page = read_number(query, "page", 0, 10**6)
        rows, count = self._search.list_jobs(
            wanted, sort, ascending=way == "up", most=_PAGE, offset=page * _PAGE
        )
        total = self._search.sum_all(wanted)
        parts = [
            self._write_filter(visitor, query),
            _write_total(total),
            _write_list(rows, query, sort, way),
            _write_paging(query, page, count),
        ]
        return write_page("Jobs", parts, visitor, "", form)

    def show_job(self, visitor: Visitor, query: Query, form: str = "") -> str:
        """One job. Raises RequestError where there is none that they may see."""
        key, job = self.find_job(visitor, query.get("id", ""))
        tags = self._notes.list_tags(visitor, key) if self._notes else []
        traces = self._notes.list_traces(key) if self._notes else []
        most = self._search.find_most(str(job.row["cluster"]), list(FOOTPRINT))
        parts = write_job(job, key, most, tags, traces, visitor, form, may_trace=self._may_trace)
        parts.insert(1, f"<p>{link('compare', 'Compare with another job', {'a': key})}</p>")
        return write_page(f"Job {job.row['job_id']}", parts, visitor, "job", form)

    def show_waste(self, visitor: Visitor, query: Query, form: str = "") -> str:
        """What wastes most: by rule, by owner, and the worst jobs."""
        wanted = self.read_wanted(visitor, {"days": "30", **query})
        rules = self._search.sum_rules(wanted)
        rows = [
            (
                link("", title_of(r["rule"]), {"rule": r["rule"], "days": query.get("days", "30")}),
                f"{r['jobs']:,}",
                write_hours(r["gpu_hours"]),
                write_hours(r["core_hours"]),
            )
            for r in rules
        ]
        worst, _ = self._search.list_jobs(wanted, "wasted", most=20)
        parts = [
            self._write_span("waste", query.get("days", "30")),
            _write_total(self._search.sum_all(wanted)),
            "<h2>What is wrong</h2>",
            write_table(
                "problems",
                ("costliest problem of a job", "jobs", "GPU hours", "core hours"),
                rows,
                (1, 2, 3),
            ),
            "<h2>Who wastes most</h2>",
            self._write_owners(wanted, "user", 15),
            "<h2>The costliest jobs</h2>",
            _write_list(worst, {}, "", ""),
            '<p class="note">A job\'s waste is its costliest problem: a lower bound, since two '
            "problems may take different hours.</p>",
        ]  # fmt: skip
        return write_page("Waste", parts, visitor, "waste", form)

    def show_owners(self, visitor: Visitor, query: Query, form: str = "") -> str:
        """Users and projects with what they were given and wasted."""
        wanted = self.read_wanted(visitor, {"days": "30", **query})
        parts = [self._write_span("owners", query.get("days", "30"))]
        for owner in ("user", "project"):
            parts += [f"<h2>{owner.capitalize()}s</h2>", self._write_owners(wanted, owner, 100)]
        return write_page("Users and projects", parts, visitor, "owners", form)

    def show_nodes(self, visitor: Visitor, query: Query, form: str = "") -> str:
        """Node by metric: the mean of the last ten minutes, shaded by the column's largest."""
        if not visitor.sees_all:
            raise RequestError("nodes are shown to support and admin")
        clusters = sorted({known for known in self._list_clusters() if known})
        cluster = query.get("cluster") or (clusters[0] if clusters else "")
        now = time.time_ns()
        hosts = self._store.list_hosts(cluster)
        frame = self._store.read_samples(cluster, hosts[:_MOST_NODES], now - _FRESH_NS, now)
        parts = [
            "<p>" + " · ".join(link("nodes", c, {"cluster": c}) for c in clusters) + "</p>"
            if len(clusters) > 1
            else "",
            _write_heat(frame),
        ]
        if len(hosts) > _MOST_NODES:
            parts.append(f'<p class="note">The first {_MOST_NODES} of {len(hosts)} nodes.</p>')
        return write_page(
            f"Nodes of {cluster}" if cluster else "Nodes", parts, visitor, "nodes", form
        )

    def show_comparison(self, visitor: Visitor, query: Query, form: str = "") -> str:
        """Up to four jobs beside each other."""
        keys = [query[name] for name in ("a", "b", "c", "d") if query.get(name)]
        found = [self.find_job(visitor, key) for key in keys[:_MOST_COMPARED]]
        fields = "".join(
            f'<label class="field">Job {n + 1}<input name="{name}" '
            f'value="{show(query.get(name, "")) if query.get(name) else ""}" '
            'placeholder="cluster/number/start"></label>'
            for n, name in enumerate(("a", "b", "c", "d"))
        )
        parts = [
            f'<form class="filter" action="/compare">{fields}<button>Compare</button></form>'
            '<p class="note">A job is named as in the address of its page.</p>'
        ]
        if len(found) > 1:
            parts += describe_comparison([job for _, job in found], [key for key, _ in found])
        return write_page("Compare jobs", parts, visitor, "compare", form)

    # -- what pages share ---------------------------------------------------------------------

    def find_job(self, visitor: Visitor, key: str) -> tuple[str, Job]:
        """A job that a person may see; of others nobody says that there is one."""
        job = self._store.find_job(key) if is_key(key) else None
        if job is None or not visitor.may_see(job.row):
            raise RequestError("there is no such job")
        return key, job

    def read_wanted(self, visitor: Visitor, query: Query) -> Wanted:
        """What a query asks for, confined to what the person may see."""
        exact = tuple(
            (name, query[name])
            for name in ("user", "project", "cluster", "partition", "state", "application")
            if query.get(name)
        )
        days = read_number(query, "days", 0, 36_500)
        tag = query.get("tag", "")
        keys = self._notes.find_tagged(visitor, tag) if tag and self._notes else None
        minutes = read_number(query, "minutes", 0, 10**6)
        return Wanted(
            exact,
            query.get("text", "").strip()[:200],
            query.get("rule", ""),
            keys,
            time.time_ns() - days * _DAY_NS if days else None,
            None,
            60.0 * minutes if minutes else None,
            {"yes": True, "no": False}.get(query.get("running", "")),
            visitor.only_user,
            visitor.only_projects,
        )

    def _list_clusters(self) -> list[str]:
        return self._search.list_clusters()

    def _write_owners(self, wanted: Wanted, owner: str, most: int) -> str:
        rows = [
            (
                link("", r["owner"], {owner: r["owner"]}),
                f"{r['jobs']:,}",
                f"{r['with_problems']:,}",
                write_hours(r["gpu_hours"]),
                write_hours(r["wasted_gpu_hours"]),
                write_share(r["wasted_gpu_hours"] or 0, r["gpu_hours"] or 0),
                write_hours(r["core_hours"]),
                write_hours(r["wasted_core_hours"]),
                write_share(r["wasted_core_hours"] or 0, r["core_hours"] or 0),
                write_energy(r["wasted_energy_j"]) or "-",
            )
            for r in self._search.sum_by(wanted, owner, most)
        ]
        head = (owner, "jobs", "with problems", "GPU hours", "wasted", "of them", "core hours",
                "wasted", "of them", "energy wasted")  # fmt: skip
        return write_table(f"{owner}s", head, rows, range(1, 10))

    def _write_filter(self, visitor: Visitor, query: Query) -> str:
        everything = Wanted(only_user=visitor.only_user, only_projects=visitor.only_projects)
        fields = [
            _write_input("text", "job, name or node", query),
            _write_choice(
                "state", "state", query, self._search.list_values("state", everything)
            ),
            _write_choice(
                "partition", "partition", query,
                self._search.list_values("partition", everything),
            ),
            _write_input("user", "user", query) if visitor.only_user is None else "",
            _write_input("project", "project", query),
            _write_choice(
                "rule", "what is wrong", query,
                [r["rule"] for r in self._search.sum_rules(everything)], titles=True,
            ),
            _write_input("tag", "tag", query),
        ]  # fmt: skip
        spans = "".join(
            f'<option value="{days}"{" selected" if query.get("days", "") == days else ""}>'
            f"{label}</option>"
            for days, label in _SPANS.items()
        )
        fields.append(f'<label>began within<select name="days">{spans}</select></label>')
        return (
            f'<form class="filter" action="/">{"".join(fields)}<button>Show</button>'
            f"{link('', 'all')}</form>"
        )

    def _write_span(self, page: str, chosen: str) -> str:
        parts = [
            f"<b>{label}</b>" if days == chosen else link(page, label, {"days": days or "0"})
            for days, label in _SPANS.items()
        ]
        return f"<p>Jobs that began within {' · '.join(parts)}</p>"


def _write_total(total: Row) -> str:
    pairs: list[tuple[str, str | None]] = [("jobs", f"{total['jobs']:,}")]
    pairs.append(("with problems", f"{total['with_problems'] or 0:,}"))
    for noun, given, wasted in (
        ("GPU hours", "gpu_hours", "wasted_gpu_hours"),
        ("core hours", "core_hours", "wasted_core_hours"),
    ):
        if total[given]:
            pairs.append((noun, write_hours(total[given])))
            share = write_share(total[wasted] or 0, total[given])
            lost = write_hours(total[wasted])
            pairs.append((f"{noun} wasted, at least", f"{lost} {f'({share})' if share else ''}"))
    if total["wasted_energy_j"]:
        pairs.append(("energy wasted", show(write_energy(total["wasted_energy_j"]))))
    return write_figures(pairs)


def _write_list(rows: list[Row], query: Query, sort: str, way: str) -> str:
    head = []
    for name, label in _HEAD:
        if not sort or name not in SORTS:
            head.append(label)
            continue
        turned = "up" if sort == name and way == "down" else "down"
        arrow = (" ▾" if way == "down" else " ▴") if sort == name else ""
        kept = {k: v for k, v in query.items() if k not in ("sort", "way", "page")}
        head.append(link("", label + arrow, {**kept, "sort": name, "way": turned}))
    cells = [
        (
            link("job", row["job_id"], {"id": row["job_key"]}),
            link("", row["user"], {"user": row["user"]}) if row["user"] else "-",
            show(row["state"]),
            show(write_time(row["start_ns"])),
            show(write_length(row["duration_ns"])),
            show(row["nodes"]),
            show(row["gpus"]),
            write_meter(row["gpu_used_pct"], _LOW_PCT),
            write_meter(row["cpu_used_pct"], 0.0 if row["gpus"] else _LOW_PCT),
            write_meter(row["memory_used_pct"]),
            write_hours(row["wasted_gpu_hours"]),
            write_hours(row["wasted_core_hours"]),
            f'<span class="problem">{show(title_of(row["worst_rule"]))}</span>'
            if row["worst_rule"]
            else "",
        )
        for row in rows
    ]
    return write_table("jobs", head, cells, (4, 5, 6, 7, 8, 9, 10, 11), long=12)


def _write_paging(query: Query, page: int, count: int) -> str:
    kept = {k: v for k, v in query.items() if k != "page"}
    parts = []
    if page:
        parts.append(link("", "earlier on the list", {**kept, "page": page - 1 or None}))
    first, last = page * _PAGE + 1, min((page + 1) * _PAGE, count)
    text = f"{first:,} to {last:,} of {count:,}" if count else "no job matches"
    parts.append(f'<span class="soft">{text}</span>')
    if last < count:
        parts.append(link("", "next", {**kept, "page": page + 1}))
    return f'<nav class="pages" aria-label="parts of the list">{"".join(parts)}</nav>'


def _write_input(name: str, label: str, query: Query) -> str:
    value = show(query[name]) if query.get(name) else ""
    return f'<label>{label}<input name="{name}" value="{value}" maxlength="200"></label>'


def _write_choice(
    name: str, label: str, query: Query, values: list[str], *, titles: bool = False
) -> str:
    chosen = query.get(name, "")
    listed = list(dict.fromkeys([*values, *([chosen] if chosen else [])]))
    options = "".join(
        f'<option value="{show(v)}"{" selected" if v == chosen else ""}>'
        f"{show(title_of(v) if titles else v)}</option>"
        for v in listed
    )
    return (
        f'<label>{label}<select name="{name}"><option value="">any</option>{options}</select>'
        "</label>"
    )


def _write_heat(frame: pl.DataFrame) -> str:
    if frame.is_empty():
        return '<p class="soft">No node has sent anything in the last ten minutes.</p>'
    means = frame.group_by("host", "metric").agg(pl.col("value").mean())
    metrics = [m for m in FOOTPRINT if m in set(means.get_column("metric"))]
    metrics += sorted(set(means.get_column("metric")) - set(metrics))[: 20 - len(metrics)]
    values = {(host, metric): value for host, metric, value in means.iter_rows()}
    hosts = sorted({host for host, _ in values})
    top = {m: max((values.get((h, m), 0.0) for h in hosts), default=0.0) for m in metrics}
    head = '<th scope="col">node</th>' + "".join(
        f'<th scope="col" class="n">{show(m)}<br>{show(name_unit(m)[0])}</th>' for m in metrics
    )
    lines = []
    for host in hosts:
        cells = []
        for metric in metrics:
            value = values.get((host, metric))
            if value is None:
                cells.append('<td class="n">-</td>')
                continue
            step = _shade(value, top[metric])
            shown = value / name_unit(metric)[1]
            cells.append(f'<td class="heat h{step}">{shown:,.1f}</td>')
        lines.append(f'<tr><th scope="row">{show(host)}</th>{"".join(cells)}</tr>')
    return (
        '<p class="note">Means of the last ten minutes; darker is more, of the largest in the '
        f"column. {format_several(len(hosts), 'node')}.</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="nodes by metric"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _shade(value: float, top: float) -> int:
    """0 to 9; of what is not a number 0."""
    share = value / top if top > 0 else 0.0
    return round(9 * min(max(share, 0.0), 1.0)) if math.isfinite(share) else 0


def read_number(query: Query, name: str, least: int, most: int) -> int:
    """A whole number of a query; 0 where it is not there. Raises RequestError."""
    text = query.get(name, "") or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise RequestError(f"'{name}' is a whole number")
    if not least <= int(text) <= most:
        raise RequestError(f"'{name}' is {least} to {most:,}")
    return int(text)
