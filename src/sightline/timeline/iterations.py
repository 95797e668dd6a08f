"""The iterations that a program repeats: as it marks them, or found from the order of its kernels.

What the grades of trust mean is told where people read it: in the analysis `iterations`.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run
from sightline.timeline.step_annotations import ANY_TEXT

# Ranges that frameworks put around each iteration or at its end, where nobody marked steps:
# PyTorch's optimizer hook ("Optimizer.step#AdamW.step", torch/optim/optimizer.py), vLLM
# ("execute_context_3(100)_generation_16(16)", vllm/v1/worker/gpu_model_runner.py), SGLang
# ("step[DECODE bs=8]", sglang/srt/utils), and what people name theirs, with its number.
STEP_RANGES = (
    rf"^Optimizer\.step#|^execute_model|{ANY_TEXT}|"
    r"(?i)^(?:train(?:ing)?[ _.]?)?(?:step|iter(?:ation)?|batch)s?\b?[ _:#=(\[]*\d+\W*$"
)
# Those of them that end an iteration: what follows is the next one's.
_END_RANGES = r"^Optimizer\.step#"
# Between two steps of an inference engine it may wait for requests: that is of no step.
ENGINE = "engine ranges"
# A period is believed from three repetitions on: with two, anything that happens twice is one.
MIN_REPEATS = 3
# At least nine of ten operations are what they were one period before (ours: recordings of training
# loops lie above 97 %, and random orders of ten kernels at 10 %).
MIN_MATCH_PCT = 90.0
# Of two periods the shorter counts unless the longer fits better by this: a model of L equal layers
# repeats after one layer for all but one of L of its operations, 0.5 % for 200 layers (ours).
_BETTER = 0.005
# A period is looked for where so many operations in a row come back.
_CONTEXT = 8
_CANDIDATES = 64
_PRIME = 1_099_511_628_211  # of the FNV hash: 2^40 + 2^8 + 0xb3
# What happens once in an iteration, and not in each of its layers: input and result are copied, or
# an optimizer's kernels run (PyTorch's multi_tensor_apply, Apex' and DeepSpeed's adam).
_ONCE = r"(?i)memcpy (?:HtoD|DtoH|Host-to-Device|Device-to-Host)|multi_tensor_apply|adam|sgd"

_SPAN = ("start_ns", "end_ns")

SCHEMA = {
    "rank": pl.Int64,
    "step": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "source": pl.String,
    "match_pct": pl.Float64,
    "confidence": pl.String,
}


def list_iterations(run: Run) -> pl.DataFrame:
    """One row per rank and iteration, in order of time, with how it was found.

    Marked steps in which nothing else was recorded are left out: a profiler covers some of a loop.
    `source` is 'marks', 'ranges', 'engine ranges' or 'kernel order'; `match_pct` says of the last
    how many of a period's operations are those of the period before. A rank without any has no
    rows.
    """
    return run.once(_list_iterations)


def list_marked_steps(run: Run) -> pl.DataFrame:
    """The marked steps of each process' main thread, the one that marks most.

    Columns rank, recording_id, pid, step, start_ns and end_ns; of a rank in order of time.
    """
    return _choose_thread(_list_marks(run), ("rank", "pid"))


def list_recorded_steps(run: Run) -> pl.DataFrame:
    """Those of list_marked_steps in which operators or device operations were recorded, too.

    `sightline run --steps` marks all steps of a loop, and a profiler covers some. A recording that
    holds both marks and operators covers all of its marks; of a rank of which nothing but marks
    was recorded, all are given.
    """
    return _keep_recorded(run, _choose_thread(_list_marks(run), ("rank", "pid")))


def find_recorded_spans(run: Run) -> pl.DataFrame:
    """From the first to the last operator or device operation of each rank: rank, since, until."""
    return run.once(_find_recorded_spans)


def _find_recorded_spans(run: Run) -> pl.DataFrame:
    spans = _list_detail(run).group_by("rank")
    return spans.agg(since=pl.col("start_ns").min(), until=pl.col("end_ns").max()).collect()


def _list_detail(run: Run) -> pl.LazyFrame:
    operators = run.scan("host_ops").filter(pl.col("layer") == "op")
    columns = ("rank", "recording_id", *_SPAN)
    return pl.concat([each.select(columns) for each in (operators, run.scan("device_ops"))])


def _keep_recorded(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    if len(run.parts) == 1:
        return steps  # one recording covers its own marks
    detailed = _list_detail(run).select("recording_id").unique().collect()
    reaches = (pl.col("end_ns") > pl.col("since")) & (pl.col("start_ns") < pl.col("until"))
    covers = pl.col("recording_id").is_in(detailed.get_column("recording_id").implode())
    return (
        steps.join(find_recorded_spans(run), on="rank", how="left", maintain_order="left")
        .filter(pl.col("since").is_null() | covers | reaches)
        .drop("since", "until")
    )


def _list_marks(run: Run) -> pl.DataFrame:
    return run.once(_read_marks)


def _read_marks(run: Run) -> pl.DataFrame:
    return _read_layer(run, "step")


def _read_layer(run: Run, layer: str) -> pl.DataFrame:
    """The ranges of a layer; of the table's many columns those that tell iterations."""
    columns = ("rank", "recording_id", "pid", "tid", "name", *_SPAN)
    return run.scan("host_ops").filter(pl.col("layer") == layer).select(columns).collect()


