"""Inductor's code and logs: real ones of a program that is beside them, Triton's, damage."""

from __future__ import annotations

import ast
import gzip
import json
import re
from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from sightline.errors import DamagedError
from sightline.formats.pytorch import inductor
from support import places
from support.damage import survive_damage

RECORDED = places.RECORDED / "inductor"
LOG = RECORDED / "torch_trace.log.gz"
FORWARD = RECORDED / "model__0_forward_1.0"
MAPPINGS = FORWARD / "inductor_provenance_tracking_node_mappings.json"
# As PyTorch writes it in front of a kernel of Triton's (torch/_inductor/codegen/triton.py).
TRITON = """# AOT ID: ['7_inference']
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()

# kernel path: /cache/wk/cwkvf.py
# Topologically Sorted Source Nodes: [mul, y], Original ATen: [aten.mul, aten.gelu]
# Source node to ATen node mapping:
#   mul => mul
#   y => erf, mul_1
# Graph fragment:
#   %arg0_1 : Tensor "f32[8][1]cuda:0" = PlaceHolder[target=arg0_1]
#   %mul : Tensor "f32[8][1]cuda:0"[num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%arg0_1, 2), kwargs = {})
#   %erf : [num_users=1] = call_function[target=torch.ops.aten.erf.default](args = (%mul,), kwargs = {})
triton_poi_fused_gelu_mul_0 = async_compile.triton('triton_poi_fused_gelu_mul_0', \'\'\'
# Topologically Sorted Source Nodes: [no], Original ATen: [aten.comment_in_a_text]
\'\'\', device_str='cuda')
"""  # noqa: E501


def list_lines(run: Run) -> dict[str, list[tuple[str, int, str]]]:
    """File, line and its text of each kernel's nodes, by its name."""
    rows = run.table("fused_kernels").join(run.table("fused_nodes"), on="fused_kernel_id")
    found: dict[str, list[tuple[str, int, str]]] = {}
    for row in rows.drop_nulls("file").iter_rows(named=True):
        found.setdefault(row["name"], []).append((row["file"], row["line"], row["code"]))
    return found


def test_a_log_has_the_lines_of_the_program() -> None:
    run = sightline.open(str(LOG))
    program = (RECORDED / "model.py").read_text().splitlines()
    lines = list_lines(run)
    stacks: dict[str, list[str]] = {}
    for payload in re.findall(r"_kernel_stack_traces.*\n\t(\{.*\})$", read(LOG), re.MULTILINE):
        stacks |= json.loads(payload)
    generated = {name.partition(":")[0] for name in stacks if name.startswith("cpp_fused")}
    assert lines.keys() == generated and len(generated) == 4
    for name, sources in lines.items():
        handle = next(handle for handle in stacks if handle.startswith(f"{name}:"))
        numbers = {int(n) for text in stacks[handle] for n in re.findall(r"line (\d+), in", text)}
        assert {number for _, number, _ in sources} == numbers
        for file, number, code in sources:
            assert (file, code.strip()) == ("/app/model.py", program[number - 1].strip())


def read(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def test_a_folder_has_each_node_as_its_graph_says() -> None:
    run = sightline.open(str(FORWARD))
    mapped = json.loads(MAPPINGS.read_text())["cppCodeToPost"]
    graph = ast.parse((FORWARD / "fx_graph_readable.py").read_text().lstrip())
    ops = {
        node.target.id: ast.unparse(node.value.func)
        for node in ast.walk(graph)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Call)
    }
    rows = run.table("fused_kernels").join(run.table("fused_nodes"), on="fused_kernel_id")
    for name, nodes in mapped.items():
        found = rows.filter(name=name.partition(":")[0])
        if name.startswith("extern_kernels"):
            assert found.is_empty()
            continue
        assert found.get_column("node").to_list() == nodes
        for node, op in found.select("node", "op").iter_rows():
            assert ops.get(node, f"torch.ops.{op}.").startswith(f"torch.ops.{op}.")
    assert set(rows.get_column("graph")) == {"0_forward"}


