"""Kernel names as a person reads them: the shortest that still tells the kernels of a list apart.

A label is built from what the name says first: the kernel's own name and, for a kernel that is only
a frame around an operation (PyTorch's elementwise kernels, CUTLASS' Kernel2, a kernel templated on
a lambda), that operation. GEMM libraries put everything into one word; of theirs the label keeps
library, operation, types, tile and layout. Where two kernels of a list have the same label, the
details in which they differ are added, and no others.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from sightline.core.cxx_names import CxxName, parse_function, split_path, split_template
from sightline.core.offload_names import name_lambda, name_region, split_launch_shape

# A detail longer than this stands as the name that it begins with, where that tells enough.
LONG_DETAIL = 24
# Beyond it a list of alike kernels keeps whatever the first details tell.
MAX_DETAILS = 4

# Kernels that run whatever their template argument names.
_FRAMES = re.compile(
    r"[eE]lementwise|^reduce_kernel|^ReduceKernel|multi_tensor_apply|^index_|distribution_|_kernel_agent|kentry$"
    r"|^device_kernel$|^[Kk]ernel2?$|parallel_launch|^for_?all|parallel_for|radixSort|tensor_kernel_scan"
)
# Names too general to stand alone.
_BARE = re.compile(r"^(?:[Kk]ernel\d?|run|main|device_kernel|kentry|_kernel_agent|entry)$")
# Wrappers whose own argument says what is done.
_WRAPPERS = frozenset(
    """
    gpu_kernel_impl gpu_kernel_impl_nocast gpu_index_kernel gpu_kernel_with_index func_wrapper_t
    opmath_gpu_kernel_with_scalars opmath_symmetric_gpu_kernel_with_scalars BinaryFunctor
    AUnaryFunctor BUnaryFunctor ReduceOp normal_and_transform uniform_and_transform
    _cuda_scatter_gather_internal_kernel enable_sm80_to_sm89 enable_sm90 enable_sm90_or_later
    ParallelForAgent ParallelFor ParallelReduce
    """.split()  # noqa: SIM905 - a list of words reads better without quotes
)
# Arguments that carry data or shapes, and no operation.
_CARRIERS = re.compile(
    r"^(?:(?:std::)?array|Array|TensorListMetadata|TrivialOffsetCalculator|OffsetCalculator|"
    r"OpaqueType|\w*Params\w*|LoadWith\w*|StoreWith\w*|pair|tuple|integral_constant|Tuple|Sequence)$"
)
_VALUE = re.compile(
    r"^(?:-?[\d.]+|true|false|unsigned.*|signed.*|int|long(?: long)?|short|ushort|char|bool|float|"
    r"double|half|bf16|tf32|void|u?int\d+_t|size_t|T\d+|.*[*&]|\(.*)$"
)


class Label(NamedTuple):
    """A label, and what can be added to it, the most telling first."""

    text: str
    details: tuple[str, ...]


def label_kernels(names: Iterable[str]) -> dict[str, str]:
    """Each name's label: as short as the others of the list allow, and never one for two names."""
    labels = {name: describe_kernel(name) for name in names}
    groups = defaultdict(list)
    for name, label in labels.items():
        groups[label.text].append(name)
    found = {name: label.text for name, label in labels.items()}
    for alike in groups.values():
        if len(alike) > 1:
            rows = [labels[name].details for name in alike]
            for name, told in zip(alike, _tell_apart(rows), strict=True):
                found[name] = _join(labels[name].text, told)
    return _number_equal(found)


def shorten_kernel_name(name: str) -> str:
    """A kernel's label where it stands alone.

    'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, ...>(...)'
    becomes 'vectorized_elementwise_kernel<AddFunctor>'.
    """
    return describe_kernel(name).text


@lru_cache(maxsize=65536)
def describe_kernel(name: str) -> Label:
    """A kernel's label and its details."""
    plain, shape = split_launch_shape(name)
    if shape:
        label = describe_kernel(plain)
        return Label(label.text, (shape, *label.details))
    for describe in (
        _describe_tensile, _describe_gemm, _describe_miopen, _describe_triton, _describe_offload,
    ):  # fmt: skip
        found = describe(name)
        if found is not None:
            return found
    return _describe_cxx(name)


