"""What a training step does beside its model: gradients cleared, optimizers, new tensors."""

from __future__ import annotations

import polars as pl

from sightline.subjects.kernels.patterns.calls import BACKWARD, Calls
from sightline.subjects.kernels.patterns.declare import MATCHES, Pattern, keep_nothing, make_matches
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

# Numbers read and written for each parameter by an operator over lists of tensors (PyTorch,
# torch/optim/adam.py, _multi_tensor_adam), and by the one fused kernel: weight, gradient and both
# moments are read, weight and moments written.
_FOREACH_WORDS = {
    "aten::_foreach_mul": 2,
    "aten::_foreach_add": 2,
    "aten::_foreach_div": 2,
    "aten::_foreach_sqrt": 2,
    "aten::_foreach_lerp": 3,
    "aten::_foreach_addcmul": 3,
    "aten::_foreach_addcdiv": 4,
    "aten::_foreach_maximum": 3,
}
_FUSED_WORDS = 7
_LEAST_WORDS = 2 * _FUSED_WORDS  # ours: SGD has less, and little to gain
# What the engine asks of each gradient where anomalies are looked for: isnan, whether there is any,
# and its value on the host (torch/csrc/autograd/engine.cpp, AnomalyMode::should_check_nan).
_CHECK = r"^aten::(?:isnan|_is_any_true|item)$"
_ASKED = r"^aten::_is_any_true$"
# An operator begins its first part within this time, recorded or not (ours: usual are 2 to 5 µs).
_USUAL_NS = 20_000


def _find_cleared_gradients(calls: Calls) -> pl.DataFrame:
    """Fills in Optimizer.zero_grad (torch/optim/optimizer.py names its range so)."""
    return keep_nothing(_select_in(calls, r"^Optimizer\.zero_grad#"))


def _find_foreach_optimizer(calls: Calls) -> pl.DataFrame:
    """Adam by _foreach_ operators: what one fused pass over its tensors keeps of all of theirs."""
    inside = _select_in(calls, r"^Optimizer\.step#(?:Adam|AdamW|SGD|Adagrad)\.step")
    words = {
        kind: _FOREACH_WORDS[name.rstrip("_")]
        for kind, (name, _) in enumerate(calls.kinds)
        if name.rstrip("_") in _FOREACH_WORDS
    }
    known = pl.DataFrame(
        {"kind": list(words), "words": list(words.values())},
        schema={"kind": pl.Int64, "words": pl.Int64},
    )
    each = inside.join(known, on="kind", maintain_order="left")
    # Each operator passes over all tensors once: those of one step are told apart by the range.
    moved = pl.col("words").sum().over("range")
    is_many = moved >= _LEAST_WORDS
    kept = pl.col("kernel_ns").sum().over("range") * _FUSED_WORDS / moved
    return (
        each.with_columns(keep_ns=kept, many=is_many)
        .filter("many")
        .select("call", match="range", keep_bytes=pl.lit(0.0), keep_ns="keep_ns")
        .select(*MATCHES)
    )


def _select_in(calls: Calls, ranges: str) -> pl.DataFrame:
    """The calls in ranges of these names, with `range`, the range's id."""
    ids = calls.run.columns("host_ops", ["host_op_id"]).get_column("host_op_id")
    wanted = ids.filter(list_host_names(calls.run).match(ranges))
    if wanted.is_empty():
        return calls.table.clear().with_columns(range=pl.lit(None, pl.Int64))
    inside = find_host_ancestor(calls.run, calls.table.get_column("call"), wanted)
    return calls.table.with_columns(range=inside).drop_nulls("range")


def _find_anomaly_checks(calls: Calls) -> pl.DataFrame:
    """isnan, any and item that autograd's engine asks of each gradient."""
    host = calls.run.columns("host_ops", ["host_op_id"])
    ids, names = host.get_column("host_op_id"), list_host_names(calls.run)
    asked = ids.filter(names.match(_ASKED))
    nodes = ids.filter(names.match(BACKWARD))
    if asked.is_empty() or find_host_ancestor(calls.run, asked, nodes).null_count() == asked.len():
        return make_matches(())
    inside = _select_in(calls, _CHECK)
    return keep_nothing(inside.drop_nulls("node"))


def _list_stack_traces(calls: Calls) -> pl.DataFrame:
    """Where operators of the forward pass note the Python stack, as they do for anomalies.

    What autograd records makes its node before anything else, and the node takes the stack then
    (torch/csrc/autograd/function.h): the operator's first part, or its end, is late.
    """
    columns = ["rank", "pid", "tid", "layer", "depth", "start_ns", "end_ns", "sequence_id"]
    host = calls.run.columns("host_ops", columns).filter(pl.col("layer") == "op")
    thread = ["rank", "pid", "tid"]
    late = (
        host.sort(*thread, "start_ns", "depth")
        .with_columns(
            next=pl.col("start_ns").shift(-1).over(thread),
            deeper=pl.col("depth").shift(-1).over(thread) > pl.col("depth"),
        )
        .drop_nulls("sequence_id")
        .with_columns(
            start_ns=pl.col("start_ns") + _USUAL_NS,
            end_ns=pl.when(pl.col("deeper")).then("next").otherwise("end_ns"),
        )
    )
    return late.filter(pl.col("end_ns") > pl.col("start_ns")).select(*thread, "start_ns", "end_ns")


PATTERNS = (
    Pattern(
        "anomaly-detection",
        "Anomaly detection is on",
        _find_anomaly_checks,
        cause="autograd looks for NaN in every gradient of the backward pass and waits for the "
        "answer, and each operator of the forward pass notes the Python stack",
        fix="torch.autograd.set_detect_anomaly(False), and no detect_anomaly() around the step: "
        "switch it on to find a NaN, and off again",
        source="PyTorch Performance Tuning Guide: Disable debugging APIs; torch.autograd: "
        "detect_anomaly",
        confidence="high",
        with_backward=False,
        ranges=_list_stack_traces,
    ),
    Pattern(
        "gradients-cleared",
        "Gradients cleared instead of dropped",
        _find_cleared_gradients,
        cause="all gradients are filled with zeros, to which backward then adds (zero_grad)",
        fix="optimizer.zero_grad(set_to_none=True)",
        source="torch.profiler: GradNotSetToNonePattern; PyTorch Performance Tuning Guide",
        with_backward=False,
    ),
    Pattern(
        "optimizer-not-fused",
        "Optimizer by lists of tensors instead of fused",
        _find_foreach_optimizer,
        cause="the optimizer passes over all parameters once for each operator of its formula",
        fix="torch.optim.AdamW(..., fused=True)",
        source="PyTorch: torch.optim, Algorithms (for-loop, foreach, fused)",
        with_backward=False,
        with_host=False,
    ),
)
