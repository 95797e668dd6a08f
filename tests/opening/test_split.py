"""Files of one program of rocprofv3, given one by one: nobody joins them, and that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline

KERNELS = (
    "Kind,Agent_Id,Queue_Id,Thread_Id,Dispatch_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
    "End_Timestamp\nKERNEL_DISPATCH,Agent 1,1,5,1,k,7,2000,3000\n"
)
CALLS = (
    "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
    "HIP_RUNTIME_API,hipLaunchKernel,5,5,7,1000,1500\n"
)


@pytest.mark.parametrize(
    ("calls", "said"),
    [("a_hip_api_trace.csv", ["a_kernel_trace.csv, a_hip_api_trace.csv"]),
     ("b_hip_api_trace.csv", [])],
)  # fmt: skip
def test_two_files_of_a_program(tmp_path: Path, calls: str, said: list[str]) -> None:
    files = [tmp_path / "a_kernel_trace.csv", tmp_path / calls]
    for file, text in zip(files, (KERNELS, CALLS), strict=True):
        file.write_text(text)
    run = sightline.open(*map(str, files))
    notes = run.table("quality").filter(kind="split_recording").get_column("text")
    assert [text.partition(": ")[2] for text in notes] == said


def test_their_folder_is_one_recording(tmp_path: Path) -> None:
    (tmp_path / "a_kernel_trace.csv").write_text(KERNELS)
    (tmp_path / "a_hip_api_trace.csv").write_text(CALLS)
    run = sightline.open(str(tmp_path))
    assert run.table("quality").filter(kind="split_recording").is_empty()
    assert run.table("device_ops").get_column("launch_id").to_list() == [0]