def _describe_offload(name: str) -> Label | None:
    """A kernel that a compiler made of a lambda or of a region of a function."""
    region = name_region(name)
    if region is not None:
        return Label(region[0], (region[1], name))
    cut_out = name_lambda(name)
    return None if cut_out is None else Label(*cut_out)


# -- C++ ------------------------------------------------------------------------------------------


def _describe_cxx(name: str) -> Label:
    parts = parse_function(name)
    if "ck" in parts.path[:1] and "cshuffle" in parts.base:
        label = _describe_ck(parts)
        if label is not None:
            return label
    base, bare = parts.base, bool(_BARE.match(parts.base))
    frame = bool(_FRAMES.search(base)) or any("{lambda" in a for a in parts.arguments)
    operation = _find_operation(parts.arguments) if frame else None
    details = list(parts.arguments)
    text = base
    if operation is not None:
        at, told, more = operation
        inner = _describe_gemm(told)
        text = (inner.text if inner else told) if bare else f"{base}<{told}>"
        details[at : at + 1] = [*(inner.details if inner else ()), *more]
    elif bare and parts.path:
        text = f"{parts.path[-1]}::{base}"
    if not text:
        return Label(name, ())
    return Label(text, (*details, "::".join(parts.path), parts.parameters))


def _find_operation(arguments: Sequence[str]) -> tuple[int, str, list[str]] | None:
    """Which argument says what the kernel does, how that is called, and its details."""
    found = None
    for at, argument in enumerate(arguments):
        told = _name_operation(argument)
        if told is None:
            continue
        # A lambda or a functor says it better than a type that only looks like one.
        if "lambda" in argument or re.search(r"[Ff]unctor|Ops?\b", told[0]):
            return at, *told
        found = found or (at, *told)
    return found


def _name_operation(argument: str) -> tuple[str, list[str]] | None:
    """What an argument calls its operation, and what distinguishes it from others of that name.

    'f(int)::{lambda()#2}::operator()() const::{lambda(float)#1}' is f, with '#2.1' and 'float'.
    """
    text = re.sub(r"^(?:static )?void ", "", argument)
    if _VALUE.match(text):
        return None
    steps = split_path(text)
    lambdas = [s for s in steps if s.startswith(("{lambda", "const"))]
    place = next((i for i, s in enumerate(steps) if s.startswith("{lambda")), len(steps))
    # The function around the lambda, or the type itself; an operator's class is what is meant.
    own = [s for s in steps[:place] if s and not s.startswith("operator")]
    if not own:
        return None
    base, inner = split_template(own[-1].partition("(")[0] if place < len(steps) else own[-1])
    if place < len(steps):
        base, inner = split_template(_before_parameters(own[-1]))
    if _CARRIERS.match(base) or not re.match(r"[A-Za-z_]\w*$", base):
        return None
    numbers = ".".join(re.findall(r"#(\d+)\}", " ".join(lambdas)))
    types = [re.sub(r"^\{lambda\((.*)\)#\d+\}$", r"\1", s) for s in lambdas[-1:]]
    more = [*(t for t in types if t), *([f"#{numbers}"] if numbers else []), *inner]
    if base in _WRAPPERS or base.endswith("Policy"):
        # What a wrapper is called with may stand at its operator: f<true>::operator()<Add>(...).
        called = [split_template("f" + _before_parameters(s[10:]))[1] for s in steps[:place]
                  if s.startswith("operator()<")]  # fmt: skip
        inner = (*(x for xs in called for x in xs), *inner)
        deeper = _find_operation(inner)
        if deeper is not None:
            at, told, details = deeper
            return told, [*details, *(x for i, x in enumerate(inner) if i != at), base]
    # What a library calls alike in several namespaces differs by them.
    return base, [*more, *(["::".join(own[:-1])] if place == len(steps) and own[1:] else [])]


def _before_parameters(step: str) -> str:
    """`f<int>(long)` without its parameters."""
    depth = 0
    for at, char in enumerate(step):
        if char == "(" and depth == 0:
            return step[:at]
        depth += (char == "<") - (char == ">")
    return step


# -- libraries that say everything in one word ----------------------------------------------------

