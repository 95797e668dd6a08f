"""What the main thread did, where no device was recorded: its time in disjoint parts.

The window of a rank is those of its marked steps in which operators were recorded, from the first
one's start to the last one's end; the first is left out where the program sets itself up in it, or
a profiler. Without marks, from the first to the last operator of the thread
that spent most time in operators. Every nanosecond of it belongs to the innermost range that is
open then (its own time), and that range to a part: loading, communication, the optimizer or
compiling where it lies in such a range; else an operator's work by its kind, if it calls no other
operator; else dispatch, if it is an operator that does; else Python. Their sum is the window.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.lookup import find_rows, match_names
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.algebra.trees import find_nearest_ancestor
from sightline.core.model.run import Run
from sightline.timeline.api_calls import LAUNCHES
from sightline.timeline.call_windows import find_longest_call_window
from sightline.timeline.engine_gaps import list_gaps
from sightline.timeline.host_ranges import COMPILING, LOADING, PACE_NS
from sightline.timeline.iterations import list_marked_steps, list_recorded_steps
from sightline.timeline.step_usage import LEAST_STEPS, measure_recording_cost

LOAD, COMMUNICATE, OPTIMIZE = "loading data", "communication", "optimizer"
RANDOM = "random numbers"
COMPILE, COPY = "compiling", "copies and allocation"
DISPATCH, PYTHON, ELSEWHERE = "dispatch", "Python", "operators of other threads"
# An inference engine's worker waits there for its scheduler, or all of it for requests.
BETWEEN_STEPS = "between engine steps"
_THREAD = ["rank", "pid", "tid"]
# torch.optim.Optimizer's own range (torch/optim/optimizer.py, profile_hook_step), and its
# zero_grad's.
_OPTIMIZER = r"^Optimizer\.(?:step|zero_grad)#"
# ProcessGroupGloo's and MPI's ranges ("gloo:all_reduce", torch/csrc/distributed/c10d), the
# dispatcher's operators (c10d::allreduce_), the metadata range around both, and MPI's own calls.
_COMMUNICATION = r"^(?:gloo|nccl|mpi|ucc):|^c10d::|^record_param_comms|^P?MPI_[A-Z]"
# JAX's calls of what XLA compiled (jaxlib, pjit.cc): they return before it has run.
_CALLS_XLA = r"^PjitFunction\("
# A first step is a setup where it takes so many times as long as the others do in the median (ours:
# PyTorch 2.13's profiler made the step behind its start 1.1 to 5 times as long, imports and
# compilers make the first of all 10 to 1,000 times as long; those of one loop differ by less).
SETUP_MEDIANS = 2.0
# Operators by what they work on (native_functions.yaml); the first that fits. What is not listed
# and is aten's works element by element, or nearly.
KINDS = (
    ("convolution", r"(?i)conv"),
    ("matrix product", r"(?i)::_?(?:addmm|mm|bmm|baddbmm|matmul|linear|mv|addmv|dot|einsum)"
     r"|mkldnn_linear|attention|_scaled_mm|lstm|gru"),
    (RANDOM, r"^aten::(?:normal_?|uniform_?|random_|randint|randn|rand|randperm|exponential_"
     r"|poisson|bernoulli_?|log_normal_|cauchy_|geometric_|multinomial)$"),
    ("normalization", r"(?i)norm(?:[^a]|$)"),
    ("pooling", r"(?i)pool|upsample|interpolate"),
    ("embedding and indexing", r"(?i)embedding|index|gather|scatter|::take|masked"),
    ("reduction", r"(?i)::(?:sum|mean|max|min|amax|amin|arg|cumsum|sort|topk|std|var|prod|all|any)"
     r"|softmax|loss|entropy"),
    (COPY, r"(?i)copy|clone|contiguous|::cat|stack|::to\b|empty|zeros|ones|fill"
     r"|zero_|resize|::set_|local_scalar|::item"),
    ("elementwise", r"^aten::"),
)  # fmt: skip
OTHER = "other operators"
# Calls of CUDA's and HIP's runtimes that copy, wait for a copy, or take and give back memory.
_MOVES = r"^(?:cu|hip|cuda)\w*(?:Mem(?:cpy|set)|Malloc|MemAlloc|Free|Synchronize)"
# What recording one range may cost at most. PyTorch 2.13's profiler took 0.9 to 1.9 µs of a core at
# 2.5 GHz (tests/subjects/host/rules/programs.py, steps with and without it); what is more is
# something else.
_MOST_RANGE_COST_NS = 3_000.0
# What operators that work call beside it: memory for their results, and other views of a tensor.
_BESIDE = (
    r"(?i)copy|clone|contiguous|::to$|empty|zeros|ones|fill|zero_|resize|::set_|view|stride|reshape"
    r"|expand|::t$|transpose|permute|squeeze|slice|select|narrow|detach|alias|unbind|split|chunk"
    r"|resolve_|lift_fresh|::item|local_scalar|is_"
)

# One backend's implementation of an operator (native_functions.yaml): it computes by itself,
# though it may call others on the way, as native_batch_norm does for its statistics.
_IMPLEMENTS = r"^aten::_?(?:native|slow|thnn|mkldnn|nnpack|cudnn|miopen|mps)_"


def has_only_host(run: Run) -> bool:
    """Whether all that was recorded of the program is what its threads did."""
    return bool(
        run.rows("host_ops") and not run.rows("device_ops") and not run.rows("profiled_kernels")
    ) and bool(list_windows(run).height)


# NCCL needs GPUs, as do the operators of cuDNN and MIOpen, and the runtimes' own calls.
_ON_DEVICE = r"^nccl:|^aten::_?(?:cudnn|miopen)_|^(?:cuda|hip)[A-Z]"
# Recurrent layers ask it of any tensor, and it answers no on a CPU (PyTorch, native/RNN.cpp).
_ASKS_DEVICE = "aten::cudnn_is_acceptable"
# Memory that nothing is written to takes microseconds of a CPU, however much it is; so long an
# allocation makes a GPU's context first (0.1 to 4 s in recordings of others; the limit is ours).
_ALLOCATION, _CONTEXT_NS = r"^aten::empty(?:_strided)?$", 50_000_000


def uses_device(run: Run) -> bool:
    """Whether the host's ranges show that the program runs on a GPU, recorded or not."""
    host = run.table("host_ops", ["name", "start_ns", "end_ns"])
    name, ns = pl.col("name").cast(pl.String), pl.col("end_ns") - pl.col("start_ns")
    makes_context = name.str.contains(_ALLOCATION) & (ns >= _CONTEXT_NS)
    on_device = name.str.contains(_ON_DEVICE) & (name != _ASKS_DEVICE)
    return bool(host.select((on_device | makes_context).any()).item())


