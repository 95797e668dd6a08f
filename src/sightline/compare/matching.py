"""Which operations of two sides are the same, and how that is known.

From rung to rung of a ladder the rest is matched by less: the name as recorded and where it was
launched, the name alone, its spelling, its variant, the operator and place, the operators that a
fused kernel is named after. Each operation is in exactly one pair, so pairs sum to the step.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

import polars as pl

from sightline.compare.sample import KEY
from sightline.core.algebra.kernel_names import normalize_kernel_name
from sightline.core.cxx_names import demangle
from sightline.core.kernel_labels import describe_kernel

EXACT, SPELLING, VARIANT, OPERATOR, FUSED, ALONE = (
    "exact",
    "spelling",
    "variant",
    "operator",
    "fused",
    "unmatched",
)
# Grades by what two operations have in common, the most telling first.
LADDER = (
    (EXACT, ("part", "name", "operator", "place")),
    (EXACT, ("part", "name", "operator")),
    (EXACT, ("part", "name")),
    (SPELLING, ("part", "spelling", "operator")),
    (SPELLING, ("part", "spelling")),
    (VARIANT, ("part", "variant", "operator", "place")),
    (VARIANT, ("part", "variant", "operator")),
    (VARIANT, ("part", "variant")),
    (OPERATOR, ("part", "operator", "place")),
    (OPERATOR, ("part", "operator")),
    (OPERATOR, ("part", "outer_operator", "place")),
    (OPERATOR, ("part", "outer_operator")),
)

# What GEMM libraries and compilers choose anew for each GPU and shape: the architecture at the
# beginning (cuBLAS' ampere_, cuDNN's sm80_, AMD's gfx942), tiles, stages, alignments and split-K.
_ARCHITECTURE = re.compile(
    r"(?:^|(?<=[_\W]))(?:maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm_?\d{2,3}[a-z]?"
    r"|gfx\d+\w?)_"
)
_TILES = re.compile(
    r"[_ ](?:tilesize|warpgroupsize|warpsize|stages?_?|sliced|bt|wt|MT)?\d+(?:x\d+)+(?=_| |$)"
    r"|[_ ](?:stages?|ldg|align|kernel_)\d+(?=_| |$)|[_ ]split[kK]\w*?(?=_| |$)"
)
# Inductor numbers its kernels, Triton names specialisations by hashes and by their arguments.
_TRITON_TAIL = re.compile(r"(?:_[0-9a-f]{8,}|_\d+(?:[dce]\w*)?)+$")
# triton_poi_fused_add_mul_3: what Inductor fused (torch/_inductor/codegen/triton.py).
_FUSED = re.compile(r"^triton_[a-z]+_fused_(.+?)(?:_\d+)?$")

# PyTorch writes 'Memcpy HtoD (Pinned -> Device)' and 'Memset (Device)', Nsight Systems
# '[CUDA memcpy Host-to-Device]' and '[CUDA memset]'.
_MEMORY = re.compile(r"^(?:\[CUDA )?[Mm](?P<kind>emcpy|emset)\b ?(?P<words>[\w-]*)")
_DIRECTION = re.compile(r"Host|Device|Peer")


@lru_cache(maxsize=65536)
def name_variant(name: str) -> str:
    """A kernel's name without what a library or compiler chooses by GPU, shape and tuning.

    'ampere_sgemm_128x64_tn' and 'volta_sgemm_32x128_tn' are both 'sgemm_tn'.
    """
    text = describe_kernel(name).text
    if text.startswith("triton"):
        return _TRITON_TAIL.sub("", text)
    return _TILES.sub("", _ARCHITECTURE.sub("", text)) or text


@lru_cache(maxsize=65536)
def spell_name(name: str) -> str:
    """A kernel's, copy's or memset's name as all profilers would write it."""
    memory = _MEMORY.match(name)
    if memory is None:
        return normalize_kernel_name(demangle(name))
    words = _DIRECTION.sub(lambda m: m[0][0], memory["words"]).replace("-to-", "to")
    return f"M{memory['kind']} {words}".rstrip()


def name_family(name: str) -> str:
    """What a kernel, copy or memset is called over profilers, libraries, GPUs and tunings."""
    return spell_name(name) if _MEMORY.match(name) else name_variant(name)