def _choose_thread(marks: pl.DataFrame, of_each: tuple[str, ...] = ("rank",)) -> pl.DataFrame:
    main = (
        marks.group_by("rank", "pid", "tid")
        .agg(n=pl.len())
        .sort("n", "pid", "tid", descending=[True, False, False])
        .unique(of_each, keep="first", maintain_order=True)
    )
    return (
        marks.join(main, on=["rank", "pid", "tid"], how="semi", nulls_equal=True)
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .select("rank", "recording_id", "pid", pl.col("name").alias("step"), "start_ns", "end_ns")
        .sort("rank", "start_ns")
    )


def _list_iterations(run: Run) -> pl.DataFrame:
    marks = _keep_recorded(run, _choose_thread(_list_marks(run)))
    known = [_grade(marks, "marks", "high")]
    ranges = _read_layer(run, "annotation")
    named = _choose_thread(ranges.filter(match_names(ranges, STEP_RANGES)))
    known.append(_grade(_follow_one_another(named), None, "high"))
    done = pl.concat(known).unique(["rank", "start_ns"], keep="first", maintain_order=True)
    first = done.group_by("rank", maintain_order=True).agg(source=pl.col("source").first())
    done = done.join(first, on=["rank", "source"], how="semi", maintain_order="left")
    ops = run.table("device_ops", ["rank", "device_id", "stream_id", "kind", "name", *_SPAN])
    todo = ops.join(done, on="rank", how="anti")
    found = [_find_by_order(mine) for mine in todo.partition_by("rank", maintain_order=True)]
    return pl.concat([done, *found]).sort("rank", "start_ns")


def _grade(steps: pl.DataFrame, source: str | None, confidence: str) -> pl.DataFrame:
    return steps.with_columns(
        source=pl.col("source") if source is None else pl.lit(source),
        match_pct=pl.lit(None, pl.Float64),
        confidence=pl.lit(confidence),
    ).select(*SCHEMA)


