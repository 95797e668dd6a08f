"""No advice of CUDA's or NVIDIA's for another vendor's GPUs, in any rule."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Finding
from sightline.diagnosis.accelerator_words import VENDORS
from sightline.diagnosis.vendor_words import translate_advice, translate_findings
from support.traces import kernel, opened

# Rules of Nsight's own recordings are about NVIDIA's GPUs.
NVIDIA_ONLY = ("ncu", "nsys")
# (`torch.cuda.CUDAGraph` is PyTorch's name on AMD's, too.)
FOREIGN = re.compile(
    r"\bcuda[A-Z]|(?<!torch\.cuda\.)\bCUDA|\bncu [-<]|\bnsys [pa]|nvidia-smi|Nsight|\bNVIDIA\b"
)
RULES = sorted(
    path
    for path in Path(sightline.__file__).parent.glob("subjects/*/rules/*.py")
    if path.parent.name not in NVIDIA_ONLY
)


def list_advice(path: Path) -> list[str]:
    """What a rule may say in fix, verify or reason: their literal texts."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg in ("fix", "verify", "reason", "hint"):
            texts = [
                n.value
                for n in ast.walk(node.value)
                if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
            found.append("".join(texts))
    return found


@pytest.mark.parametrize("vendor", ["amd", "intel", *VENDORS])
def test_no_rule_advises_another_vendors_calls_or_tools(vendor: str) -> None:
    advice = [(path.name, text) for path in RULES for text in list_advice(path)]
    assert sum(FOREIGN.search(text) is not None for _, text in advice) > 10
    for name, text in advice:
        said = translate_advice(text, vendor)
        assert said is not None
        assert not FOREIGN.search(said), (name, said)


@pytest.mark.parametrize(
    ("written", "amd", "intel"),
    [
        ("cudaMemcpyAsync from pinned memory (cudaHostAlloc)",
         "hipMemcpyAsync from pinned memory (hipHostMalloc)",
         "sycl::queue::memcpy from pinned memory (sycl::malloc_host)"),
        ("profile it:  ncu --set full  (AMD: rocprof-compute profile), then",
         "profile it:  rocprof-compute profile, then",
         "profile it:  unitrace --metric-query PROGRAM, then"),
        ("record with nsys profile --trace=cuda; then",
         "record with rocprofv3 --sys-trace -- PROGRAM; then",
         "record with unitrace --chrome-call-logging --chrome-kernel-logging PROGRAM; then"),
        ('profile it:  ncu --set full --kernel-name-base demangled -k "regex:a.*b" -c 1; then',
         "profile it:  rocprof-compute profile -n NAME -- PROGRAM; then",
         "profile it:  unitrace --metric-query PROGRAM; then"),
        ('what "ncu --set full" says', 'what "rocprof-compute profile -n NAME -- PROGRAM" says',
         'what "unitrace --metric-query PROGRAM" says'),
        ("torch.cuda.CUDAGraph, or CUDA graphs", "torch.cuda.CUDAGraph, or HIP graphs",
         "torch.xpu.XPUGraph, or SYCL graphs"),
        ("warm up; CUDA_MODULE_LOADING=EAGER for servers", "warm up",
         "warm up; loading all modules at the start for servers"),
        ("allocate once; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "allocate once",
         "allocate once; PYTORCH_ALLOC_CONF=expandable_segments:True"),
    ],
)  # fmt: skip
def test_words(written: str, amd: str, intel: str) -> None:
    assert translate_advice(written, "amd") == amd
    assert translate_advice(written, "intel") == intel


def test_nvidias_runs_are_not_sent_to_amds_tools() -> None:
    both = "profile it:  ncu --set full  (AMD: rocprof-compute profile), then see below"
    assert translate_advice(both, "nvidia") == "profile it:  ncu --set full, then see below"
    assert translate_advice("Nsight Compute or rocprof-compute", "nvidia") == "Nsight Compute"


def test_all_that_a_person_reads_is_in_the_vendors_words(tmp_path: Path) -> None:
    """Titles and summaries too: AMD's GPUs have matrix cores."""
    found = Finding(
        "x",
        "Matrix products without tensor cores",
        "warning",
        "between the nodes of a CUDA graph",
        cause="cudaFree waits",
        fix="cudaMalloc once",
    )
    gpu = {"id": 0, "name": "AMD Instinct MI300X"}
    run = opened(tmp_path, [kernel("k", 0, 10)], deviceProperties=[gpu])
    (said,) = translate_findings(run, [found])
    assert said.title == "Matrix products without matrix cores"
    assert said.summary == "between the nodes of a HIP graph"
    assert (said.cause, said.fix) == ("hipFree waits", "hipMalloc once")


def test_a_table_of_rocprof_is_of_amds_world(tmp_path: Path) -> None:
    """Nothing in it names a GPU or a call: its tool does."""
    path = tmp_path / "results.stats.csv"
    path.write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
        '"index_add(float*) [clone .kd]",10,52000000,5200000,20.6\n"gemm.kd",10,200000000,1,79.4\n'
    )
    [found] = [f for f in sightline.open(str(path)).findings() if f.rule == "summed-kernel"]
    assert "rocprof-compute" in str(found.fix)
    assert not FOREIGN.search(str(found.fix))
