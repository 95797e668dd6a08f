"""Real recordings whose cause stands in them by name: it is said, in words of their world."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Finding

pytestmark = pytest.mark.corpus


def find(corpus: Path, name: str) -> list[Finding]:
    return [f for f in sightline.findings(sightline.open(str(corpus / name))) if not f.abstained]


def test_an_operator_that_waits_for_what_it_launched(corpus: Path) -> None:
    """Five _coalesce with 26 synchronizations: 13.3 of 14.3 ms."""
    first = find(corpus, "kineto/eikehmueller__NeuralPDE/src/trace.json")[0]
    assert "aten::_coalesce" in first.title
    assert "coalesce the sparse tensor once" in (first.fix or "")
    assert "driver lock" not in (first.fix or "")


def test_one_collective_of_441_ms(corpus: Path) -> None:
    """44.7 % of the window, in inference with two tensor-parallel ranks."""
    name = "kineto/tugot17__tokenomics-from-first-principles/llama_trace_4layers0_with_annotations"
    first = find(corpus, f"{name}.json")[0]
    assert "One all-gather takes 44.7 % of the window by itself." in first.summary
    assert not any(word in (first.fix or "") for word in ("DDP", "FSDP", "bucket"))


def test_copies_that_fill_the_link(corpus: Path) -> None:
    """Pinned, on eight streams, the link busy for 94.8 %: no direction beside the other."""
    found = find(corpus, "nsys/p4arth__cuda-perf-sandbox/vecAddAsync_report.nsys-rep")
    (copies,) = (f for f in found if f.rule in ("h2d-bound", "d2h-in-step"))
    text = "\n".join(copies.evidence)
    assert "on 8 streams; copies keep the link busy for 94.8 %" in text
    assert "cannot overlap" not in text
    # 162.3 ms come back in eight parts, of which the last has nothing beside it.
    assert copies.gain_ns is not None and 141_000_000 < copies.gain_ns <= 162_300_000
    assert "two directions" in (copies.fix or "") and "pin" not in (copies.fix or "")


def test_kernels_that_grow_with_their_arrays_do_not_slow_down(corpus: Path) -> None:
    found = find(corpus, "nsys/lockfuehrer__beast_ressoruces/report1.sqlite")
    assert "slow-down" not in {f.rule for f in found}
    assert not any("py-spy" in (f.fix or "") for f in found)


def test_activations_of_a_snapshot_without_history(corpus: Path) -> None:
    """Attention 2.8 GB, LoRA 2.4 GB of 8.5 GB that forward passes hold."""
    first = find(corpus, "memory_snapshot/Muduard__LayoutEditing/dump_snapshot.pickle")[0]
    assert first.title == "Activations hold the memory"
    assert "attention 2.776 GB, LoRA 2.384 GB" in first.summary
    assert "gradient checkpointing" in (first.fix or "")


def test_tensor_parallel_serving_has_no_buckets(corpus: Path) -> None:
    name = "kineto/hyukjlee__traceMap/trace_file/examples/1_h100_1000isl_10osl_32con.pt.trace"
    found = find(corpus, f"{name}.json.gz")
    assert found[0].rule == "exposed-communication"
    for finding in found:
        words = ("bucket", "DDP", "FSDP", "DataLoader", "print(loss)")
        assert not any(word in (finding.fix or "") for word in words), finding


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_openmp_program_hears_nothing_of_data_loaders(corpus: Path, number: int) -> None:
    suffix = "nsys-rep" if number == 1 else "sqlite"
    for finding in find(corpus, f"nsys/danae-pan__hpc_assignment3/report{number}.{suffix}"):
        words = ("DataLoader", "torch", "py-spy", "CUDA_MODULE_LOADING=LAZY")
        assert not any(word in (finding.fix or "") for word in words), finding
