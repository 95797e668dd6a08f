"""The steps of an inference engine: what each computed for whom, its span, and the gap before it.

A step is one pass of the model over a batch. On a GPU it lasts from its first device operation to
its last one; without a device, as long as its range on the host. The time between two steps is a
gap, and part of neither. An operation belongs to the last step whose range began before the host
launched it: sampling is launched behind the range of SGLang's.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows, match_names
from sightline.core.model.run import Run
from sightline.timeline.host_ranges import list_host_names
from sightline.timeline.iterations import list_iterations
from sightline.timeline.step_annotations import ANY_TEXT, FUNCTIONS, NUMBERS, parse_annotations
from sightline.timeline.world import SERVING, read_world

ANNOTATIONS, CALLS = "annotations", "Python functions"
REPLAYS, ORDER = "graph replays", "kernel order"
PREFILL, DECODE, MIXED, EMPTY = "prefill", "decode", "mixed", "empty"
# A replay of so many kernels is a whole step: a layer has 5 to 20 kernels, and served models 12
# layers or more; what vLLM captures in pieces lies between two attentions (ours: TraceLens'
# recordings have 1 to 18 kernels a piece, and 417 to 540 a whole step).
WHOLE_STEP_KERNELS = 100
# More tokens than so many for each request are not drafted (ours: engines draft 1 to 10).
MOST_DRAFTED = 16
# Kernels of a language model in TensorRT-LLM (cpp/tensorrt_llm/kernels) and FlashInfer.
_ATTENTION = r"(?i)mha|attention|paged_?kv|gpt"
GRAPH_LAUNCH = r"^(?:cuda|hip|cu)GraphLaunch"
# What host and device spans are of, and what is known of each step (ns; numbers as in NUMBERS).
SCHEMA = {
    "rank": pl.Int64,
    "pid": pl.Int64,
    "tid": pl.Int64,
    "step": pl.Int64,
    "name": pl.String,
    "engine": pl.String,
    "phase": pl.String,
    **dict.fromkeys(NUMBERS, pl.Int64),
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "host_start_ns": pl.Int64,
    "host_end_ns": pl.Int64,
    "source": pl.String,
    "confidence": pl.String,
}
# SGLang's own modules: it can write the texts of vLLM, as AMD's builds of it do.
_SGLANG = r"sglang/srt/"
_SPAN = ["rank", "pid", "tid", "name", "start_ns", "end_ns"]


def list_engine_steps(run: Run) -> pl.DataFrame:
    """One row per rank and step of its engine, in order of time (SCHEMA); none of other programs.

    Steps are taken from annotations, else from Python's functions, else, of an inference server,
    from replays of whole graphs or the order of kernels: `source` says which. Numbers that the
    source does not state are null. The phase is then guessed: engines capture graphs of decode, so
    of steps of which some replay graphs, the others prefill. `confidence` is high, medium where the
    phase or the steps are so inferred, low where steps come from the order of kernels.
    """
    return run.once(_list_engine_steps)


def list_step_work(run: Run) -> pl.DataFrame:
    """Each device operation of a step: rank, step, device_op_id and how it was launched.

    Further columns: device_id, kind, name, start_ns, end_ns, launch_id, launch_ns (start of the
    call), launch_end_ns, is_graph (replayed by a graph). What was launched before the first step,
    or by nobody who was recorded, is left out.
    """
    return run.once(_list_step_work)


def _list_engine_steps(run: Run) -> pl.DataFrame:
    if not run.rows("host_ops") and not run.rows("device_ops"):
        return pl.DataFrame(schema=SCHEMA)
    found = _read_ranges(run) if _is_named(run) else pl.DataFrame()
    if found.is_empty() and _serves_text(run):
        found = _find_replays(run)
        if found.is_empty():
            found = _take_iterations(run)
    if found.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    # A rank's ranges may be of several processes, as of a scheduler and its worker: most count.
    found = found.sort("rank", "start_ns").with_columns(
        step=pl.int_range(pl.len(), dtype=pl.Int64).over("rank"),
        host_start_ns=pl.col("start_ns"),
        host_end_ns=pl.col("end_ns"),
    )
    found = _find_recomputed(run, found)
    found = found.with_columns(phase=pl.coalesce("phase", _name_phase()))
    found = _span_device(run, found).with_columns(confidence=_grade())
    return found.select(pl.col(c).cast(t) for c, t in SCHEMA.items())


def _serves_text(run: Run) -> bool:
    """Whether an inference server of language models runs: TensorRT runs networks of all kinds."""
    framework = read_world(run).framework
    if framework != "tensorrt":
        return framework in SERVING
    names = run.table("device_ops", ["name"]).get_column("name").cast(pl.String).unique()
    return bool(names.str.contains(_ATTENTION).any())


def _grade() -> pl.Expr:
    grades = {ANNOTATIONS: "high", CALLS: "medium", REPLAYS: "medium", ORDER: "low"}
    return pl.col("source").replace_strict(grades)


def _name_phase() -> pl.Expr:
    """By the numbers of requests; more tokens than requests of decode are checked, not made."""
    prefill, decode = pl.col("prefill_requests") > 0, pl.col("decode_requests") > 0
    verifies = pl.col("decode_tokens") > pl.col("decode_requests")
    return (
        pl.when(prefill & decode)
        .then(pl.lit(MIXED))
        .when(prefill)
        .then(pl.lit(PREFILL))
        .when(decode & verifies)
        .then(pl.lit("verify"))
        .when(decode)
        .then(pl.lit(DECODE))
        .when(~prefill & ~decode)
        .then(pl.lit(EMPTY))
    )


def _find_recomputed(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """Steps in which vLLM computes a preempted request again, with its tokens as a prompt's.

    It counts such a request among those that it continues (compute_iteration_details), with all of
    its tokens: as if many had been drafted. Who drafts does so for nearly all steps, and not so
    many; fewer are taken for it where the server's metrics count preemptions.
    """
    decodes, extra = pl.col("decode_requests"), pl.col("decode_tokens") - pl.col("decode_requests")
    drafts = (extra > 0).sum() > (decodes > 0).sum() / 2
    is_large = extra > MOST_DRAFTED * decodes
    again = is_large if not _has_preempted(run) else is_large | ((extra > 0) & ~drafts)
    again = ((pl.col("engine") == "vllm") & pl.col("phase").is_null() & again).fill_null(
        value=False
    )
    if not steps.select(again.any()).item():
        return steps
    # How many they are is not said: it is taken for one.
    return steps.with_columns(
        prefill_requests=pl.when(again).then(pl.col("prefill_requests") + 1).otherwise(
            "prefill_requests"
        ),
        prefill_tokens=pl.when(again).then(pl.col("prefill_tokens") + extra + 1).otherwise(
            "prefill_tokens"
        ),
        decode_requests=pl.when(again).then(decodes - 1).otherwise(decodes),
        decode_tokens=pl.when(again).then(decodes - 1).otherwise("decode_tokens"),
    )  # fmt: skip


def _has_preempted(run: Run) -> bool:
    """Whether the server's metrics say that it preempted requests while they were read."""
    if not run.rows("counters"):
        return False
    counters = run.table("counters", ["metric", "source", "time_ns", "value"])
    mine = counters.filter(pl.col("metric").cast(pl.String) == "vllm:num_preemptions_total")
    grown = mine.sort("time_ns").group_by("source").agg(
        pl.col("value").last() - pl.col("value").first()
    )  # fmt: skip
    return bool((grown["value"] > 0).any())


