"""Many ranks as one offline page: who is late when and why, and some ranks' timelines."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.answer.answer import Answer as RunAnswer
from sightline.core.model.columns import RANK, Column, duration, number, pct, text
from sightline.core.model.run import Run
from sightline.core.page import blocks
from sightline.core.page.declare import Block
from sightline.core.text import make_printable
from sightline.core.units import format_ns, format_pct, format_several
from sightline.errors import MissingDataError
from sightline.fleet.answer import Answer, list_outliers
from sightline.fleet.heat import Heat, make_heat
from sightline.fleet.pipeline import Pipeline
from sightline.version import __version__
from sightline.views.comparison.ranks import list_facts, list_pipeline_facts, name_ranks
from sightline.views.html.page import SCHEMA, load_template
from sightline.views.html.panels import timeline
from sightline.views.html.view import PageView

# A row is five pixels high or more, and a page of them is one screen.
_ROWS, _BINS = 128, 240
# Single ranks are drawn where all of their rows together are so few: half a megabyte of the page.
_MOST_SINGLE = 2048
_NAMED = 16  # rows of single ranks above the others

_CAUSES = (
    text("who", "the rank, link or stage", required=True),
    text("cause", "what is in excess", required=True),
    duration("gain_ns", "how much shorter the job is without its excess"),
    pct("gain_pct", "of the job's length"),
    duration("alone_ns", "what the job would lose to it if it were the only one"),
    text("when", "persistent or wandering"),
    text("detail", "further evidence"),
    number("steps", "steps in which it costs 1 % or more"),
    text("next_who", "who limits the job when it is gone"),
    text("next_cause", "and why"),
    duration("next_gain_ns", "additional gain of fixing that"),
)
_RANKS = (
    RANK,
    text("cause", "why it costs the job 1 % or more, where it does"),
    number("stage", "stage of the pipeline"),
    duration("compute_ns", "compute beyond the median of its peers"),
    duration("copy_ns", "copies beyond it"),
    duration("idle_ns", "idle time beyond it"),
    duration("waited_ns", "what it waited in collectives for others"),
    duration("bubble_ns", "what its stage waited for other stages without work"),
    text("recording", "its recording"),
)
_KINDS = (
    text("kind", "kind of operation", required=True),
    duration("gain_ns", "how much shorter the job is without all ranks' excess of it"),
    pct("share_pct", "of what all straggling costs"),
    duration("alone_ns", "what the job would lose if only that were in excess"),
)
_STAGES = (
    number("stage", "stage of the pipeline, the first is 0", required=True),
    number("ranks", "ranks that hold it"),
    duration("bubble_ns", "what its median rank waits for other stages without work"),
    duration("gain_ns", "how much shorter the job is without all excess of its ranks"),
    duration("alone_ns", "what the job would lose if only that were in excess"),
)
_STEPS = (
    number("step", "step, the first is 0", required=True),
    duration("duration_ns", "how long it took"),
    duration("ideal_ns", "how long it would take without straggling"),
    text("who", "who costs it most"),
    text("cause", "and why"),
    duration("gain_ns", "how much shorter the step is without that"),
)
_PATH = (
    RANK,
    text("part", "compute, copy, idle, transfer, or rest after the last collective"),
    duration("path_ns", "how much of the job's length it is"),
    pct("share_pct", "of the job's length"),
)


def write_ranks_page(answer: Answer, shown: Run | None) -> bytes:
    """The page; `shown` are the ranks whose timelines it has, opened as one run."""
    title = format_several(len(answer.job.ranks), "rank")
    panels = [{"name": "summary", "title": "Ranks", "blocks": show_ranks(answer)}]
    more: tuple[tuple[str, str, list[Block]], ...] = (
        ("steps", "Steps", show_steps(answer)),
        ("pipeline", "Pipeline", _show_pipeline(answer)),
        ("path", "Critical path", show_path(answer)),
        ("recording", "Clocks and losses", _show_clocks(answer)),
    )
    panels += [{"name": n, "title": t, "blocks": made} for n, t, made in more if made]
    origin, length, columns = 0, 0, b""
    if shown is not None:
        view = PageView(shown, RunAnswer(window=shown.ask("windows").to_dicts()))
        try:
            made = timeline.data(view)
        except MissingDataError as missing:
            made = [blocks.make_text(f"No timeline: {missing.why or missing.what}.")]
        ranks = sorted({part.rank for part in shown.parts})
        apart = answer.job.fit is None or answer.job.is_contradictory
        clock = "each on its own clock" if apart else "on one clock"
        said = f"{name_ranks(ranks).capitalize()}, {clock}."
        panels.insert(
            1,
            {
                "name": "timeline",
                "title": "Timelines",
                "blocks": [*made, blocks.make_text(said)],
            },
        )
        origin, length = view.span[0], view.span[1] - view.span[0]
        columns = bytes(view.packed.body)
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "title": title,
        "about": [make_printable(line) for line in list_facts(answer)[1:2]],
        "origin_ns": str(origin),
        "length_ns": length,
        "panels": panels,
    }
    return load_template(content, title, columns)


def show_job(answer: Answer) -> list[Block]:
    """All of it but timelines, as blocks of one panel."""
    return [*show_ranks(answer), *_show_pipeline(answer), *show_steps(answer)]


def show_ranks(answer: Answer) -> list[Block]:
    """The verdict, who is late when, causes, and every rank with its excess."""
    verdict, why = answer.verdict, answer.job.why_not_compared
    is_unknown = why is not None and verdict.stragglers.is_empty()
    lead = f"The job takes {format_ns(verdict.length_ns)}" + (
        f". Its ranks cannot be compared: {why}. Whether one of them makes it longer is unknown."
        if is_unknown
        else f", and without stragglers {format_ns(verdict.ideal_ns)}: "
        f"{verdict.slowdown:.2f} times as long."
    )
    if why is not None and not is_unknown:
        lead += f" Its ranks cannot be compared: {why}; links can."
    worst = verdict.stragglers.head(1).to_dicts()
    if worst:
        row = worst[0]
        lead += (
            f" {name_ranks(row['ranks']).capitalize()}: {row['cause']}, which costs "
            f"{format_ns(row['gain_ns'])} ({format_pct(row['gain_pct'])})."
        )
    found = [blocks.make_text(lead, "lead")]
    found += [blocks.make_text(line) for line in list_facts(answer)]
    if len(verdict.few) > 1 and verdict.few_ns > 0:
        found.append(
            blocks.make_text(
                f"The worst 3 % of ranks cost {format_ns(verdict.few_ns)}, "
                f"{format_pct(verdict.few_pct)} of all straggling."
            )
        )
    if verdict.stragglers.is_empty() and not is_unknown:
        found.append(blocks.make_text("No rank holds the others up by more than 1 % of the job."))
    found.append(_draw_heat(answer))
    whole = {"share_pct": 100 * pl.col("gain_ns") / max(verdict.length_ns, 1)}
    found.append(
        blocks.make_table(
            "What costs the job most",
            _name(verdict.stragglers.with_columns(**whole), "ranks", "who")
            .pipe(_name, "next_ranks", "next_who")
            .with_columns(
                when=pl.when("is_persistent")
                .then(pl.lit("persistent"))
                .otherwise(pl.lit("wandering"))
            ),
            _CAUSES,
        )
    )
    order = pl.sum_horizontal("compute_ns", "copy_ns", "idle_ns")
    found.append(
        blocks.make_table(
            "Ranks by what they have beyond their peers",
            answer.excess.sort(order, "rank", descending=[True, False]),
            _RANKS,
            heat=("compute_ns", "copy_ns", "idle_ns", "waited_ns", "bubble_ns"),
            more="sightline ranks --json",
        )
    )
    found.append(blocks.make_table("By kind of operation", verdict.kinds, _KINDS))
    return found


def _name(frame: pl.DataFrame, ranks: str, column: str) -> pl.DataFrame:
    named = [None if r is None else name_ranks(r) for r in frame.get_column(ranks).to_list()]
    return frame.with_columns(pl.Series(column, named, dtype=pl.String))


def _draw_heat(answer: Answer) -> Block:
    """Ranks by time; several to a row where they are many, and a choice of fewer of them."""
    job, outliers = answer.job, list_outliers(answer)[:_NAMED]
    grouped = make_heat(job, rows=_ROWS, bins=_BINS, alone=tuple(outliers))
    size = len(job.ranks)
    title = "How late ranks come to collectives, by time"
    if size <= _ROWS:
        return _pack_heat(title, grouped, answer, outliers)
    options = [
        {
            "label": f"all {size:,}, several to a row",
            "blocks": [_pack_heat(title, grouped, answer, outliers)],
        }
    ]
    if size <= _MOST_SINGLE:
        single = make_heat(job, rows=size, bins=_BINS)
        for at in range(0, size, _ROWS):
            part = Heat(single.ranks[at : at + _ROWS], single.late[at : at + _ROWS], single.bin_ns)
            label = f"{part.ranks[0][0]} to {part.ranks[-1][1]}"
            options.append({"label": label, "blocks": [_pack_heat(title, part, answer, outliers)]})
    return {"kind": "choice", "label": "Ranks", "options": options}


def _pack_heat(title: str, heat: Heat, answer: Answer, outliers: list[int]) -> Block:
    """Rows of percent, 0 to 100; those of single outliers come first and say why they are there."""
    causes = dict(answer.excess.select("rank", "cause").iter_rows())
    rows: list[dict[str, Any]] = []
    for (first, last), late in zip(heat.ranks, heat.late, strict=True):
        is_named = first == last and first in outliers
        label = str(first) if first == last else f"{first}-{last}"
        rows.append(
            {
                "label": label,
                "why": (causes.get(first) or "") if is_named else "",
                "values": [round(100 * value) for value in late],
            }
        )
    worst = {str(rank): place for place, rank in enumerate(outliers)}
    rows.sort(key=lambda row: worst[row["label"]] if row["why"] else len(worst))
    return {"kind": "heat", "title": title, "bin_ns": heat.bin_ns, "rows": rows}


def show_steps(answer: Answer) -> list[Block]:
    """Each step with and without straggling."""
    steps = answer.verdict.steps
    if steps.is_empty():
        return []
    lines = blocks.make_lines(
        "Each step, as it was and without straggling",
        steps.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns")),
        "end_ns",
        {"duration_ns": "as it was", "ideal_ns": "without straggling"},
        0,
        "ns",
    )
    by = answer.verdict.steps_by
    note = (
        "Steps are those that the program marks."
        if by == "marked"
        else "The program marks no steps: they are found by the order of collectives."
    )
    table = blocks.make_table(
        "Steps", _name(steps, "ranks", "who"), _STEPS, heat=("duration_ns", "gain_ns")
    )
    # One step is a point, which no line is drawn through.
    return [blocks.make_text(note), *([lines] if steps.height > 1 else []), table]


def _show_pipeline(answer: Answer) -> list[Block]:
    """Stages of the pipeline, with what they wait and cost."""
    pipeline: Pipeline | None = answer.job.pipeline
    if pipeline is None:
        return []
    facts = [line.strip() for line in list_pipeline_facts(pipeline)]
    said = [blocks.make_text(f"{line[0].upper()}{line[1:]}.") for line in facts]
    stages = blocks.make_table(
        "Stages", answer.verdict.stages, _STAGES, heat=("bubble_ns", "gain_ns")
    )
    return [*said, stages]


def show_path(answer: Answer) -> list[Block]:
    """The critical path through all ranks, by rank and part."""
    whole = max(answer.verdict.length_ns, 1)
    path = answer.path.rename({"ns": "path_ns"}).with_columns(
        share_pct=100 * pl.col("path_ns") / whole
    )
    return [blocks.make_table("Critical path through all ranks", path, _PATH, heat=("path_ns",))]


def _show_clocks(answer: Answer) -> list[Block]:
    """How the clocks stand, and which recordings gave no rank."""
    found: list[Block] = []
    if answer.job.fit is not None:
        columns: tuple[Column, ...] = (
            RANK,
            duration("shift_ns", "added to its times"),
            number("anchors", "collectives that it rests on"),
            duration("uncertainty_ns", "uncertainty of that"),
        )
        found.append(blocks.make_table("Clocks", answer.job.fit.clocks, columns))
    if answer.lost:
        items = [make_printable(f"{name}: {why}") for name, why in answer.lost[: blocks.MAX_ROWS]]
        found.append({"kind": "list", "title": "Recordings that were lost", "items": items})
    return found
