"""Who called: the line of Python, module or range of the user's own that a call was made from."""

from __future__ import annotations

import sys

import polars as pl

from sightline.core.algebra.lookup import Texts, find_rows, match_names
from sightline.core.algebra.trees import find_nearest_ancestor
from sightline.core.model.run import Run
from sightline.timeline.host_ranges import find_host_ancestor
from sightline.timeline.iterations import STEP_RANGES

# How PyTorch's profiler names frames: "FILE(LINE): FUNCTION", the path below where it was found;
# "<built-in …>" and "nn.Module: NAME_NUMBER" beside them.
_FRAME = r"\.py\(\d+\): "
_MODULE = r"^nn\.Module: "
# What is nobody's own: the framework, the compilers below it and Python's library. A path below
# lib/python3.N is the library's, where it is not in a folder of installed packages.
_STANDARD = "|".join(sorted(name for name in sys.stdlib_module_names if name != "__main__"))
_FRAMEWORK = (
    r"(?:^|(?:site|dist)-packages/)(?:torch|torchgen|functorch|triton|tqdm)/"
    r"|/lib/python3\.\d+/(?:" + _STANDARD + r")(?:\.py|/)"
    r"|^(?:" + _STANDARD + r")(?:\.py\(|/)|^<"
)
# Ranges that a framework or profiler puts around everything.
_EVERYTHING = (
    r"^(?:ProfilerStep|Optimizer\.(?:step|zero_grad)#|PyTorch Profiler"
    r"|DistributedDataParallel\.|nccl:)"
)


def find_callers(run: Run, ids: pl.Series) -> pl.Series:
    """For each host operation who called it, or null where the recording does not say.

    The innermost Python line outside the framework and Python's own library; else the module, of
    all its instances; else the innermost range of the user's. Of a backward operation these are its
    forward operation's.
    """
    marks = run.once(_list_marks)
    found = _climb(run, ids, marks)
    if not found.is_null().any():
        return found
    host = run.columns("host_ops", ["host_op_id", "forward_id"])
    forward = host.get_column("forward_id")
    linked = host.get_column("host_op_id").filter(forward.is_not_null())
    if linked.is_empty():
        return found
    backward = find_host_ancestor(run, ids, linked)
    origin = forward.gather(find_rows(host.get_column("host_op_id"), backward))
    return pl.select(pl.coalesce(found, _climb(run, origin, marks))).to_series()


def find_places(run: Run, ids: pl.Series) -> pl.Series:
    """For each host operation the innermost nn.Module around it, else the innermost user's range.

    Of a module's instances and a range's numbers the text says nothing: it is the same in two runs.
    """
    _, modules, ranges = run.once(_list_marks)
    marks = [modules, ranges.filter(~match_names(ranges, STEP_RANGES, "text"))]
    found = _climb(run, ids, marks)
    return found.str.strip_prefix("nn.Module: ")


def find_operators(host: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """For each host operation the innermost and outermost framework operator around it, by name.

    Columns `operator` and `outer_operator`, null where there is none.
    """
    known = host.select(
        "host_op_id", "subtree_end_id", "layer", pl.col("name").cast(pl.Categorical)
    )
    ops = known.filter(pl.col("layer") == "op").sort("host_op_id")
    inner = find_nearest_ancestor(host, ids, ops.get_column("host_op_id"))
    names = ops.get_column("name")
    # Ids are preorder: what begins inside an operator before it is inside of it.
    reach = pl.col("subtree_end_id").cum_max().shift(1)
    outermost = ops.filter((pl.col("host_op_id") >= reach).fill_null(value=True))
    begun = outermost.get_column("host_op_id").search_sorted(ids, side="right").cast(pl.Int64) - 1
    at = pl.select(pl.when((begun >= 0) & ids.is_not_null()).then(begun)).to_series()
    inside = (outermost.get_column("subtree_end_id").gather(at) > ids).fill_null(value=False)
    outer = outermost.get_column("name").gather(at)
    return pl.DataFrame(
        {
            "operator": names.gather(find_rows(ops.get_column("host_op_id"), inner)),
            "outer_operator": pl.select(pl.when(inside).then(outer)).to_series(),
        }
    )


def _climb(run: Run, ids: pl.Series, marks: list[pl.DataFrame]) -> pl.Series:
    """The text of the nearest of the first kind of marks that there is one of."""
    answer = pl.repeat(None, ids.len(), dtype=pl.String, eager=True)
    for kind in marks:
        known = kind.get_column("host_op_id")
        if known.is_empty() or not answer.is_null().any():
            continue
        nearest = find_host_ancestor(run, ids, known)
        text = kind.get_column("text").gather(find_rows(known, nearest))
        answer = pl.select(pl.coalesce(answer, text)).to_series()
    return answer


def _list_marks(run: Run) -> list[pl.DataFrame]:
    """The user's own frames, modules and ranges: host_op_id and text, for each kind."""
    host = run.table("host_ops", ["host_op_id", "layer", "name"])
    python = host.filter(pl.col("layer") == "python")
    texts = Texts(python.get_column("name"))
    own = texts.match(_FRAME) & ~texts.match(_FRAMEWORK)
    ranges = host.filter(pl.col("layer") == "annotation")
    is_module = texts.match(_MODULE)
    return [
        python.filter(own).select("host_op_id", text="name"),
        python.filter(is_module).select(
            "host_op_id", text=pl.col("name").str.replace(r"_\d+$", "")
        ),
        ranges.filter(~match_names(ranges, _EVERYTHING)).select("host_op_id", text="name"),
    ]
