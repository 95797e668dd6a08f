"""The store and the cache: what is written comes back, and nothing else is touched."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core import registry
from sightline.core.model.cache_folder import find_cache_folder
from sightline.core.model.clock import Clock
from sightline.core.model.run import Run
from sightline.errors import StoreError
from sightline.opening import cache
from support import traces as t
from support.command import sightline as command
from support.simulated import files_of, simulated

EVENTS = [
    t.step(1, 0, 100),
    t.op("aten::mm", 1, 20),
    t.launch(2, 3, 7),
    t.kernel("gemm", 10, 5, 7),
    t.copy("Memcpy HtoD (Pinned -> Device)", 20, 5, 4096),
]


def tables(run: Run) -> dict[str, pl.DataFrame]:
    return {name: run.table(name) for name in registry.list_names("tables")}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "own cache"))
    return find_cache_folder()


def entries(cache: Path) -> set[str]:
    return {p.name for p in cache.iterdir() if (p / "run.json").is_file()}


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder with a digest of its bytes."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


# -- import, save, open -------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["straggler", "random_program", "cpu_only"])
def test_saved_run_comes_back_the_same(tmp_path: Path, scenario: str) -> None:
    run = simulated(scenario).run
    sightline.save(run, str(tmp_path / "run.sightline"))
    again = sightline.open(str(tmp_path / "run.sightline"))
    want, got = tables(run), tables(again)
    assert set(want) == set(got)
    for name, table in want.items():
        assert got[name].equals(table), name


def test_store_of_a_store_is_the_same(tmp_path: Path) -> None:
    run = simulated("straggler").run
    first, second = tmp_path / "a.sightline", tmp_path / "b.sightline"
    sightline.save(run, str(first))
    sightline.save(sightline.open(str(first)), str(second))
    assert contents(first).keys() == contents(second).keys()
    for name, table in tables(sightline.open(str(second))).items():
        assert table.equals(tables(run)[name]), name


def test_store_and_recording_together_make_one_run(tmp_path: Path) -> None:
    store = tmp_path / "rank0.sightline"
    sightline.save(sightline.open(str(t.write(tmp_path, EVENTS, "rank0.json"))), str(store))
    other = t.write(tmp_path, EVENTS, "rank1.json")
    run = sightline.open(str(store), str(other))
    assert run.table("recordings").get_column("rank").to_list() == [0, 1]
    assert run.table("device_ops").get_column("device_op_id").n_unique() == 4
    launched = run.table("device_ops").join(
        run.table("host_ops"), left_on="launch_id", right_on="host_op_id"
    )
    assert launched.get_column("rank").to_list() == launched.get_column("rank_right").to_list()


def test_import_command_writes_a_store(tmp_path: Path) -> None:
    path = t.write(tmp_path, EVENTS)
    outcome = command("import", path, "-o", tmp_path / "mine")
    assert (outcome.code, outcome.out.strip()) == (0, str(tmp_path / "mine.sightline"))
    from_store = command("stats", "breakdown", tmp_path / "mine.sightline", "--json")
    assert from_store.out == command("stats", "breakdown", path, "--json").out


def test_answers_from_a_store_are_those_from_the_recording(tmp_path: Path) -> None:
    run = simulated("exposed_communication").run
    sightline.save(run, str(tmp_path / "run.sightline"))
    again = sightline.open(str(tmp_path / "run.sightline"))
    for name in ("breakdown", "kernels", "idle", "steps", "ops", "annotations"):
        assert again.ask(name).equals(run.ask(name)), name


# -- other tools --------------------------------------------------------------------------------


def test_other_tools_open_the_layout(tmp_path: Path) -> None:
    """Hive partitions by rank, and ids that are unique over all files."""
    duckdb = pytest.importorskip("duckdb")
    run = simulated("straggler").run
    sightline.save(run, str(tmp_path / "run.sightline"))
    files = f"{tmp_path}/run.sightline/device_ops/**/*.parquet"
    ((rows, ids, ranks, total),) = duckdb.sql(
        f"select count(*), count(distinct device_op_id), list(distinct rank order by rank), "
        f"sum(end_ns - start_ns) from read_parquet('{files}', hive_partitioning = true)"
    ).fetchall()
    ops = run.table("device_ops")
    assert (rows, ids, ranks) == (ops.height, ops.height, [0, 1, 2])
    assert total == ops.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    ((joined,),) = duckdb.sql(
        f"select count(*) from read_parquet('{files}') d join "
        f"read_parquet('{tmp_path}/run.sightline/host_ops/**/*.parquet') h "
        f"on d.launch_id = h.host_op_id"
    ).fetchall()
    assert joined == ops.get_column("launch_id").count()


def test_polars_opens_the_layout(tmp_path: Path) -> None:
    run = simulated("straggler").run
    sightline.save(run, str(tmp_path / "run.sightline"))
    folder = tmp_path / "run.sightline" / "device_ops"
    frame = pl.read_parquet(folder / "**" / "*.parquet", hive_partitioning=True)
    assert frame.group_by("rank").len().sort("rank").rows() == (
        run.table("device_ops").group_by("rank").len().sort("rank").rows()
    )


# -- damage -------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "run.sightline"
    sightline.save(sightline.open(str(t.write(tmp_path, EVENTS))), str(path))
    return path


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        '{"format": "other", "version": 1, "recordings": []}',
        '{"format": "sightline-run", "version": 999, "recordings": []}',
        '{"format": "sightline-run", "version": 1}',
        '{"format": "sightline-run", "version": 1, "recordings": [{}]}',
        '{"format": "sightline-run", "version": 1, "recordings": [5]}',
        "\x00\xff",
    ],
)
def test_damaged_description_is_a_store_error(store: Path, text: str) -> None:
    (store / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(StoreError):
        sightline.open(str(store))
    assert command("stats", "breakdown", store).code == 2


@pytest.mark.parametrize(
    "change",
    [
        {"rank": "0"}, {"rank": -1}, {"rank": True}, {"rows": {"device_ops": "many"}},
        {"path": 5}, {"bytes": 2**70}, {"has_stacks": "yes"}, {"quality": {}}, {"quality": [5]},
        {"quality": [{"kind": "x", "severity": "dire", "text": "y"}]}, {"constants": []},
        {"constants": {"device_ops": {"name": {}}}}, {"constants": {"device_ops": {"x": 1}}},
        {"layers": "step"}, {"process": 7}, {"own": []},
    ],
    ids=str,
)  # fmt: skip
def test_facts_of_another_type_are_a_store_error(store: Path, change: dict[str, object]) -> None:
    document = json.loads((store / "run.json").read_text())
    document["recordings"][0].update(change)
    (store / "run.json").write_text(json.dumps(document))
    for words in (["report", store, "--json"], ["sql", store, "FROM device_ops"]):
        assert command(*words).code == 2


def test_store_that_does_not_say_what_it_is_about_is_an_error(store: Path) -> None:
    """The content's hash is what every answer names: a store whose key is damaged has none."""
    text = (store / "run.json").read_text()
    assert text.count('"content"') == 1
    (store / "run.json").write_text(text.replace('"content"', '"co[ntent"'))
    with pytest.raises(StoreError, match="damaged or incomplete"):
        sightline.open(str(store))


