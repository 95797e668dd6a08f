"""PC samples through the injection library: counts, periods, losses, lines, launches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest

import sightline
from support import places
from support.command import sightline as command
from support.cupti_mock import Built, Outcome, build, play

pytestmark = pytest.mark.xdist_group("cupti")

RECORDED = places.RECORDED / "cubin"
CUBIN = RECORDED / "kernels_90.cubin"
SAXPY, REDUCE = "_Z5saxpyifPKfPf", "_Z6reduceIfEvPKT_PS0_i"
# The mock's numbers of the reasons.
LONG, LONG_IDLE, WAIT, WAIT_IDLE, NO_INSTRUCTIONS, SELECTED = 3, 4, 7, 8, 12, 20
NO_PERMISSION = "35"  # CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
Place = tuple[int, str, int, int, dict[int, int]]


@pytest.fixture(scope="module", params=[False, True], ids=["structs", "layouts"])
def built(request: pytest.FixtureRequest) -> Built:
    return build(layouts=request.param)


def hash_cubin(data: bytes) -> int:
    """The mock's number of a cubin (FNV-1a); that of CUPTI is another one."""
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


CRC = hash_cubin(CUBIN.read_bytes())


def write_samples(path: Path, *lines: str, places: Iterable[Place] = ()) -> str:
    """A file of the mock's: context, function, offset, correlation, samples by reason."""
    found = list(lines)
    for context, function, offset, correlation, samples in places:
        counts = " ".join(f"{reason}:{count}" for reason, count in samples.items())
        found.append(f"pc {context} {CRC} {offset} {function} {correlation} {counts}")
    path.write_text("\n".join(found) + "\n")
    return f"samples={path}"


def sample(built: Built, folder: Path, *verbs: str, **variables: str) -> Outcome:
    chosen = {"SIGHTLINE_CUPTI_PC": "continuous", "SIGHTLINE_CUPTI_PC_DRAIN_MS": "20"}
    return play(built, folder / "run", *verbs, **{**chosen, **variables})


def read_listing() -> dict[tuple[str, int], tuple[str, str, int]]:
    """nvdisasm's operation, file and line of each function's offsets."""
    rows = (line.split("\t") for line in (RECORDED / "kernels_90.tsv").read_text().splitlines())
    return {(f, int(at)): (op, file, int(line)) for f, at, op, file, line in rows}


