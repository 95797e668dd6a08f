"""What forward passes still hold in a snapshot without history, by the layer that asked for it.

What a forward pass allocates and nothing frees is kept for the backward pass: autograd's saved
tensors. Caches of keys and values are kept, too, and left out by their names.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.algebra.trees import climb_to_rows
from sightline.core.model.run import Run
from sightline.subjects.memory.memory_stacks import FORWARD, describe_stacks
from sightline.timeline.memory_calls import find_memory_calls

# Frames of PyTorch itself, which call every layer.
_TORCH = (
    r"(?:site|dist)-packages[/\\]torch[/\\]|^torch[/\\]|[/\\]torch[/\\](?:nn|autograd|_dynamo)[/\\]"
)
# Keys and values that a model keeps from token to token (transformers' cache_utils.py, vLLM's
# kv_cache, StaticCache and the like).
_CACHES = r"(?i)kv_?cache|cache_utils|past_key|\bcache\b"
# Layers by the names of their files and functions (torch.nn.functional, diffusers, transformers,
# timm): the first that fits.
LAYERS = (
    ("attention", r"(?i)attention|attn|softmax|sdpa"),
    ("LoRA", r"(?i)lora|peft"),
    ("activation functions", r"(?i)gelu|silu|relu|swiglu|activation"),
    ("normalization", r"(?i)norm"),
    ("convolution", r"(?i)conv|resnet|upsampl|downsampl"),
    ("linear layers", r"(?i)linear|mlp|feed_?forward"),
)
ATTENTION = "attention"


def list_held_activations(run: Run, blocks: pl.DataFrame) -> pl.DataFrame:
    """The blocks (with `stack_id`) that a forward pass allocated, with `layer` and `line`.

    `layer` is of LAYERS, null for others; `line` the innermost line outside PyTorch.
    """
    calls = find_memory_calls(run)
    stacks = calls.stacks.select("stack_id", "parent_id", "frame_id")
    frames = calls.frames.select("frame_id", "layer", "function", "file", "line")
    known = stacks.join(frames, on="frame_id", how="left", maintain_order="left")
    file = pl.col("file").fill_null("")
    own = known.select((pl.col("layer") == "python") & ~file.str.contains(_TORCH)).to_series()
    up = find_rows(known.get_column("stack_id"), known.get_column("parent_id")).cast(pl.UInt32)
    rows = pl.int_range(known.height, dtype=pl.UInt32, eager=True)
    nearest = climb_to_rows(up, own.arg_true().cast(pl.UInt32), rows)
    base = file.str.split("/").list.last()
    lines = known.select(
        line=pl.format("{} ({}:{})", "function", base, pl.col("line").fill_null(0))
    )
    # PyTorch's own function says more of what it is than the line that calls it: softmax, gelu.
    text = known.select(text=pl.format("{} {}", pl.col("function").fill_null(""), base)).to_series()
    told = text + " " + lines.get_column("line").gather(nearest).fill_null("")
    layer = pl.coalesce(pl.when(told.str.contains(p)).then(pl.lit(n)) for n, p in LAYERS)
    layers = pl.DataFrame(
        {
            "stack_id": known.get_column("stack_id"),
            "line": lines.get_column("line").gather(nearest),
            "layer": pl.select(layer).to_series(),
            "caches": told.str.contains(_CACHES),
        }
    )
    phases = describe_stacks(run).select("stack_id", "phase")
    return (
        blocks.join(phases, on="stack_id")
        .filter(pl.col("phase") == FORWARD)
        .join(layers, on="stack_id", how="left", maintain_order="left")
        .filter(~pl.col("caches").fill_null(value=False))
    )
