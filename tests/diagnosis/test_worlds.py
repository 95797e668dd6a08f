"""Every rule in every world: no text that may be told of a world has the words of another one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sightline
from sightline.core import registry
from sightline.diagnosis.advice import KEYS, list_keys
from sightline.timeline import world as worlds
from sightline.timeline.runtimes import list_runtimes
from sightline.timeline.world import FRAMEWORKS, INFERENCE, TRAINING, UNKNOWN, World
from support import exports
from synth_nsys import Export

# Words that only some worlds know, and the frameworks whose they are. Names of a library that many
# use (CUDA's calls, cuBLAS) are no framework's: the vendor's words are translated elsewhere.
PYTORCH = {"pytorch"}
TRAINS = {"pytorch-training"}
WORDS = {
    r"\btorch\b(?!\.compile)|torch\.(?:cuda|distributed|empty|set|autocast|inference)": PYTORCH,
    r"DataLoader|pin_memory=|num_workers|zero_grad|optimizer|print\(loss\)": TRAINS,
    r"bucket|\bDDP\b|FSDP": TRAINS,
    r"\.item\(\)|non_blocking|\.contiguous\(\)|torch\.compile|PYTORCH_": PYTORCH,
    r"py-spy|profile\(with_stack": {"python"},
    r"\bjax\b|\bJAX\b|\bXLA\b|block_until_ready|orbax": {"jax"},
    r"\bvLLM\b|--enforce-eager": {"vllm"},
    r"\bSGLang\b|--disable-cuda-graph": {"sglang"},
    r"\btarget (?:data|region|enter|update)|omp_\w+|nowait": {"openmp"},
    r"\bacc (?:data|enter|update)|-gpu=mem": {"openacc"},
    r"Kokkos|parallel_for|\bView": {"kokkos"},
    r"CUDA\.@|CuArray|mul!|JULIA_": {"julia"},
    r"cupy|cupyx|\.get\(\)": {"cupy", "numba", "python"},
    r"vocabulary|logits": {"pytorch", "vllm", "sglang"},
}  # fmt: skip
# Rules whose evidence no other program leaves: PyTorch's allocator and its snapshots, its
# profiler's operators and its optimizers, the DataLoader's own ranges.
PYTORCHS_OWN = {
    "activations_kept", "allocator_thrash", "dataloader_starved", "forward_kept", "host_compiling",
    "host_copies", "host_growing", "host_loading", "host_optimizer", "host_threads", "memory_held",
    "memory_leak", "optimizer_state_not_sharded", "out_of_memory", "peak_set_by_one_tensor",
    "summed_operators",
    "unused_reserve", "memory_fragmentation", "unfused_optimizer",
    "dtype_casts", "operator_patterns", "attention_not_fused", "recomputed_forward", "host_random",
    "optimizer_peak", "cast_copies", "memory_at_peak", "two_graphs", "peak_set_by_one_layer",
}  # fmt: skip
JAXS_OWN = {"preallocated_pool"}
ADVICE = ("fix", "fix_pinned", "cause", "title", "summary")


def all_worlds() -> list[World]:
    """Each framework with each language and purpose that it can have."""
    python = {"vllm", "sglang", "pytorch", "jax", "numba", "cupy"}
    found = []
    for framework in FRAMEWORKS:
        language = "python" if framework in python else "julia" if framework == "julia" else UNKNOWN
        purposes = (TRAINING, INFERENCE, UNKNOWN) if framework == "pytorch" else (UNKNOWN,)
        found += [World(framework, "nvidia", language, purpose) for purpose in purposes]
    return [*found, World("native", "nvidia", "python"), World("native", "nvidia", "compiled")]


def names_of(world: World) -> set[str]:
    """What the world is called in WORDS."""
    trains = {"pytorch-training"} if world.purpose == TRAINING else set()
    return {world.framework, world.language} | trains


def read_texts(path: Path) -> Iterator[tuple[str | None, str]]:
    """The advice that stands in a file, as text, with the key under which it stands, or None."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    returned = {
        node.name: [r.value for r in ast.walk(node) if isinstance(r, ast.Return) and r.value]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }

    def texts(node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.Name) and node.id in constants:
            yield from texts(constants[node.id])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
        elif isinstance(node, ast.IfExp):
            yield from texts(node.body)
            yield from texts(node.orelse)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in returned:
            yield from (t for value in returned[node.func.id] for t in texts(value))  # type: ignore[attr-defined]
        elif isinstance(node, ast.BinOp):
            yield from texts(node.left)
            yield from texts(node.right)

    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if called == "choose_fix":
            yield from ((None, text) for arg in node.args[1:] for text in texts(arg))
            yield from (
                (k.arg, text) for k in node.keywords if k.arg in KEYS for text in texts(k.value)
            )
        else:
            yield from (
                (None, text) for k in node.keywords if k.arg in ADVICE for text in texts(k.value)
            )