def _follow_one_another(ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges of one kind as iterations: from one's start to the next one's.

    The kind is what most of them are called without their number; what lies inside another of them
    is none. The last one ends where it ends. Of ranges that end an iteration each begins where the
    one before ended, and the first, whose begin nothing tells, where its range does.
    """
    is_engine = match_names(ranges.rename({"step": "name"}), ANY_TEXT)
    kind = (
        pl.when(pl.lit(is_engine))
        .then(pl.lit(ENGINE))
        .otherwise(pl.col("step").str.replace_all(r"\d+", "#"))
    )
    ranges = ranges.with_columns(kind=kind)
    many = (
        ranges.group_by("rank", "kind")
        .agg(n=pl.len())
        .sort("n", "kind", descending=[True, False])
        .unique("rank", keep="first", maintain_order=True)
        .filter(pl.col("n") >= MIN_REPEATS)
    )
    mine = ranges.join(many, on=["rank", "kind"], how="semi")
    before = pl.col("end_ns").cum_max().shift(1).over("rank")
    mine = mine.sort("rank", "start_ns").filter(
        (pl.col("start_ns") >= before).fill_null(value=True)
    )
    is_end = pl.col("kind").str.contains(_END_RANGES)
    before, following = pl.col("end_ns").shift(1), pl.col("start_ns").shift(-1)
    return mine.with_columns(
        start_ns=pl.when(is_end).then(before.over("rank")).fill_null(pl.col("start_ns")),
        end_ns=pl.when(~is_end & (pl.col("kind") != ENGINE))
        .then(following.over("rank"))
        .fill_null(pl.col("end_ns")),
        source=pl.when(pl.col("kind") == ENGINE).then(pl.lit(ENGINE)).otherwise(pl.lit("ranges")),
    ).drop("kind")


def _find_by_order(ops: pl.DataFrame) -> pl.DataFrame:
    """The iterations of one rank from the order of the operations of its busiest stream."""
    nothing = pl.DataFrame(schema=SCHEMA)
    stream = ["device_id", "stream_id"]
    busiest = (
        ops.group_by(stream).agg(n=pl.len()).sort("n", *stream, descending=[True, False, False])
    )
    mine = ops.join(busiest.head(1), on=stream, how="semi", nulls_equal=True)
    mine = _skip_upload(mine.sort("start_ns", maintain_order=True))
    part = _find_repeating(mine)
    if part is None:
        # Copies before and behind the loop are more than its few kernels.
        mine = mine.filter(~pl.col("kind").is_in(["memcpy", "memset"]))
        if (part := _find_repeating(mine)) is None:
            return nothing
    first, length, period, match = part
    mine = mine.slice(first, length)
    codes = _number_names(mine)
    starts = _find_starts(mine, codes, period)
    if starts.len() <= MIN_REPEATS:
        return nothing
    whole = mine.slice(int(starts[0]), int(starts[-1]) - int(starts[0]))
    once = match_names(whole, _ONCE).sum() >= starts.len() - 1
    low = not once or match < 100 - 100 * _BETTER
    begin = mine.get_column("start_ns").gather(starts)
    # The last one, behind which no other begins, ends with its operations if they are all there.
    if _is_whole(codes, int(starts[-1]), period):
        ends = mine.get_column("end_ns").slice(int(starts[-1]), period).sort().tail(1)
        ends = pl.concat([begin.tail(-1), ends])
    else:
        begin, ends = begin.head(-1), begin.tail(-1)
    count = ends.len()
    return pl.DataFrame(
        {
            "rank": pl.repeat(ops.item(0, "rank"), count, dtype=pl.Int64, eager=True),
            "step": [f"found #{n}" for n in range(count)],
            "start_ns": begin,
            "end_ns": ends,
            "source": ["kernel order"] * count,
            "match_pct": [match] * count,
            "confidence": ["low" if low else "medium"] * count,
        },
        schema=SCHEMA,
    )


def _is_whole(codes: pl.Series, start: int, period: int) -> bool:
    """Whether a period's operations from this place on are those of the period before it."""
    mine, before = codes.slice(start, period), codes.slice(start - period, period)
    if start < period or mine.len() < period:
        return False
    return 100 * int((mine == before).sum()) >= MIN_MATCH_PCT * period


def _skip_upload(ops: pl.DataFrame) -> pl.DataFrame:
    """The operations without many copies and fills before the first kernel.

    A model's parameters are copied one by one: a copy is like the one before it, so that they match
    a short distance, as that of a layer, and no longer one.
    """
    works = ~ops.get_column("kind").is_in(["memcpy", "memset"])
    first = int(works.arg_max() or 0)
    return ops.slice(first) if first >= _CONTEXT else ops


def _number_names(ops: pl.DataFrame) -> pl.Series:
    return ops.get_column("name").cast(pl.Categorical).to_physical().cast(pl.UInt64)


def _find_repeating(ops: pl.DataFrame) -> tuple[int, int, int, float] | None:
    """What of operations in order repeats: first place, length, period and its match, %."""
    codes = _number_names(ops)
    found = find_period(codes)
    return _find_repeating_stretch(codes) if found is None else (0, codes.len(), *found)


def find_period(codes: pl.Series) -> tuple[int, float] | None:
    """After how many places a sequence repeats, and for what share of its places, %; or None.

    Candidates are the distances at which eight codes in a row come back; each is tried on the
    whole sequence. The shortest counts that no longer one beats by 0.5 %.
    """
    distances = _list_distances(codes)
    tried = []
    for lag in distances:
        same = codes.slice(lag) == codes.slice(0, codes.len() - lag)
        tried.append((lag, 100 * float(same.sum()) / same.len()))
    best = max((match for _, match in tried), default=0.0)
    if best < MIN_MATCH_PCT:
        return None
    return min(pair for pair in tried if pair[1] >= best * (1 - _BETTER))


def _find_repeating_stretch(codes: pl.Series) -> tuple[int, int, int, float] | None:
    """What repeats of a sequence that does not as a whole: first place, length, period, match in %.

    Start-up and tail are other operations. Of each candidate's places those in a row are taken of
    which nine of ten come back (the largest sum where a place that does counts 1, another -9); the
    longest stretch counts that holds most of the sequence.
    """
    best: tuple[int, int] | None = None
    for lag in _list_distances(codes):
        same = codes.slice(lag) == codes.slice(0, codes.len() - lag)
        miss = MIN_MATCH_PCT / (100 - MIN_MATCH_PCT)
        sums = same.cast(pl.Float64).replace(0.0, -miss).cum_sum().extend_constant(0.0, 1).shift(1)
        sums = sums.fill_null(0.0)
        last = int((sums - sums.cum_min()).arg_max() or 0)
        first = int(sums.head(last + 1).arg_min() or 0)
        if best is None or last - first + lag > best[1]:
            best = first, last - first + lag
    if best is None or 2 * best[1] < codes.len():
        return None
    found = find_period(codes.slice(*best))
    return None if found is None else (*best, *found)


def _list_distances(codes: pl.Series) -> list[int]:
    """Distances between places that look alike, those that explain most places first."""
    if codes.len() <= MIN_REPEATS:
        return []
    context = min(_CONTEXT, codes.len() // MIN_REPEATS)
    looks = pl.lit(0, pl.UInt64)
    for ahead in range(context):
        looks = looks * pl.lit(_PRIME, pl.UInt64) + pl.col("code").shift(-ahead)
    place = pl.col("place")
    return (
        pl.DataFrame({"code": codes})
        .select(looks=looks, place=pl.int_range(pl.len(), dtype=pl.Int64))
        .drop_nulls("looks")
        .select(lag=(place.shift(-1) - place).over("looks"))
        .drop_nulls()
        .filter(pl.col("lag") * MIN_REPEATS <= codes.len())
        .group_by("lag")
        .agg(places=pl.len() * pl.col("lag").first())
        .sort("places", "lag", descending=[True, False])
        .head(_CANDIDATES)
        .get_column("lag")
        .sort()
        .to_list()
    )


def _find_starts(ops: pl.DataFrame, codes: pl.Series, period: int) -> pl.Series:
    """The places at which iterations begin.

    They follow an operation that comes once a period: of those that keep the distance best the one
    with the longest pause before it. Where all come several times, places a period apart.
    """
    place, pause = pl.col("place"), pl.col("pause")
    marks = (
        ops.select(
            pause=pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1),
            place=pl.int_range(pl.len(), dtype=pl.Int64),
        )
        .with_columns(code=codes)
        .group_by("code")
        .agg(
            n=pl.len(),
            kept=(place.diff() == period).sum() / (pl.len() - 1),
            pause=pause.median(),
            first=place.min(),
        )
        .filter((pl.col("n") > MIN_REPEATS) & (pl.col("kept") > 0.5))
        .filter((pl.col("n") * period - codes.len()).abs() <= 2 * period)
        .sort(pl.col("kept").round(2), "pause", "first", descending=[True, True, False])
    )
    if marks.is_empty():
        return pl.int_range(codes.len() % period, codes.len(), period, eager=True)
    is_mark: pl.Series = codes == marks.item(0, "code")
    return is_mark.arg_true().cast(pl.Int64)