def test_store_without_recordings_is_an_error(store: Path) -> None:
    document = json.loads((store / "run.json").read_text())
    (store / "run.json").write_text(json.dumps({**document, "recordings": []}))
    outcome = command("stats", "breakdown", store)
    assert outcome.code == 2


def test_columns_of_nulls_are_not_in_the_cache_but_in_the_table(
    own_cache: Path, tmp_path: Path
) -> None:
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    (file,) = own_cache.rglob("host_ops/*/*.parquet")
    stored = pl.read_parquet_schema(file)
    assert "correlation_id" in stored
    assert "input_shapes" not in stored
    assert run.table("host_ops").get_column("input_shapes").to_list() == [None] * 3
    # What a person keeps has all columns, so that other tools can join the files of all ranks.
    sightline.save(run, str(tmp_path / "kept.sightline"))
    (file,) = (tmp_path / "kept.sightline").rglob("host_ops/*/*.parquet")
    assert pl.read_parquet_schema(file)["input_shapes"] == pl.String


@pytest.mark.parametrize("damage", ["empty", "cut", "rubbish"])
def test_damaged_table_is_a_store_error(store: Path, damage: str) -> None:
    (file,) = (store / "device_ops").rglob("*.parquet")
    data = file.read_bytes()
    file.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "rubbish": b"x" * 500}[damage])
    with pytest.raises(StoreError):
        sightline.open(str(store)).table("device_ops")
    for words in (["stats", "breakdown", store], ["sql", store, "FROM device_ops"]):
        outcome = command(*words)
        assert outcome.code == 2
        assert "device_ops" in outcome.err