RULES = sorted(name for name in registry.list_names("rules") if name not in PYTORCHS_OWN | JAXS_OWN)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_no_word_of_another_world(name: str) -> None:
    module = registry.load("rules", name)
    texts = list(read_texts(Path(str(module.__file__))))
    for world in all_worlds():
        keys, own = list_keys(world), names_of(world)
        for key, text in texts:
            if key is not None and key not in keys:
                continue
            for word, whose in WORDS.items():
                if re.search(word, text):
                    assert whose & own, f"{name}, told of {world}: {text}"


def test_what_is_no_rule_of_pytorchs_own_exists() -> None:
    assert set(registry.list_names("rules")) >= PYTORCHS_OWN | JAXS_OWN


@pytest.mark.parametrize("world", all_worlds(), ids=str)
def test_findings_of_a_world_have_its_words(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One recording of many problems, read as each world in turn."""
    monkeypatch.setattr(worlds, "read_recorded", lambda run: world)
    export = Export()
    for i in range(40):
        at = 100_000 * i
        export.api("cudaMalloc", at, at + 8_000, 10 * i)
        export.api("cudaMemcpy", at + 9_000, at + 40_000, 10 * i + 1)
        export.copy(1, at + 10_000, at + 39_000, 10 * i + 1, 100_000, 0, 2)
        export.api("cudaLaunchKernel", at + 41_000, at + 45_000, 10 * i + 2)
        export.kernel("k", at + 46_000, at + 50_000, 10 * i + 2)
        export.api("cudaDeviceSynchronize", at + 46_000, at + 52_000, 10 * i + 3)
        export.api("cudaMemcpy", at + 53_000, at + 80_000, 10 * i + 4)
        export.copy(2, at + 54_000, at + 79_000, 10 * i + 4, 100_000, 2, 0)
    run = exports.opened(tmp_path, export)
    found = [f for f in sightline.findings(run) if not f.abstained]
    assert len({f.rule for f in found}) >= 3
    own = names_of(world)
    for finding in found:
        for word, whose in WORDS.items():
            text = f"{finding.title} {finding.summary} {finding.fix} {finding.cause}"
            assert not re.search(word, text) or whose & own, f"{finding.rule}: {text}"


def test_rows_of_the_table_of_runtimes_speak_of_their_own() -> None:
    """A row is told where its runtime was seen: only such words may stand in it."""
    allowed = {
        "torch.compile": PYTORCH, "PyTorch's C++ extensions": PYTORCH, "XLA": {"jax"},
        "Julia": {"julia"}, "CuPy": {"cupy"}, "Numba": {"numba"}, "Kokkos": {"kokkos"},
        "the OpenACC runtime": {"openacc"}, "the OpenMP runtime": {"openmp"},
    }  # fmt: skip
    for row in list_runtimes():
        for word, whose in WORDS.items():
            if re.search(word, row.avoid):
                assert whose & allowed.get(row.runtime, set()), (row.runtime, word, row.avoid)