def _is_named(run: Run) -> bool:
    """Whether any range has a text or a function of an engine: asked of the different names."""
    patterns = "|".join([ANY_TEXT, *(form.pattern for form in FUNCTIONS)])
    return bool(list_host_names(run).different.str.contains(patterns).any())


def _read_ranges(run: Run) -> pl.DataFrame:
    """Ranges that engines name, outermost only, of each rank's process and thread with most."""
    host = run.table("host_ops", ["rank", "pid", "tid", "layer", "name", "start_ns", "end_ns"])
    of_engines = pl.col("layer").is_in(["annotation", "step", "other", "library"])
    # A name of no engine is looked at once, however often it is there.
    annotated = host.filter(of_engines)
    texts = annotated.filter(match_names(annotated, ANY_TEXT))
    parsed, source = parse_annotations(texts.get_column("name")), ANNOTATIONS
    if parsed.is_empty():
        called = host.filter(pl.col("layer") == "python")
        texts = called.filter(match_names(called, "|".join(f.pattern for f in FUNCTIONS)))
        parsed, source = parse_annotations(texts.get_column("name"), FUNCTIONS), CALLS
    texts = texts.with_columns(pl.col("name").cast(pl.String))
    steps = texts.join(parsed, on="name", how="inner", maintain_order="left")
    steps = steps.sort("rank", "pid", "tid", "start_ns", -pl.col("end_ns"))
    thread = ["rank", "pid", "tid"]
    before = pl.col("end_ns").cum_max().shift(1).over(thread)
    outer = steps.filter((pl.col("start_ns") >= before).fill_null(value=True))
    main = (
        outer.group_by(thread)
        .len()
        .sort("rank", "len", "pid", "tid", descending=[False, True, False, False])
        .unique("rank", keep="first", maintain_order=True)
    )
    kept = outer.join(main, on=thread, how="semi", nulls_equal=True)
    if list_host_names(run).different.str.contains(_SGLANG).any():
        kept = kept.with_columns(engine=pl.lit("sglang"))
    filled = pl.coalesce("decode_tokens", pl.when(_makes_one_each()).then("decode_requests"))
    return kept.with_columns(source=pl.lit(source), decode_tokens=filled)