def test_counts_lines_and_operations(built: Built, tmp_path: Path) -> None:
    """Every instruction of both kernels is sampled: each line is nvdisasm's, each count ours."""
    listing = read_listing()
    places: list[Place] = [
        (1, function, offset, 0, {LONG: n + 1, LONG_IDLE: n // 2, SELECTED: 1})
        for n, (function, offset) in enumerate(listing)
    ]
    outcome = sample(
        built, tmp_path, "context=1", f"module={CUBIN}",
        write_samples(tmp_path / "a", "totals 1 1000000 0 0 0", places=places),
    )  # fmt: skip
    imported = outcome.imported
    samples = imported.tables["pc_samples"]
    assert samples.height == 2 * len(listing)
    known = 0
    by_place = {(r["function"], r["offset"], r["reason"]): r for r in samples.iter_rows(named=True)}
    for n, ((function, offset), (operation, file, line)) in enumerate(listing.items()):
        waiting = by_place[function, offset, "long_scoreboard"]
        assert (waiting["file"], waiting["line"]) == (file, line)
        assert waiting["opcode"] in (operation, None)
        assert (waiting["samples"], waiting["latency_samples"]) == (n + 1, n // 2)
        assert waiting["stall_class"] == "memory wait"
        # A warp that issued is met at the next instruction.
        issued = by_place[function, offset, "selected"]
        before = listing.get((function, offset - 16), (None,))[0]
        found = (issued["issued_operation"] or "").removeprefix("@").split(".")[0]
        assert found in (before, "")
        known += found == before
        assert waiting["issued_operation"] is None
        assert (issued["samples"], issued["latency_samples"], issued["stall_class"]) == (
            1,
            0,
            "issuing",
        )
    assert known > 490
    kernels = imported.tables["profiled_kernels"]
    assert set(kernels["mangled_name"]) == {SAXPY, REDUCE}
    assert set(kernels["name"]) == {
        "saxpy(int, float, float const*, float*)",
        "void reduce<float>(float const*, float*, int)",
    }
    assert set(samples["period_cycles"]) == {1 << 14}
    assert [q.kind for q in imported.quality] == []


def test_the_period_in_force_is_read_back(built: Built, tmp_path: Path) -> None:
    """CUPTI may take another one than was asked for."""
    places: list[Place] = [(1, SAXPY, 0, 0, {LONG: 5})]
    words = (
        "context=1",
        f"module={CUBIN}",
        write_samples(tmp_path / "a", "totals 1 5 0 0 0", places=places),
    )
    asked = sample(built, tmp_path / "asked", *words, SIGHTLINE_CUPTI_PC_PERIOD="9")
    assert set(asked.imported.tables["pc_samples"]["period_cycles"]) == {1 << 9}
    other = sample(
        built, tmp_path / "other", *words, SIGHTLINE_CUPTI_PC_PERIOD="9", MOCK_PERIOD="12"
    )
    assert set(other.imported.tables["pc_samples"]["period_cycles"]) == {1 << 12}


def test_more_places_than_one_fetch_holds(built: Built, tmp_path: Path) -> None:
    places: list[Place] = [
        (1, f"kernel_{n % 7}", 16 * n, 0, {WAIT: n % 5 + 1}) for n in range(17_003)
    ]
    outcome = sample(built, tmp_path, "context=1", write_samples(tmp_path / "a", places=places))
    samples = outcome.imported.tables["pc_samples"]
    assert samples.height == 17_003
    assert samples["samples"].sum() == sum(n % 5 + 1 for n in range(17_003))
    assert outcome.limits == {"samples_without_code": sum(n % 5 + 1 for n in range(17_003))}


def test_several_fetches_add_up(built: Built, tmp_path: Path) -> None:
    one = write_samples(tmp_path / "a", places=[(1, SAXPY, 16, 0, {LONG: 3, LONG_IDLE: 1})])
    two = write_samples(tmp_path / "b", places=[(1, SAXPY, 16, 0, {LONG: 4, LONG_IDLE: 2})])
    outcome = sample(built, tmp_path, "context=1", one, "fetch", two, "fetch", one)
    (row,) = outcome.imported.tables["pc_samples"].rows(named=True)
    assert (row["samples"], row["latency_samples"]) == (10, 4)


def test_what_cupti_leaves_in_the_configured_buffer(built: Built, tmp_path: Path) -> None:
    """At a module's load and at the end it puts samples there, and not into a fetch."""
    left = write_samples(tmp_path / "a", places=[(1, SAXPY, 32, 0, {LONG: 6})])
    leave = write_samples(tmp_path / "b", "leave 1")
    late = write_samples(tmp_path / "c", places=[(1, SAXPY, 48, 0, {LONG: 7})])
    outcome = sample(
        built, tmp_path, "context=1", left, leave, "fetch", late, "destroy=1",
        SIGHTLINE_CUPTI_PC_DRAIN_MS="40",
    )  # fmt: skip
    samples = outcome.imported.tables["pc_samples"]
    assert dict(samples.select("offset", "samples").iter_rows()) == {32: 6, 48: 7}


def test_losses_are_told(built: Built, tmp_path: Path) -> None:
    places: list[Place] = [(1, SAXPY, 0, 0, {LONG: 400})]
    outcome = sample(
        built, tmp_path, "context=1", f"module={CUBIN}",
        write_samples(tmp_path / "a", "totals 1 500 17 30 0", places=places), "fetch",
        write_samples(tmp_path / "b", "totals 1 0 0 0 1"), "fetch",
    )  # fmt: skip
    assert outcome.limits == {
        "dropped_samples": 17,
        "non_user_samples": 30,
        "sample_buffer_full": 1,
    }


def test_two_contexts(built: Built, tmp_path: Path) -> None:
    """The same function on two devices is two kernels."""
    places: list[Place] = [(1, SAXPY, 0, 0, {LONG: 3}), (2, SAXPY, 0, 0, {LONG: 5})]
    words = write_samples(tmp_path / "a", "totals 1 3 0 0 0", "totals 2 5 0 0 0", places=places)
    imported = sample(built, tmp_path, "context=1", "context=2", words).imported
    kernels = imported.tables["profiled_kernels"].join(
        imported.tables["pc_samples"], on="kernel_id"
    )
    assert dict(kernels.select("device_id", "samples").iter_rows()) == {0: 3, 1: 5}


def test_serialized_samples_belong_to_their_launch(built: Built, tmp_path: Path) -> None:
    """The join is exact: by the correlation id, to the launch's grid, stream, thread."""
    places: list[Place] = [(1, SAXPY, 16, c, {LONG: 10 * c}) for c in (1, 5, 9)]
    places.append((1, SAXPY, 16, 999, {LONG: 1}))
    outcome = sample(
        built, tmp_path, "context=1", f"module={CUBIN}", "launch=12",
        write_samples(tmp_path / "a", "totals 1 151 0 0 0", places=places),
        SIGHTLINE_CUPTI_PC="serialized",
    )  # fmt: skip
    imported = outcome.imported
    kernels = imported.tables["profiled_kernels"].join(
        imported.tables["pc_samples"].group_by("kernel_id").agg(pl.sum("samples")), on="kernel_id"
    )
    rows = {r["api_call_id"]: r for r in kernels.iter_rows(named=True)}
    assert {c: r["samples"] for c, r in rows.items()} == {1: 10, 5: 50, 9: 90, 999: 1}
    for correlation in (1, 5, 9):
        n = correlation - 1
        row = rows[correlation]
        assert (row["grid_x"], row["stream_id"], row["tid"]) == (1 + n, 7 + n % 3, 100 + n % 4)
    assert rows[999]["grid_x"] is None
    assert outcome.limits == {"serialized_kernels": None, "unmatched_samples": 1}


def test_without_permission_the_timeline_is_recorded(built: Built, tmp_path: Path) -> None:
    outcome = sample(built, tmp_path, "context=1", "launch=20", MOCK_NO_SAMPLING=NO_PERMISSION)
    assert outcome.imported.tables["device_ops"].height == 20
    assert "pc_samples" not in outcome.imported.tables
    assert [q.kind for q in outcome.imported.quality] == ["sampling_failed"]


def test_modules_that_find_no_room(built: Built, tmp_path: Path) -> None:
    places: list[Place] = [(1, SAXPY, 16, 0, {LONG: 3})]
    outcome = sample(
        built, tmp_path, "context=1", f"module={CUBIN}",
        write_samples(tmp_path / "a", places=places), SIGHTLINE_CUPTI_CUBIN_MIB="0",
    )  # fmt: skip
    assert outcome.limits == {"cubins_left_out": 1, "samples_without_code": 3}
    assert outcome.imported.tables["pc_samples"]["line"].to_list() == [None]


def test_a_module_is_kept_once(built: Built, tmp_path: Path) -> None:
    outcome = sample(built, tmp_path, "context=1", *[f"module={CUBIN}"] * 5)
    assert outcome.file.cubins == {CRC: CUBIN.read_bytes()}
    assert outcome.path.stat().st_size < 2 * CUBIN.stat().st_size


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with a timeline and samples."""
    folder = tmp_path_factory.mktemp("cupti")
    places: list[Place] = [
        (1, SAXPY, 16, 0, {LONG: 30, LONG_IDLE: 20}),
        (1, SAXPY, 32, 0, {WAIT: 10, SELECTED: 10}),
        (1, REDUCE, 16, 0, {NO_INSTRUCTIONS: 50}),
    ]
    words = write_samples(folder / "a", "totals 1 100 0 0 0", places=places)
    verbs = ("device=0", "context=1", f"module={CUBIN}", "launch=50", words)
    return sample(build(), folder, *verbs).path


def test_stalls_and_hot_lines(recording: Path) -> None:
    run = sightline.open(str(recording))
    stalls = run.ask("stalls").filter(family="samples")
    saxpy = stalls.filter(pl.col("name").str.starts_with("saxpy"))
    assert dict(saxpy.select("reason", "share_pct").iter_rows()) == {
        "long_scoreboard": 60.0, "wait": 20.0, "selected": 20.0,
    }  # fmt: skip
    idle = run.ask("stalls").filter(family="samples_not_issued")
    assert idle.select("reason", "value").rows() == [("long_scoreboard", 20.0)]
    # What both tools call no_instruction is one reason.
    assert "no_instruction" in stalls["reason"].to_list()
    hot = run.ask("hot_lines").filter(pl.col("name").str.starts_with("saxpy"))
    listing = read_listing()
    lines = {listing[SAXPY, at][2] for at in (16, 32)}
    assert set(hot["line"]) == lines
    assert hot["samples"].sum() == 50


def test_flame_graph_of_stalls(recording: Path, tmp_path: Path) -> None:
    """From the kernel over the source line and the instruction to the stall."""
    target = tmp_path / "stalls.folded"
    outcome = command("flame", recording, "--weight", "samples", "-o", target)
    assert outcome.code == 0, outcome.err
    lines = dict(line.rsplit(" ", 1) for line in target.read_text().splitlines())
    assert sum(map(int, lines.values())) == 100
    _, file, line = read_listing()[SAXPY, 16]
    waiting = next(stack for stack in lines if "long_scoreboard" in stack)
    assert [w in waiting for w in ("saxpy", f"kernels.cu:{line}", "+0x10", "memory wait")] == [
        True
    ] * 4
    assert file.endswith("kernels.cu")
    assert lines[waiting] == "30"


def test_report_needs_no_tool_of_the_vendor(recording: Path) -> None:
    outcome = command("report", recording)
    assert outcome.code == 0, outcome.err
    assert "NVIDIA H200" in outcome.out


def test_bounds_of_a_sampled_kernel(recording: Path) -> None:
    """Its launches are those of the timeline with its name, on the device that was sampled."""
    run = sightline.open(str(recording))
    found = run.ask("sampled_roofline").filter(pl.col("name").str.starts_with("saxpy"))
    (row,) = found.iter_rows(named=True)
    # Every fourth of 50 kernels is it, and every second is on the other device; each takes 3 µs.
    assert (row["launches"], row["device_ns"]) == (13, 13 * 3_000)
    assert (row["samples"], row["issued_samples"]) == (50, 10)
    # 10 of 50 samples issued: with 4 warps at least 0.11 of the slots (Wilson).
    assert row["issue_low_pct"] == pytest.approx(100 * 0.1124, rel=0.01)
    assert row["warps_low"] < row["warps_high"]