def match_leaves(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """The leaves of both sides with `side` (0, 1), `pair` and `grade`; each leaf once.

    `before` and `after` have the columns KEY, `ns`, `instances` and `total_ns`.
    """
    both = pl.concat(
        [
            before.with_columns(side=pl.lit(0, pl.Int8)),
            after.with_columns(side=pl.lit(1, pl.Int8)),
        ],
        how="diagonal_relaxed",
    )
    names = both.select(pl.col("name").unique()).with_columns(
        spelling=pl.col("name").map_elements(spell_name, return_dtype=pl.String),
        variant=pl.col("name").map_elements(name_variant, return_dtype=pl.String),
    )
    rest = both.join(names, on="name", how="left", maintain_order="left")
    done: list[pl.DataFrame] = []
    count = 0
    for grade, key in LADDER:
        found, rest = _match_by(rest, key, grade, count)
        count += found.get_column("pair").n_unique()
        done.append(found)
    for members, grade in _match_rest(rest):
        done.append(rest[members].with_columns(pair=pl.lit(count, pl.UInt32), grade=pl.lit(grade)))
        count += 1
    return pl.concat(done).drop("spelling", "variant")


def _match_by(
    rest: pl.DataFrame, key: tuple[str, ...], grade: str, first: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What is on both sides by this key, numbered from `first` on; and what is not."""
    # Where it was launched may be unknown on both sides; that alone makes nothing the same.
    asked = rest.filter(pl.col(key[1]).is_not_null())
    both_sides = (
        asked.group_by(key, maintain_order=True)
        .agg(sides=pl.col("side").n_unique())
        .filter(pl.col("sides") == 2)
        .drop("sides")
        .with_row_index("pair", offset=first)
    )
    numbered = rest.join(both_sides, on=key, how="left", nulls_equal=True, maintain_order="left")
    is_matched = pl.col("pair").is_not_null() & pl.col(key[1]).is_not_null()
    return (
        numbered.filter(is_matched).with_columns(grade=pl.lit(grade)),
        numbered.filter(~is_matched).drop("pair"),
    )


def _match_rest(rest: pl.DataFrame) -> Iterator[tuple[list[int], str]]:
    """Rows that fused kernels' names join to operators of the other side; the others alone.

    Inductor names a kernel after the operators in it: what has vanished of them is in there.
    """
    rows = rest.select("part", "side", "name", "operator").rows()
    group = list(range(len(rows)))

    def find(at: int) -> int:
        while group[at] != at:
            group[at] = group[group[at]]
            at = group[at]
        return at

    by_operator = defaultdict(list)
    for at, (part, side, _, operator) in enumerate(rows):
        if operator is not None:
            by_operator[part, side, operator.rpartition("::")[2].rstrip("_")].append(at)
    for at, (part, side, name, _) in enumerate(rows):
        fused = _FUSED.match(name)
        if fused is None:
            continue
        words = f"_{fused[1]}_"
        for (its_part, its_side, operator), places in by_operator.items():
            if its_part == part and its_side != side and f"_{operator}_" in words:
                for place in places:
                    group[find(place)] = find(at)
    members = defaultdict(list)
    for at in range(len(rows)):
        members[find(at)].append(at)
    for found in members.values():
        sides = {rows[at][1] for at in found}
        yield found, FUSED if len(sides) == 2 else ALONE


def list_pairs(matched: pl.DataFrame) -> pl.DataFrame:
    """One row per pair, with both sides' sums; the largest change first.

    `before_ns`, `after_ns` and `delta_ns` are int64 ns of the mean step, and sum to those of the
    steps. `before_names` and `after_names` are the kernels' names, the costliest first; of those
    and of operator and place the one that costs most is the pair's own.
    """
    costliest = matched.sort(pl.col("ns").abs(), descending=True, maintain_order=True)
    sides = []
    for side, name in enumerate(("before", "after")):
        mine = costliest.filter(pl.col("side") == side)
        sides.append(
            mine.group_by("pair").agg(
                pl.col("ns").sum().alias(f"{name}_ns"),
                pl.col("instances").sum().alias(f"{name}_instances"),
                pl.col("total_ns").sum().alias(f"{name}_total_ns"),
                pl.col("name").unique(maintain_order=True).alias(f"{name}_names"),
            )
        )
    own = costliest.group_by("pair").agg(
        pl.col(*[c for c in KEY if c != "name"], "grade").drop_nulls().first()
    )
    numbers = pl.col("before_ns", "after_ns")
    return (
        own.join(sides[0], on="pair", how="left")
        .join(sides[1], on="pair", how="left")
        .with_columns(
            numbers.fill_null(0),
            pl.col("^(before|after)_(instances|total_ns)$").fill_null(0.0),
            pl.col("^(before|after)_names$").fill_null(pl.lit([], pl.List(pl.String))),
        )
        .with_columns(delta_ns=pl.col("after_ns") - pl.col("before_ns"))
        .sort(pl.col("delta_ns").abs(), "pair", descending=[True, False])
    )