def test_table_of_rows_that_end_before_they_start_is_a_store_error(store: Path) -> None:
    """Bytes that changed may still be Parquet: nothing of ours ends before it starts."""
    (file,) = (store / "device_ops").rglob("*.parquet")
    rows = pl.read_parquet(file, hive_partitioning=False)
    rows.with_columns(end_ns=pl.col("start_ns") - 1).write_parquet(file)
    outcome = command("report", store, "--no-html")
    assert outcome.code == 2
    assert "ends before it starts" in outcome.err


def test_table_without_a_column_is_a_store_error(store: Path) -> None:
    (file,) = (store / "device_ops").rglob("*.parquet")
    pl.read_parquet(file, hive_partitioning=False).drop("name").write_parquet(file)
    assert command("stats", "kernels", store).code == 2


# -- what must not be touched -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_something_else_is_not_overwritten(tmp_path: Path, kind: str) -> None:
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    target = tmp_path / "mine.sightline"
    if kind == "folder":
        target.mkdir()
        (target / "thesis.txt").write_text("years of work")
    else:
        target.write_text("years of work")
    before = contents(tmp_path)
    with pytest.raises(StoreError):
        sightline.save(run, str(target))
    assert contents(tmp_path) == before


def test_store_is_replaced_by_a_new_one(tmp_path: Path, store: Path) -> None:
    other = t.write(tmp_path, [t.kernel("other", 0, 1)], "other.json")
    sightline.save(sightline.open(str(other)), str(store))
    assert sightline.open(str(store)).table("device_ops").get_column("name").to_list() == ["other"]
    assert not (store / "host_ops").exists()


def test_store_can_be_replaced_by_what_was_read_from_it(store: Path) -> None:
    before = tables(sightline.open(str(store)))
    sightline.save(sightline.open(str(store)), str(store))
    for name, table in tables(sightline.open(str(store))).items():
        assert table.equals(before[name]), name


def test_place_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError):
        sightline.save(run, str(tmp_path / "file" / "run.sightline"))


def test_recordings_and_their_folder_stay_as_they_are(tmp_path: Path, own_cache: Path) -> None:
    recordings = tmp_path / "recordings"
    for file in files_of("straggler", 0, "2025"):
        recordings.mkdir(exist_ok=True)
        shutil.copy(file, recordings)
    t.write(recordings, EVENTS, "more/other.json.gz")
    before = contents(recordings), {p: p.stat().st_mtime_ns for p in recordings.rglob("*")}
    for words in (["report"], ["stats", "kernels"], ["stats", "idle_gaps"]):
        assert command(*words, recordings, "--same-job").code == 0
    after = contents(recordings), {p: p.stat().st_mtime_ns for p in recordings.rglob("*")}
    assert after == before
    assert own_cache.is_dir()