def _makes_one_each() -> pl.Expr:
    return pl.col("phase").is_null() & (pl.col("engine") != "trtllm")


def _find_replays(run: Run) -> pl.DataFrame:
    """Calls that replay a graph of a whole step: steps of decode, by what engines capture."""
    ops = run.table("device_ops", ["rank", "launch_id", "kind"]).filter(pl.col("kind") != "memcpy")
    nodes = ops.group_by("rank", "launch_id").len().filter(pl.col("len") >= WHOLE_STEP_KERNELS)
    host = run.table("host_ops", ["host_op_id", "pid", "tid", "name", "start_ns", "end_ns"])
    at = find_rows(host.get_column("host_op_id"), nodes.get_column("launch_id"))
    calls = nodes.hstack(host.drop("host_op_id").select(pl.all().gather(at)))
    calls = calls.filter(pl.col("name").cast(pl.String).str.contains(GRAPH_LAUNCH))
    return _without_numbers(run, calls.select(_SPAN), REPLAYS, DECODE)


def _take_iterations(run: Run) -> pl.DataFrame:
    found = list_iterations(run).rename({"step": "name"})
    nobody = (pl.lit(None, pl.Int64).alias(name) for name in ("pid", "tid"))
    spans = found.select("rank", *nobody, *_SPAN[3:])
    return _without_numbers(run, spans, ORDER, None)


def _without_numbers(run: Run, spans: pl.DataFrame, source: str, phase: str | None) -> pl.DataFrame:
    return spans.with_columns(
        pl.col("name").cast(pl.String),
        pl.lit(phase, pl.String).alias("phase"),
        *(pl.lit(None, pl.Int64).alias(n) for n in NUMBERS),
        engine=pl.lit(read_world(run).framework),
        source=pl.lit(source),
    )


def _span_device(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """The steps from first to last device operation, where they have any."""
    if steps.item(0, "source") == ORDER:
        return steps
    spans = (
        _place_work(run, steps)
        .group_by("rank", "step")
        .agg(
            first=pl.col("start_ns").min(),
            last=pl.col("end_ns").max(),
            replays=pl.col("is_graph").any(),
        )
    )
    known = steps.join(spans, on=["rank", "step"], how="left", maintain_order="left")
    return known.with_columns(
        start_ns=pl.coalesce("first", "start_ns"),
        end_ns=pl.coalesce("last", "end_ns"),
        phase=pl.coalesce("phase", _guess_phase()),
    )


def _guess_phase() -> pl.Expr:
    """Of steps without numbers: what replays a graph decodes, where others do not."""
    replays = pl.col("replays")
    return (
        pl.when(replays.any().over("rank"))
        .then(
            pl.when(replays)
            .then(pl.lit(DECODE))
            .when(replays.is_null())
            .then(pl.lit(EMPTY))
            .otherwise(pl.lit(PREFILL))
        )
        .otherwise(pl.lit(None, pl.String))
    )


def _list_step_work(run: Run) -> pl.DataFrame:
    steps = list_engine_steps(run)
    if steps.height and steps.item(0, "source") == ORDER:
        return _place_by_start(run, steps)
    return _place_work(run, steps)


_WORK = ["device_op_id", "rank", "device_id", "kind", "name", "start_ns", "end_ns", "launch_id"]


def _read_work(run: Run) -> pl.DataFrame:
    ops = run.table("device_ops", _WORK)
    host = run.table("host_ops", ["host_op_id", "pid", "name", "start_ns", "end_ns"])
    at = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    is_graph = match_names(host, GRAPH_LAUNCH) if host.height else pl.Series(dtype=pl.Boolean)
    return ops.with_columns(
        pid=host.get_column("pid").gather(at),
        launch_ns=host.get_column("start_ns").gather(at),
        launch_end_ns=host.get_column("end_ns").gather(at),
        is_graph=is_graph.gather(at).fill_null(value=False) | (ops.get_column("kind") == "graph"),
    )


def _place_work(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """The device operations by the step whose range began last before their launch."""
    work = _read_work(run).drop_nulls("launch_ns").sort("launch_ns")
    begins = steps.select("rank", "pid", "step", launch_ns="host_start_ns").sort("launch_ns")
    placed = work.join_asof(
        begins, on="launch_ns", by=["rank", "pid"], strategy="backward", check_sortedness=False
    )
    return placed.drop_nulls("step").sort("rank", "step", "start_ns")


def _place_by_start(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    work = _read_work(run).sort("start_ns")
    begins = steps.select("rank", "step", "start_ns", until="end_ns").sort("start_ns")
    placed = work.join_asof(
        begins, on="start_ns", by="rank", strategy="backward", check_sortedness=False
    )
    return placed.filter(pl.col("start_ns") < pl.col("until")).drop("until")