def has_operators(run: Run) -> bool:
    """Whether operators were recorded: else nothing is known of what lies between them."""
    return run.once(_has_operators)


def _has_operators(run: Run) -> bool:
    return not run.scan("host_ops").filter(pl.col("layer") == "op").head(1).collect().is_empty()


def list_windows(run: Run) -> pl.DataFrame:
    """The main thread of each rank that has ranges: rank, pid, tid, start_ns, end_ns, steps."""
    return run.once(_list_windows)


# What is asked of a main thread's range.
_RANGE = (
    *("host_op_id", "parent_id", "subtree_end_id", "depth", "rank", "recording_id"),
    *("pid", "tid", "layer", "name", "start_ns", "end_ns"),
)


def _list_windows(run: Run) -> pl.DataFrame:
    host = run.table("host_ops", [*_THREAD, "layer", "start_ns", "end_ns"]).filter(
        pl.col("end_ns") >= pl.col("start_ns")
    )
    # A profiler covers some steps of a loop; in the others nothing says what the thread did.
    steps = _drop_setup(list_recorded_steps(run))
    marked = (
        host.filter(pl.col("layer") == "step")
        .join(steps, on=["rank", "pid", "start_ns", "end_ns"], how="semi")
        .group_by(_THREAD)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max(), steps=pl.len().cast(pl.Int64))
    )
    others = host.join(marked, on="rank", how="anti").filter(pl.col("layer") == "op")
    longest = (
        others.group_by(_THREAD)
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            spent=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            steps=pl.lit(0, pl.Int64),
        )
        .sort("rank", "spent", "tid", descending=[False, True, False])
        .unique("rank", keep="first", maintain_order=True)
        .drop("spent")
    )
    columns = [*_THREAD, "start_ns", "end_ns", "steps"]
    # Of processes that share a rank, the one whose steps take longest.
    every = pl.concat([marked.select(columns), longest.select(columns)])
    length = pl.col("end_ns") - pl.col("start_ns")
    return (
        every.filter(length > 0)
        .sort("rank", length, "tid", descending=[False, True, False])
        .unique("rank", keep="first", maintain_order=True)
    )