# -- the cache ----------------------------------------------------------------------------------


def test_second_opening_takes_the_cache(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(t.write(tmp_path, EVENTS))
    first = tables(sightline.open(path))
    before = entries(own_cache)
    monkeypatch.setattr(
        "sightline.formats.pytorch.kineto.build_tables", lambda *_: pytest.fail("imported")
    )
    second = tables(sightline.open(path))
    assert entries(own_cache) == before
    assert all(first[name].equals(second[name]) for name in first)


def test_same_content_elsewhere_takes_the_cache(tmp_path: Path, own_cache: Path) -> None:
    sightline.open(str(t.write(tmp_path, EVENTS, "a/trace.json")))
    before = entries(own_cache)
    sightline.open(str(t.write(tmp_path, EVENTS, "b/trace.json")))
    assert entries(own_cache) == before


@pytest.mark.parametrize("names", [("a.json", "rank4.json"), ("rank4.json", "a.json")])
def test_cache_knows_what_the_file_is_called(
    tmp_path: Path, own_cache: Path, names: tuple[str, str]
) -> None:
    """The same content under two names: each run says its own path and its own rank."""
    for name in names:
        path = str(t.write(tmp_path, EVENTS, name))
        (row,) = sightline.open(path).table("recordings").to_dicts()
        assert row["path"] == path
        assert row["rank"] == (4 if name == "rank4.json" else 0)


def test_changed_content_is_read_again(tmp_path: Path, own_cache: Path) -> None:
    path = t.write(tmp_path, [t.kernel("old", 0, 1)])
    stamp = path.stat()
    assert sightline.open(str(path)).table("device_ops")["name"].to_list() == ["old"]
    t.write(tmp_path, [t.kernel("new", 0, 1)])
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 10))
    assert sightline.open(str(path)).table("device_ops")["name"].to_list() == ["new"]