# Tensile writes types as letters: of the inputs, the output and the sum (TensileLite, DataType.py).
_TENSILE_TYPES = {
    "H": "f16", "S": "f32", "B": "bf16", "D": "f64", "C": "c32", "Z": "c64", "I": "i32",
    "F8": "f8", "B8": "bf8", "X": "tf32", "I8": "i8", "4xi8": "i8",
}  # fmt: skip
_TENSILE = re.compile(r"^Cijk_A(ilk|lik)_B(ljk|jlk)_(F8|B8|I8|4xi8|[A-Z])\w*?_.*?MT(\d+x\d+x\d+)_")
# cutlass_80_wmma_tensorop_bf16_s161616gemm_relu_bf16_32x32_128x2_tn_align2: the tile of a block,
# its depth and stages, the layouts of A and B (cutlass/tools/library, generator.py).
_CUTLASS = re.compile(
    r"^cutlass_(?:(\d+)_)?(?:\w+?_)??(?:tensorop|simt)_(?:(\w+?)_)?[a-z]*?(?:\d{3,})?"
    r"(gemm|dgrad|wgrad|fprop)(?:_\w+?)??_(\d+x\d+)_(\d+)x(\d+)_(nn|nt|tn|tt|nhwc|nchw)_(\w+)$"
)
# sm80_xmma_gemm_bf16f32_bf16f32_f32_tn_n_tilesize128x64x32_stage4_...: A and B, sum, C.
_XMMA = re.compile(
    r"^sm(\d+)_xmma_(gemm|fprop|dgrad|wgrad)_(?:[a-z]\w*?_)??((?:tf|bf|f|i|u|e)\d+)[a-z\d]*_"
    r"[a-z\d]+_[a-z\d]+_([a-z]+)_\w*?tilesize(\d+x\d+x\d+)_"
)


def _describe_tensile(name: str) -> Label | None:
    match = _TENSILE.match(name)
    if match is None:
        return None
    a, b, kind, tile = match.groups()
    layout = ("N" if a == "ilk" else "T") + ("N" if b == "ljk" else "T")
    text = f"Tensile gemm {_TENSILE_TYPES.get(kind, kind)} {tile} {layout}"
    return Label(text, tuple(name.split("_")[3:]))


def _describe_gemm(name: str) -> Label | None:
    """A GEMM or convolution of CUTLASS, or of cuBLAS' and cuDNN's xmma kernels."""
    match = _CUTLASS.match(name)
    if match is not None:
        _, kind, what, tile, depth, _, layout, _ = match.groups()
        types = f" {kind}" if kind and re.match(r"[a-z]*\d+$|h|s|d|z|c", kind) else ""
        text = f"cutlass {what}{types} {tile}x{depth} {layout}"
        return Label(text, tuple(name.split("_")[1:]))
    match = _XMMA.match(name)
    if match is not None:
        _, what, kind, layout, tile = match.groups()
        return Label(f"xmma {what} {kind} {tile} {layout}", tuple(name.split("_")))
    return None


# igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_...: MIOpen's own convolutions.
_MIOPEN = re.compile(r"^igemm_(fwd|bwd|wrw)_gtc\w*?_(nhwc|nchw)_(\w+?)_\w*?bt(\d+x\d+x\d+)_")


def _describe_miopen(name: str) -> Label | None:
    match = _MIOPEN.match(name)
    if match is None:
        return None
    what, layout, kind, tile = match.groups()
    return Label(f"igemm {what} {kind} {tile} {layout}", tuple(name.split("_")[2:]))


# Block sizes of Composable Kernel; in its kernels with "cshuffle" the tile's M, N and K follow
# (GridwiseGemmMultipleD_xdl_cshuffle, GridwiseGemm_xdl_cshuffle_v3). Older ones count K otherwise.
_CK_BLOCKS = ("64", "128", "256", "512")
_CK_LAYOUT = {"RowMajor": "r", "ColumnMajor": "c"}


def _describe_ck(parts: CxxName) -> Label | None:
    """A GEMM or convolution of Composable Kernel: its name, the tile of a block, the layouts."""
    words = re.findall(r"[\w-]+", " ".join(parts.arguments))
    tile = ""
    numbers = [i for i, w in enumerate(words) if w in _CK_BLOCKS]
    for at in numbers:
        sizes = words[at + 1 : at + 4]
        if len(sizes) == 3 and all(s.isdigit() and int(s) >= 16 for s in sizes):
            tile = f" {'x'.join(sizes)}"
            break
    if not tile:
        return None
    layout = "".join(_CK_LAYOUT[w] for w in words if w in _CK_LAYOUT)[:3]
    text = f"CK {parts.base.removeprefix('kernel_')}{tile}"
    return Label(f"{text} {layout}" if layout else text, (*words, parts.parameters))