def _drop_setup(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps without each process' first, if that is far longer than the others are."""
    length = pl.col("end_ns") - pl.col("start_ns")
    by = ["rank", "pid"]
    nth = pl.int_range(pl.len()).over(by)
    usual = length.filter(nth > 0).median().over(by)
    sets_up = (nth == 0) & (pl.len().over(by) > LEAST_STEPS) & (length > SETUP_MEDIANS * usual)
    return steps.sort("rank", "start_ns").filter(~sets_up.fill_null(value=False))


def sum_host_windows(run: Run) -> int:
    """All main threads' windows together, ns; 1 where there are none, as it is divided by."""
    windows = list_windows(run).select(ns=pl.col("end_ns") - pl.col("start_ns"))
    return max(sum_column(windows, "ns"), 1)


def find_longest_window(run: Run) -> int:
    """The longest device's, or main thread's where there is no device, ns; 0 without either.

    Of a program of which nothing but its calls was recorded: from its first one to its last one.
    """
    if run.rows("device_ops"):
        return find_largest(run.ask("breakdown"), "window_ns")
    if has_only_host(run):
        windows = list_windows(run).select(ns=pl.col("end_ns") - pl.col("start_ns"))
        return find_largest(windows, "ns")
    return find_longest_call_window(run)


def list_segments(run: Run) -> pl.DataFrame:
    """The windows of main threads cut where the innermost open range changes; they tile them.

    rank, start_ns, end_ns, own_ns (the length), undisturbed_ns (without what recording the ranges
    beside it took, as far as steps without recording tell), host_op_id, name, layer (null where no
    range is open), part, works (an operator that calls no other but for memory). Of a rank in order
    of time.
    """
    return run.once(_list_segments)


def _list_segments(run: Run) -> pl.DataFrame:
    windows = list_windows(run)
    host = _cut_to_parents(_take_inside(run, windows))
    segments = _cut_by_ranges(host, windows)
    rows = find_rows(host.get_column("host_op_id"), segments.get_column("host_op_id"))
    told = host.select(pl.col("name", "layer", "part", "works").gather(rows))
    segments = segments.hstack(told).with_columns(
        pl.col("part").fill_null(PYTHON), pl.col("works").fill_null(value=False)
    )
    segments = _find_waits(run, windows, segments)
    return _take_off_recording(run, windows, host, segments)


def _take_off_recording(
    run: Run, windows: pl.DataFrame, host: pl.DataFrame, segments: pl.DataFrame
) -> pl.DataFrame:
    """`undisturbed_ns`: what a range's recording takes lies around it, half on each side.

    PyTorch reads the clock last when a range begins and first when it ends
    (torch/csrc/profiler/collection.cpp), so its work is the enclosing range's time.
    """
    ranges = host.group_by("rank").agg(ranges=pl.len())
    costs = (
        windows.join(measure_recording_cost(run), on="rank", how="inner")
        .join(ranges, on="rank", how="inner")
        .select(
            "rank",
            cost=((pl.col("recorded_step_ns") - pl.col("undisturbed_step_ns")) * pl.col("steps")
                  / pl.col("ranges")).clip(0, _MOST_RANGE_COST_NS),
        )
    )  # fmt: skip
    taken = pl.col("edges") * pl.col("cost").fill_null(0) / 2
    return (
        segments.join(costs, on="rank", how="left", maintain_order="left")
        .with_columns(undisturbed_ns=(pl.col("own_ns") - taken.round().cast(pl.Int64)).clip(0))
        .drop("edges", "cost")
    )


def _take_inside(run: Run, windows: pl.DataFrame) -> pl.DataFrame:
    """The main threads' ranges that reach into their windows, with the part of each."""
    host = run.table("host_ops", _RANGE)
    if not host.get_column("host_op_id").is_sorted():
        host = host.sort("host_op_id")
    spans = windows.select(*_THREAD, since="start_ns", until="end_ns")
    inside = host.join(spans, on=_THREAD, how="inner", maintain_order="left").filter(
        pl.col("end_ns") > pl.col("since"), pl.col("start_ns") < pl.col("until")
    )
    parent = find_rows(inside.get_column("host_op_id"), inside.get_column("parent_id"))
    is_op = inside.get_column("layer") == "op"
    callers = parent.filter(is_op & ~match_names(inside, _BESIDE)).drop_nulls().unique()
    rows = pl.int_range(inside.height, eager=True)
    computes = match_names(inside, _IMPLEMENTS)
    inside = inside.with_columns(works=is_op & (~rows.is_in(callers.implode()) | computes))
    return inside.with_columns(part=_name_parts(inside))


def _cut_to_parents(host: pl.DataFrame) -> pl.DataFrame:
    """No range ends behind the one that it lies in: some do, by their clock's resolution."""
    parent = find_rows(host.get_column("host_op_id"), host.get_column("parent_id"))
    while True:
        ends = host.get_column("end_ns")
        cut = pl.select(pl.min_horizontal(pl.lit(ends), pl.lit(ends.gather(parent)))).to_series()
        if cut.equals(ends):
            return host
        host = host.with_columns(end_ns=cut)


def _cut_by_ranges(host: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Between two boundaries the innermost range is what began, or what held that which ended."""
    order = pl.col("host_op_id")
    # A range without length has no time of its own; its end would come before its begin here.
    host = host.filter(pl.col("end_ns") > pl.col("start_ns"))
    begun = host.select("rank", at="start_ns", host_op_id="host_op_id", turn=order, ends=pl.lit(0))
    # Of ranges that end at once the inner one ends first, and all before another begins.
    ended = host.select(
        "rank", at="end_ns", host_op_id="parent_id", turn=-order - 1, ends=pl.lit(1)
    )
    first = windows.select(
        "rank",
        at="start_ns",
        host_op_id=pl.lit(None, pl.Int64),
        turn=pl.lit(-(2**62)),
        ends=pl.lit(0),
    )
    spans = windows.select("rank", since="start_ns", until="end_ns")
    events = (
        pl.concat([first, begun, ended])
        .join(spans, on="rank", how="inner", maintain_order="left")
        .sort("rank", "at", "turn")
        .with_columns(
            end_ns=pl.col("at").shift(-1).over("rank").fill_null(pl.col("until")),
            # Beside how many edges of a range that lies in the same one it is.
            edges=pl.col("ends") + 1 - pl.col("ends").shift(-1).over("rank").fill_null(1),
        )
    )
    return (
        events.select(
            "rank",
            "host_op_id",
            "edges",
            start_ns=pl.col("at").clip(pl.col("since"), pl.col("until")),
            end_ns=pl.col("end_ns").clip(pl.col("since"), pl.col("until")),
        )
        .with_columns(own_ns=pl.col("end_ns") - pl.col("start_ns"))
        .filter(pl.col("own_ns") > 0)
    )


def _name_parts(inside: pl.DataFrame) -> pl.Series:
    ids = inside.get_column("host_op_id")
    claims = []
    for part, pattern in (
        (LOAD, LOADING),
        (COMMUNICATE, _COMMUNICATION),
        (OPTIMIZE, _OPTIMIZER),
        (COMPILE, COMPILING),
        (DISPATCH, _CALLS_XLA),
    ):
        claiming = ids.filter(match_names(inside, pattern) & (inside.get_column("layer") != "step"))
        if claiming.len():
            is_claimed = find_nearest_ancestor(inside, ids, claiming).is_not_null()
            claims.append(pl.when(pl.lit(is_claimed)).then(pl.lit(part)))
    name = pl.col("name")
    kinds = [
        pl.when(pl.col("works") & name.str.contains(pattern)).then(pl.lit(kind))
        for kind, pattern in KINDS
    ]
    # A runtime's call in an operator is what that does: it moves data, waits for it, or launches.
    calls = pl.col("layer").is_in(["runtime", "driver"])
    rest = (
        pl.when(calls & name.str.contains(_MOVES))
        .then(pl.lit(COPY))
        .when(calls & name.str.contains(LAUNCHES))
        .then(pl.lit(DISPATCH))
        .when(pl.col("works"))
        .then(pl.lit(OTHER))
        .when(pl.col("layer") == "op")
        .then(pl.lit(DISPATCH))
        .otherwise(pl.lit(PYTHON))
    )
    return inside.select(pl.coalesce(*claims, *kinds, rest)).to_series()


def _find_waits(run: Run, windows: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Python time while another thread of the rank works is waiting for that, and split off.

    Gloo and MPI communicate on threads of their own, and autograd computes on others; the main one
    waits for them outside of any range. Between two steps the worker of an inference engine waits
    for its scheduler, in whatever function: it reads a queue and yields the core meanwhile.
    """
    used = (*_THREAD, "layer", "name", "start_ns", "end_ns")
    other = run.table("host_ops", used).join(windows, on=_THREAD, how="anti")
    communicates = match_names(other, _COMMUNICATION)
    computes = ~communicates & (other.get_column("layer") == "op")
    for part, spans in (
        (COMMUNICATE, other.filter(communicates)),
        (ELSEWHERE, other.filter(computes)),
    ):
        segments = _split_off(segments, spans.select("rank", "start_ns", "end_ns"), part)
    gaps = list_gaps(run).with_columns(end_ns=pl.col("gap_start_ns") + pl.col("gap_ns"))
    gaps = gaps.select("rank", "end_ns", start_ns="gap_start_ns")
    return _split_off(segments, gaps, BETWEEN_STEPS)


def _split_off(segments: pl.DataFrame, spans: pl.DataFrame, part: str) -> pl.DataFrame:
    """What of Python lies in the spans becomes segments of their own."""
    if spans.is_empty():
        return segments
    waited = measure_cover_between(segments, "start_ns", "end_ns", spans, ["rank"])
    segments = segments.with_columns(waited=waited)
    may_wait = (pl.col("part") == PYTHON) & (pl.col("waited") > 0)
    # What recording took at the edges is Python's while there is some: it waits in the middle.
    edges = pl.when(pl.col("waited") == pl.col("own_ns")).then("edges").otherwise(0)
    waits = segments.filter(may_wait).with_columns(
        edges, part=pl.lit(part), own_ns=pl.col("waited")
    )
    rest = segments.with_columns(
        own_ns=pl.when(may_wait).then(pl.col("own_ns") - pl.col("waited")).otherwise("own_ns")
    ).filter(pl.col("own_ns") > 0)
    return pl.concat([waits, rest]).drop("waited").sort("rank", "start_ns", maintain_order=True)


def list_long_python(run: Run) -> pl.DataFrame:
    """Segments of Python in stretches that are longer than a pace: work, or waiting."""
    return _split_python(run).filter(pl.col("stretch_ns") > PACE_NS).drop("stretch_ns")


def list_short_python(run: Run) -> pl.DataFrame:
    """Segments of Python in stretches as short as a call of the next operator needs."""
    return _split_python(run).filter(pl.col("stretch_ns") <= PACE_NS).drop("stretch_ns")


def _split_python(run: Run) -> pl.DataFrame:
    """The segments of Python, with the length of all that follow each other without a break."""
    segments = list_segments(run)
    is_python = pl.col("part") == PYTHON
    stretch = (is_python != is_python.shift(1).over("rank")).fill_null(value=True).cum_sum()
    return (
        segments.with_columns(stretch=stretch)
        .filter(is_python)
        .with_columns(stretch_ns=pl.col("own_ns").sum().over("stretch"))
        .drop("stretch")
    )


def _count_before(run: Run) -> pl.DataFrame:
    steps = list_marked_steps(run).sort("rank", "start_ns")
    return steps.select("rank", "start_ns", before=pl.int_range(pl.len()).over("rank"))


def count_step_operators(run: Run) -> pl.DataFrame:
    """The recorded steps of main threads in order, with the operators on all threads.

    rank, start_ns, ns, operators, and before: how many marked steps came before it.
    """
    main = list_windows(run).select("rank", "pid")
    steps = list_recorded_steps(run).join(main, on=["rank", "pid"], how="semi").sort("start_ns")
    began = run.scan("host_ops").filter(pl.col("layer") == "op").select("rank", at="start_ns")
    counted = (
        began.collect()
        .sort("at")
        .join_asof(steps, left_on="at", right_on="start_ns", by="rank", check_sortedness=False)
        .filter(pl.col("at") < pl.col("end_ns"))
        .group_by("rank", "start_ns")
        .agg(operators=pl.len().cast(pl.Int64))
    )
    return (
        steps.join(counted, on=["rank", "start_ns"], how="left", maintain_order="left")
        .join(_count_before(run), on=["rank", "start_ns"], how="left", maintain_order="left")
        .select(
            "rank", "start_ns", "before", pl.col("operators").fill_null(0),
            ns=pl.col("end_ns") - pl.col("start_ns"),
        )
        .sort("rank", "start_ns")
    )  # fmt: skip