def test_new_version_of_the_importer_reads_again(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sightline.formats.pytorch import kineto

    path = str(t.write(tmp_path, EVENTS))
    sightline.open(path)
    before = entries(own_cache)
    newer = dataclasses.replace(kineto.IMPORTER, version=kineto.IMPORTER.version + 1)
    monkeypatch.setattr(kineto, "IMPORTER", newer)
    sightline.open(path)
    assert len(entries(own_cache)) == len(before) + 1


def test_new_columns_of_a_table_make_cached_imports_anew(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that an earlier sightline wrote lacks the column: it must not be taken."""
    import dataclasses

    from sightline.core.model.columns import number
    from sightline.core.model.tables import device_ops

    path = str(t.write(tmp_path, EVENTS))
    sightline.open(path).table("device_ops")
    columns = (*device_ops.TABLE.columns, number("brand_new", "a column of the next version"))
    monkeypatch.setattr(device_ops, "TABLE", dataclasses.replace(device_ops.TABLE, columns=columns))
    table = sightline.open(path).table("device_ops")
    assert table.get_column("brand_new").null_count() == table.height


def test_identity_has_an_entry_of_its_own(tmp_path: Path, own_cache: Path) -> None:
    path = str(t.write(tmp_path, EVENTS, host_name="node17"))
    assert sightline.open(path, keep_identity=True).table("recordings")["host"].to_list() == [
        "node17"
    ]
    assert sightline.open(path).table("recordings")["host"].to_list() == [None]


def test_trim_removes_what_was_used_longest_ago(tmp_path: Path, own_cache: Path) -> None:
    made: list[str] = []
    for number in range(4):
        known = set(made)
        sightline.open(str(t.write(tmp_path, [t.kernel(f"k{number}", 0, 1)], f"{number}.json")))
        (new,) = entries(own_cache) - known
        made.append(new)
        os.utime(own_cache / new, (number, number))
    os.utime(own_cache / made[0])  # used again just now
    size = sum(f.stat().st_size for f in (own_cache / made[0]).rglob("*") if f.is_file())
    cache.forget_use()  # as in the next command
    cache.trim_cache(limit_bytes=2 * size + size // 2)
    assert entries(own_cache) == {made[0], made[3]}


def test_limit_of_the_cache_from_the_environment(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry in use stays, whatever the limit says; those of earlier commands go."""
    monkeypatch.setenv("SIGHTLINE_CACHE_BYTES", "1")
    for number in range(3):
        cache.forget_use()
        path = t.write(tmp_path, [t.kernel("k", number, 1)], f"{number}.json")
        assert sightline.open(str(path)).table("device_ops").height == 1
    assert len(entries(own_cache)) == 1


def test_several_recordings_survive_a_small_limit(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All entries that one command uses stay until it is done."""
    monkeypatch.setenv("SIGHTLINE_CACHE_BYTES", "1")
    paths = [t.write(tmp_path, EVENTS, f"rank{n}.json") for n in range(3)]
    for n, path in enumerate(paths):
        t.write(tmp_path, [*EVENTS, t.kernel("more", 50 + n, 1)], path.name)
    run = sightline.open(*map(str, paths))
    assert run.table("device_ops").height == 9


def test_entry_that_vanishes_is_an_error_not_a_smaller_number(
    tmp_path: Path, own_cache: Path
) -> None:
    run = sightline.open(*(str(t.write(tmp_path, EVENTS, f"rank{n}.json")) for n in range(2)))
    for file in own_cache.rglob("device_ops/**/*.parquet"):
        file.unlink()
    with pytest.raises(StoreError, match="missing"):
        run.table("device_ops")


def test_clear_empties_the_cache(tmp_path: Path, own_cache: Path) -> None:
    path = str(t.write(tmp_path, EVENTS))
    sightline.open(path)
    assert command("cache", "clear").code == 0
    assert not own_cache.exists()
    assert command("stats", "breakdown", path).code == 0


@pytest.mark.parametrize("damage", ["emptied", "gone", "of another name"])
def test_damaged_entry_is_made_again(tmp_path: Path, own_cache: Path, damage: str) -> None:
    path = t.write(tmp_path, EVENTS)
    want = command("stats", "breakdown", path).out
    (name,) = entries(own_cache)
    for file in own_cache.rglob("device_ops/**/*.parquet"):
        if damage == "emptied":
            file.write_bytes(b"")
        elif damage == "gone":
            file.unlink()
    if damage == "of another name":
        other = t.write(tmp_path, [t.kernel("other", 0, 1)], "other.json")
        sightline.open(str(other))
        (stranger,) = entries(own_cache) - {name}
        shutil.rmtree(own_cache / name)
        (own_cache / stranger).rename(own_cache / name)
    outcome = command("stats", "breakdown", path)
    assert (outcome.code, outcome.out) == (0, want)


def test_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = t.write(tmp_path, EVENTS)
    want = command("stats", "breakdown", path).out
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "file" / "cache"))
    outcome = command("stats", "breakdown", path)
    assert (outcome.code, outcome.out) == (0, want)
    assert "nothing is cached" in caplog.text


def test_named_columns_are_those_of_all_parts_one_on_another_clock_too(tmp_path: Path) -> None:
    run = sightline.open(str(t.write(tmp_path, EVENTS)))
    part = run.parts[0]
    moved = dataclasses.replace(part, clock=Clock(shift_ns=5, drift=0.0, at_ns=0))
    found = Run([part, moved]).scan("device_ops", ["start_ns", "name"]).collect()
    rows = run.table("device_ops", ["name", "start_ns"])
    assert found["name"].to_list() == [*rows["name"], *rows["name"]]
    assert found["start_ns"].to_list() == [*rows["start_ns"], *(rows["start_ns"] + 5)]
    assert found.width == 2
