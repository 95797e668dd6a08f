"""TAU's profiles: as their writers' sources have them, folders, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError
from sightline.formats.hpc import tau
from support.damage import survive_damage

META = "<metadata><attribute><name>Metric Name</name><value>TIME</value></attribute></metadata>"
PROFILE = f"""9 templated_functions_MULTI_TIME
# Name Calls Subrs Excl Incl ProfileCalls # {META}
".TAU application" 1 1 272 15755 0 GROUP="TAU_DEFAULT"
"main" 1 2 1000 15483 0 GROUP="TAU_DEFAULT"
".TAU application => main" 1 2 1000 15483 0 GROUP="TAU_DEFAULT|TAU_CALLPATH"
"solve(int) [{{/x/solve.c}} {{12,1}}-{{30,2}}]" 10 4 9483.25 14483 0 GROUP="TAU_DEFAULT"
".TAU application => main => solve(int) [{{/x/solve.c}} {{12,1}}-{{30,2}}]" 9 4 9000.25 14000 0 GROUP="TAU_CALLPATH"
"MPI_Allreduce()" 4 0 5000 5000 0 GROUP="MPI"
"main => solve(int) [{{/x/solve.c}} {{12,1}}-{{30,2}}] => MPI_Allreduce()" 4 0 5000 5000 0 GROUP="MPI|TAU_CALLPATH"
"main => [CONTEXT] main" 12 0 900 900 0 GROUP="TAU_SAMPLE_CONTEXT"
"step" 1 0 7 7 0 GROUP="TAU_PYTHON"
0 aggregates
1 userevents
# eventname numevents max min mean sumsqr
"Message size" 4 8 8 8 256
"""  # noqa: E501
SOLVE = "solve(int)"


def read_stacks(path: Path) -> dict[str, int]:
    """ns by the functions of a stack, joined by ';'."""
    run = sightline.open(str(path))
    frames = dict(run.table("frames").select("frame_id", "function").iter_rows())
    stacks = run.table("stacks").select("stack_id", "parent_id", "frame_id").rows()
    nodes = {node: (parent, frame) for node, parent, frame in stacks}
    found = {}
    for node, spent in run.table("stack_weights").select("stack_id", "value").iter_rows():
        names, at = [], node
        while at is not None:
            at, frame = nodes[at]
            names.append(frames[frame])
        found[";".join(reversed(names))] = spent
    return found


def test_call_paths_and_what_they_leave(tmp_path: Path) -> None:
    path = tmp_path / "profile.0.0.0"
    path.write_text(PROFILE)
    stacks = read_stacks(path)
    assert stacks == {
        ".TAU application": 272_000,
        ".TAU application;main": 1_000_000,
        f".TAU application;main;{SOLVE}": 9_000_250,
        SOLVE: 483_000,
        f"main;{SOLVE};MPI_Allreduce()": 5_000_000,
        "step": 7_000,
    }
    # Every µs of each function's own time is somewhere, once.
    assert sum(stacks.values()) == (272 + 1000 + 9483.25 + 5000 + 7) * 1000
    frames = sightline.open(str(path)).table("frames").filter(function=SOLVE)
    assert frames.select("file", "line").rows() == [("/x/solve.c", 12)]


def test_a_folder_adds_its_threads_up(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("profile.0.0.0", "profile.0.0.1", "profile.1.0.0"):
        (folder / name).write_text(PROFILE)
    stacks = read_stacks(folder)
    assert (stacks[".TAU application;main"], stacks["step"]) == (3_000_000, 21_000)
    run = sightline.open(str(folder))
    assert run.table("frames").filter(function="step").get_column("layer").to_list() == ["python"]
    assert dict(run.table("quality").select("kind", "count").iter_rows())["threads_added_up"] == 3


def test_apex_writes_times_with_exponents(tmp_path: Path) -> None:
    path = tmp_path / "profile.0.0.0"
    path.write_text(
        "1 templated_functions_TIME\n# Name Calls Subrs Excl Incl ProfileCalls #\n"
        '"work" 12 0 1.5e+06 1.5e+06 0 GROUP="TAU_USER" \n0 aggregates\n'
    )
    assert read_stacks(path) == {"work": 1_500_000_000}


def test_another_metric_is_no_time(tmp_path: Path) -> None:
    path = tmp_path / "profile.0.0.0"
    path.write_text(PROFILE.replace("MULTI_TIME", "MULTI_PAPI_L2_TCM"))
    with pytest.raises(DamagedError, match="PAPI_L2_TCM, which is not a time"):
        sightline.open(str(path))


def test_damage(tmp_path: Path) -> None:
    survive_damage(tau.read, tmp_path / "profile.0.0.0", PROFILE)