def test_kernels_of_a_trace_get_their_times_and_lines() -> None:
    run = sightline.open(str(RECORDED / "trace.json.gz"), str(LOG))
    # A compiler's log is no second rank.
    assert run.table("recordings").get_column("rank").to_list() == [0, 0]
    table = run.ask("fused_kernels")
    events = json.loads(read(RECORDED / "trace.json.gz"))["traceEvents"]
    spent = {
        re.sub(r"^graph_\d+_", "", event["name"]): round(event["dur"] * 1000)
        for event in events
        if "cpp_fused" in event.get("name", "")
    }
    assert dict(table.select("name", "total_ns").iter_rows()) == spent
    first = table.filter(name="cpp_fused_mul_silu_sin_0").row(0, named=True)
    assert first["lines"] == "/app/model.py:12,13"
    assert first["aten_ops"].split(", ")[0] == "aten.div"


def test_kernels_of_triton(tmp_path: Path) -> None:
    path = tmp_path / "output_code.py"
    path.write_text(TRITON)
    run = sightline.open(str(path))
    kernel = run.table("fused_kernels").drop("rank", "recording_id", "fused_kernel_id")
    assert kernel.rows() == [
        ("triton_poi_fused_gelu_mul_0", "7_inference", None, "mul, y", "aten.mul, aten.gelu",
         "/cache/wk/cwkvf.py"),
    ]  # fmt: skip
    nodes = run.table("fused_nodes").select("position", "node", "op", "file").rows()
    assert nodes == [(0, "mul", "aten.mul", None), (1, "erf", "aten.erf", None)]
    assert any(note["kind"] == "no_source_lines" for note in run.table("quality").to_dicts())


def test_a_log_of_code_says_the_same_kernels() -> None:
    run = sightline.open(str(RECORDED / "output_code.log.gz"))
    kernels = run.table("fused_kernels").select("name", "graph", "pytorch_frame").rows()
    assert kernels == [
        ("cpp_fused_mul_silu_sin_0", "0_forward", "0/0"),
        ("cpp_fused_add_native_layer_norm_1", "0_forward", "0/0"),
    ]


def test_code_without_kernels_is_said_to_have_none(tmp_path: Path) -> None:
    path = tmp_path / "output_code.py"
    path.write_text(TRITON.partition("# kernel path")[0])
    with pytest.raises(DamagedError, match="no generated kernel"):
        sightline.open(str(path))


def test_damage(tmp_path: Path) -> None:
    survive_damage(inductor.read, tmp_path / "trace.log", read(LOG))
    survive_damage(inductor.read, tmp_path / "output_code.py", TRITON)


@pytest.mark.corpus
def test_kernels_of_a_real_trace_are_known_by_name(corpus: Path, tmp_path: Path) -> None:
    """Times of a real GPU's kernels; their code, which was not kept, is written after TRITON."""
    trace = corpus / "kineto/AMD-AGI__TraceLens/torch_compile_triton/trace.json.gz"
    events = json.loads(read(trace))["traceEvents"]
    spent: dict[str, int] = {}
    for event in events:
        if event.get("cat") == "kernel" and event["name"].startswith("triton_"):
            spent[event["name"]] = spent.get(event["name"], 0) + round(event["dur"] * 1000)
    code = [TRITON.replace("triton_poi_fused_gelu_mul_0", name) for name in spent]
    (tmp_path / "output_code.py").write_text("\n".join(code))
    table = sightline.open(str(trace), str(tmp_path / "output_code.py")).ask("fused_kernels")
    assert len(spent) == 4
    assert dict(table.select("name", "total_ns").iter_rows()) == spent
    assert set(table.get_column("aten_ops")) == {"aten.mul, aten.gelu"}