_TRITON_SIGNATURE = re.compile(r"_(?:\d+[dce]*){2,}$")


def _describe_triton(name: str) -> Label | None:
    """A kernel of Triton without the letters for its arguments; one of Inductor is as it is.

    'matmul_kernel_0d1d2d3de4de' says of arguments 0 to 4 whether 16 divides them (Triton's
    compiler.py until 2.1, mangle_ty and kernel_suffix).
    """
    match = _TRITON_SIGNATURE.search(name)
    if match is None or not re.search(r"\d[dce]", match[0]) or "(" in name or "<" in name:
        return None
    text = name[: match.start()].rstrip("_")
    return Label(text, (match[0][1:],)) if text else None


# -- telling apart --------------------------------------------------------------------------------


def _tell_apart(rows: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """For each row the details that make it another than the rest, fewest first."""
    width = max(map(len, rows))
    columns = [[row[i] if i < len(row) else "" for row in rows] for i in range(width)]
    chosen: list[list[str]] = []
    told: set[tuple[str, ...]] = {()}
    for column in columns:
        if len(set(column)) < 2:
            continue
        more = [*chosen, _shorten_column(column)]
        different = set(zip(*more, strict=True))
        if len(different) > len(told):
            chosen, told = more, different
        if len(told) == len(rows) or len(chosen) == MAX_DETAILS:
            break
    # What came first may no longer be needed.
    for column in list(chosen):
        rest = [c for c in chosen if c is not column]
        if rest and len(set(zip(*rest, strict=True))) == len(told):
            chosen = rest
    return [[c[i] for c in chosen] for i in range(len(rows))]


def _shorten_column(column: Sequence[str]) -> list[str]:
    """The details of one place, as short as they are still different."""
    count = len(set(column))
    plain = [re.sub(r"\b(?:\w+::)+", "", text) for text in column]
    # A group's frame says nothing that its content does not: OpaqueType<2> differs by 2.
    for short in ([_first_name(text) for text in plain], plain):
        if len(set(short)) == count and max(map(len, short)) <= LONG_DETAIL:
            return short
    inside = [split_template(text) for text in plain]
    if len({base for base, _ in inside}) == 1 and all(arguments for _, arguments in inside):
        deep = [", ".join(t) for t in _tell_apart([a for _, a in inside])]
        if len(set(deep)) == count:
            return deep
    first = [_first_name(text) for text in plain]
    if len(set(first)) == count:
        return first
    cut = _cut_common(plain)
    return cut if len(set(cut)) == count else _cut_common(column)


def _cut_common(texts: Sequence[str]) -> list[str]:
    """The texts without the words with which all of them begin and end; long rests cut inside."""
    words = [re.findall(r"\w+|\W", text) for text in texts]
    shortest = min(map(len, words))
    start = next((i for i in range(shortest) if len({w[i] for w in words}) > 1), shortest)
    end = next(
        (i for i in range(shortest - start) if len({w[-1 - i] for w in words}) > 1),
        shortest - start,
    )
    return [_middle("".join(w[start : len(w) - end]).strip(" ,")) for w in words]


def _first_name(text: str) -> str:
    return re.split(r"[<(]", text, maxsplit=1)[0].strip() or text


def _middle(text: str) -> str:
    return text if len(text) <= LONG_DETAIL else f"{text[:12]}…{text[-11:]}"


def _join(text: str, details: Sequence[str]) -> str:
    told = ", ".join(d for d in details if d)
    if not told:
        return text
    if text.endswith(">"):
        return f"{text[:-1]}, {told}>"
    return f"{text} {told}" if " " in text else f"{text}<{told}>"


def _number_equal(found: dict[str, str]) -> dict[str, str]:
    """Labels that are still equal carry a number, in the order of the full names.

    So lists of the same kernels number them alike, in whatever order they have them.
    """
    seen = Counter(found.values())
    number: Counter[str] = Counter()
    for name, label in sorted(found.items()):
        if seen[label] > 1:
            number[label] += 1
            found[name] = f"{label} ({number[label]})"
    return found


def is_graph(name: str) -> bool:
    """Whether it is the name of a graph that was recorded as one operation."""
    return re.fullmatch(r"CUDA graph (?:\d+|\?)", name) is not None
