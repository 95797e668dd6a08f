"""What is kept: equal to what was read, whatever ended the writer, and never more than allowed."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from record.monitor.machine import EPOCH, SECOND
from sightline.answer.history_sql import answer_history
from sightline.core.model.history_folder import MADE_OF, list_live, list_sealed, read_live
from sightline.core.model.history_tables import scan_history, thin_rows
from sightline.errors import RequestError
from sightline.record.monitor import history, seal
from sightline.record.monitor.history import HistoryWriter, Limits
from sightline.record.monitor.readings import GPU, HOST, PROCESS, Device, Entity, Event, Reading
from sightline.record.monitor.rounds import Round
from support.campaigns import CAMPAIGNS, sample

H200 = Device(0, "nvidia", "NVIDIA H200", "GPU-0", "0000:10:00.0", "575.57")


def make_round(second: int, readings: list[Reading], events: tuple[Event, ...] = ()) -> Round:
    at = EPOCH + second * SECOND
    for reading in readings:
        reading.time_ns = at
    return Round(at, second * SECOND, readings, list(events))


def open_writer(folder: Path, limits: Limits | None = None) -> HistoryWriter:
    """A writer that seals within this process."""

    def seal_here(folder: Path, ended: Sequence[Path]) -> None:
        seal.main([str(folder), *(path.name for path in ended)])

    # Thinning goes by the real date, and these readings are of no date.
    writer = HistoryWriter(folder, limits or Limits(thinning=()), 1.0, seal=seal_here)
    writer.set_devices([H200])
    return writer


def read(*values: tuple[Entity, dict[str, float]]) -> list[Reading]:
    return [Reading(entity, 0, told) for entity, told in values]


GPU0, GPU1 = Entity(GPU, 0), Entity(GPU, 1)


def test_what_is_kept_is_what_was_read(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "h")
    process = Entity(PROCESS, 0, "process 7")
    writer.write(make_round(0, read((GPU0, {"power": 1.5}), (Entity(HOST), {"load": 0.25}))))
    # A metric more, a GPU more, a process that comes and goes; no reading is no value.
    writer.write(make_round(1, read((GPU0, {"power": 2.5, "SM active": 0.0}), (GPU1, {}))))
    gone = Event(EPOCH, "xid", GPU1, "XID 79")
    writer.write(make_round(2, read((process, {"memory used": 5.0})), (gone,)))
    expected = pl.DataFrame(
        {
            "time_ns": [EPOCH, EPOCH + SECOND, EPOCH + SECOND],
            "device_id": [0, 0, 1],
            "power_w": [1.5, 2.5, None],
            "sm_active_pct": [None, 0.0, None],
        }
    )
    for is_sealed in (False, True):
        if is_sealed:
            writer.close()
        rows = scan_history(tmp_path / "h", "gpus").collect().sort("time_ns", "device_id")
        assert_frame_equal(rows.select(expected.columns), expected)
        (told,) = scan_history(tmp_path / "h", "processes").collect().to_dicts()
        assert (told["source"], told["memory_used_bytes"]) == ("process 7", 5.0)
        (event,) = scan_history(tmp_path / "h", "events").collect().to_dicts()
        assert (event["event"], event["device_id"], event["text"]) == ("xid", 1, "XID 79")
    assert not list_live(tmp_path / "h")
    assert json.loads((tmp_path / "h/devices.json").read_text())[0]["name"] == "NVIDIA H200"


def test_whatever_the_writer_was_at_all_whole_rounds_are_read(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "h")
    for second in range(20):
        writer.write(make_round(second, read((GPU0, {"power": float(second)}))))
    (live,) = list_live(tmp_path / "h")
    whole = live.read_bytes()
    counts = set()
    for length in range(len(whole) - 90, len(whole) + 1):  # killed within the last two rounds
        live.write_bytes(whole[:length])
        found = read_live(live)
        assert found.lost < 60
        counts.add(len(found.rounds))
        rows = scan_history(tmp_path / "h", "gpus").collect()
        assert rows.get_column("power_w").to_list() == [float(n) for n in range(len(found.rounds))]
    assert counts == {17, 18, 19, 20} or counts == {18, 19, 20}


def test_a_live_file_of_noise_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "h")
    for second in range(5):
        writer.write(make_round(second, read((GPU0, {"power": 1.0}))))
    (live,) = list_live(tmp_path / "h")
    whole = live.read_bytes()
    chance = random.Random(7)
    for _ in range(300):
        at = chance.randrange(len(whole))
        live.write_bytes(whole[:at] + bytes([chance.randrange(256)]) + whole[at + 1 :])
        assert len(read_live(live).rounds) <= 5


def test_a_watch_that_was_killed_leaves_its_file_to_the_next(tmp_path: Path) -> None:
    first = open_writer(tmp_path / "h")
    first.write(make_round(0, read((GPU0, {"power": 1.0}))))
    os.close(first._lock)  # what the end of a process does
    second = open_writer(tmp_path / "h")
    assert not list_live(tmp_path / "h")
    second.write(make_round(9, read((GPU0, {"power": 2.0}))))
    second.close()
    rows = scan_history(tmp_path / "h", "gpus").collect().sort("time_ns")
    assert rows.get_column("power_w").to_list() == [1.0, 2.0]


def test_what_is_sealed_at_the_start_is_not_what_is_written_now(tmp_path: Path) -> None:
    """The process that seals is slow to start: meanwhile the new file is written to."""
    first = open_writer(tmp_path / "h")
    first.write(make_round(0, read((GPU0, {"power": 1.0}))))
    os.close(first._lock)
    waiting: list[Sequence[Path]] = []

    def seal_later(folder: Path, ended: Sequence[Path]) -> None:
        waiting.append(ended)

    second = HistoryWriter(tmp_path / "h", Limits(thinning=()), 1.0, seal=seal_later)
    for second_of in (9, 10):
        second.write(make_round(second_of, read((GPU0, {"power": 2.0}))))
    history.start_sealing(tmp_path / "h", waiting[0]).wait()  # type: ignore[union-attr]
    second.write(make_round(11, read((GPU0, {"power": 2.0}))))
    second.close()
    history.start_sealing(tmp_path / "h", waiting[-1]).wait()  # type: ignore[union-attr]
    rows = scan_history(tmp_path / "h", "gpus").collect().sort("time_ns")
    assert rows.get_column("power_w").to_list() == [1.0, 2.0, 2.0, 2.0]


def test_sealing_again_what_was_sealed_doubles_nothing(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "h")
    writer.write(make_round(0, read((GPU0, {"power": 1.0}))))
    (live,) = list_live(tmp_path / "h")
    saved = live.read_bytes()
    writer.close()
    live.write_bytes(saved)  # killed between the Parquet file and the removal
    seal.main([str(tmp_path / "h"), live.name])
    assert scan_history(tmp_path / "h", "gpus").collect().height == 1


def test_a_folder_that_is_removed_is_begun_anew_and_that_is_told(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "h")
    assert writer.write(make_round(0, read((GPU0, {"power": 1.0}))))
    shutil.rmtree(tmp_path / "h")
    assert writer.write(make_round(1, read((GPU0, {"power": 2.0}))))
    assert writer.write(make_round(2, read((GPU0, {"power": 3.0}))))
    assert (writer.begun_anew, writer.lost_rounds) == (1, 0)
    writer.close()
    kept = scan_history(tmp_path / "h", "gpus").collect()
    assert kept.get_column("power_w").to_list() == [2.0, 3.0]


def test_rounds_are_counted_where_a_removed_folder_cannot_be_made_again(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "at" / "h")
    writer.write(make_round(0, read((GPU0, {"power": 1.0}))))
    shutil.rmtree(tmp_path / "at")
    (tmp_path / "at").write_text("a file in the folder's place")
    assert not writer.write(make_round(1, read((GPU0, {"power": 2.0}))))
    assert not writer.write(make_round(2, read((GPU0, {"power": 3.0}))))
    assert (writer.begun_anew, writer.lost_rounds) == (0, 2)
    assert writer.why_lost
    writer.close()
    (tmp_path / "at").unlink()
    assert not (tmp_path / "at" / "h").exists()


def test_a_full_disk_costs_rounds_and_nothing_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer(tmp_path / "h")
    real = os.write
    room = [120]

    def write(file: int, data: bytes) -> int:
        taken = min(len(data), room[0])
        if taken == 0:
            raise OSError(28, "No space left on device")
        room[0] -= taken
        return real(file, data[:taken])

    monkeypatch.setattr(history.os, "write", write)
    room[0] = 10**6
    assert writer.write(make_round(0, read((GPU0, {"power": 0.0}))))
    room[0] = 30  # half a record
    assert not writer.write(make_round(1, read((GPU0, {"power": 1.0, "SM active": 2.0}))))
    assert not writer.write(make_round(2, read((GPU0, {"power": 2.0}))))
    assert (writer.lost_rounds, writer.why_lost) == (2, "No space left on device")
    room[0] = 10**6
    assert writer.write(make_round(3, read((GPU0, {"power": 3.0, "SM active": 4.0}))))
    monkeypatch.undo()
    writer.close()
    rows = scan_history(tmp_path / "h", "gpus").collect().sort("time_ns")
    assert rows.select("power_w", "sm_active_pct").rows() == [(0.0, None), (3.0, 4.0)]


def test_files_are_begun_anew_each_hour_and_sealed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "h")
    for second in range(0, 3 * 3600, 600):
        writer.write(make_round(second, read((GPU0, {"power": float(second)}))))
    assert len(list_live(tmp_path / "h")) == 1
    assert len(list_sealed(tmp_path / "h", "gpus")) == 2
    writer.close()
    assert scan_history(tmp_path / "h", "gpus").collect().height == 18


def test_thinned_rows_are_means_with_extremes_by_an_own_loop() -> None:
    chance = random.Random(3)
    rows = [
        {"time_ns": EPOCH + s * SECOND, "device_id": gpu, "power_w": chance.uniform(100, 700),
         "energy_j": 650.0 * s, "xid": float(s > 55)}
        for gpu in (0, 1) for s in range(100) if chance.random() < 0.8
    ]  # fmt: skip
    schema = {"time_ns": pl.Int64, "interval_ns": pl.Int64, "device_id": pl.Int64,
              "source": pl.String, "power_w": pl.Float64, "energy_j": pl.Float64,
              "xid": pl.Float64}  # fmt: skip
    thinned = thin_rows(pl.DataFrame(rows, schema=schema), 10 * SECOND)
    groups: dict[tuple[int, int], list[dict[str, float]]] = {}
    for row in rows:
        end = -(-row["time_ns"] // (10 * SECOND)) * 10 * SECOND
        groups.setdefault((int(row["device_id"]), int(end)), []).append(row)
    assert thinned.height == len(groups)
    for told in thinned.iter_rows(named=True):
        mine = groups[told["device_id"], told["time_ns"]]
        watts = [row["power_w"] for row in mine]
        assert told["power_w"] == pytest.approx(sum(watts) / len(watts))
        assert (told["power_w_min"], told["power_w_max"]) == (min(watts), max(watts))
        assert told["energy_j"] == mine[-1]["energy_j"]  # what was counted last, no mean
        assert told["xid"] == mine[-1]["xid"]
        assert told["interval_ns"] == 10 * SECOND
    # Thinned twice is thinned once: means of means count by their length.
    again = thin_rows(thinned, 20 * SECOND)
    assert again.get_column("power_w_max").max() == max(row["power_w"] for row in rows)


def test_old_days_are_thinned_and_the_bound_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    limits = Limits(thinning=((0.5, 60),), max_bytes=10**9)
    writer = open_writer(folder, limits)
    days = [0, 1, 2]
    for day in days:
        for second in range(600):
            now = make_round(day * 86_400 + second, read((GPU0, {"power": float(second % 60)})))
            writer.write(now)
    writer.close()  # all of it is long ago
    assert [f.name.split("-")[0] for f in list_sealed(folder, "gpus")] == ["60s"] * 3
    rows = scan_history(folder, "gpus").collect()
    assert rows.get_column("power_w_max").max() == 59 and rows.height < 40
    one = list_sealed(folder, "gpus")[0].stat().st_size
    seal.keep_bound(folder, 2 * one + one // 2)
    kept = [f.parent.name for f in list_sealed(folder, "gpus")]
    assert len(kept) == 2 and kept == sorted(kept)[-2:]  # the oldest day went
    beside = {f.parent.name for f in (folder / "gpus").glob(f"date=*/*{MADE_OF}")}
    assert beside == {*kept}  # and what it was made of, with it


def test_an_interrupted_thinning_leaves_nothing_twice(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    writer = open_writer(folder, Limits(thinning=()))
    for second in range(120):
        writer.write(make_round(second, read((GPU0, {"power": 1.0}))))
    writer.close()
    (raw,) = list_sealed(folder, "gpus")
    saved = raw.read_bytes()
    seal.thin_day(raw.parent, 60)
    raw.write_bytes(saved)  # killed before it was removed
    assert scan_history(folder, "gpus").collect().height == 3
    seal.thin_day(raw.parent, 60)
    assert not raw.exists()


def test_readings_of_a_day_that_is_thinned_already_are_kept(tmp_path: Path) -> None:
    """A machine without a clock of its own begins each time on the same day."""
    folder = tmp_path / "h"
    for boot in range(3):
        writer = open_writer(folder, Limits(thinning=((0.5, 60),)))
        for second in range(boot * 600, boot * 600 + 600):
            writer.write(make_round(second, read((GPU0, {"power": float(boot)}))))
        writer.close()
        rows = scan_history(folder, "gpus").collect()
        found = set(rows.get_column("power_w_max").to_list())
        assert found == {float(number) for number in range(boot + 1)}
        assert rows.height in range(10 * (boot + 1), 10 * (boot + 1) + 2)


def test_a_damaged_file_stops_neither_thinning_nor_the_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "h"
    writer = open_writer(folder)
    writer.write(make_round(0, read((GPU0, {"power": 1.0}))))
    damaged = folder / "gpus/date=2020-01-01/raw-2-2.parquet"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"PAR1PAR1")
    writer.close()
    facts = json.loads((folder / "watch.json").read_text())
    (folder / "watch.json").write_text(json.dumps(facts | {"thinning": [[1, 60]], "max_bytes": 0}))
    assert seal.main([str(folder)]) == 1
    assert "date=2020-01-01" in capsys.readouterr().err
    assert not list_sealed(folder, "gpus")  # the bound was kept


def test_a_watch_that_is_refused_changes_nothing_of_the_other(tmp_path: Path) -> None:
    first = open_writer(tmp_path / "h")
    with pytest.raises(RequestError, match="another sightline watch keeps"):
        open_writer(tmp_path / "h", Limits(max_bytes=1))
    assert json.loads((tmp_path / "h/watch.json").read_text())["max_bytes"] == 2_000_000_000
    first.close()


def test_one_folder_is_kept_by_one_watch(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "h")
    with pytest.raises(RequestError, match="another sightline watch keeps"):
        open_writer(tmp_path / "h")
    writer.close()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("x")
    with pytest.raises(RequestError, match="is not empty and holds no history of sightline watch"):
        open_writer(tmp_path / "mine")


def test_sql_over_it_sees_the_sealed_and_the_fresh(tmp_path: Path) -> None:
    folder = tmp_path / "it's a [history]"
    writer = open_writer(folder)
    writer.write(make_round(0, read((GPU0, {"power": 100.0}))))
    writer.close()
    writer = open_writer(folder)
    writer.write(make_round(60, read((GPU0, {"power": 300.0, "SM active": 50.0}))))
    told = answer_history(folder, "SELECT avg(power_w) AS p, max(sm_active_pct) AS s FROM gpus")
    assert told.rows() == [(200.0, 50.0)]
    long = answer_history(folder, "SELECT metric, unit, value FROM counters ORDER BY value")
    assert long.rows() == [("SM active", "%", 50.0), ("power", "W", 100.0), ("power", "W", 300.0)]
    name = answer_history(folder, "SELECT name, driver FROM devices")
    assert name.rows() == [("NVIDIA H200", "575.57")]
    with pytest.raises(RequestError, match="cannot be answered"):
        answer_history(folder, "SELECT * FROM read_csv('/etc/hostname')")
    writer.close()


@pytest.mark.campaign
@pytest.mark.skipif(not CAMPAIGNS, reason="a day of eight GPUs: SIGHTLINE_CAMPAIGNS=1")
def test_a_day_of_eight_gpus(tmp_path: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "benchmarks/watch_day.py", "--folder", str(tmp_path / "day")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["megabytes"] <= 100
    assert told["answer_s"] < 0.5


@pytest.mark.parametrize("seed", sample(range(20), 4))
def test_records_that_say_anything_are_read_as_far_as_they_make_sense(
    tmp_path: Path, seed: int, cache: Path
) -> None:
    """Right checksums, wrong content: what a stranger's folder may hold."""
    import sightline
    from sightline.core.model.history_folder import DEVICES, ENTITY, EVENT, TABLE, pack_json
    from sightline.errors import SightlineError

    chance = random.Random(seed)
    odd = [None, -1, 2**70, "x", [], {}, True, 1.5, "gpus", ["power_w"], ["power_w", "power_w"],
           [["a"]], {"device_id": "0"}, "\ud800", [{"device_id": 0, "name": [1]}]]  # fmt: skip

    def spoil(told: dict[str, object]) -> dict[str, object]:
        return told | {chance.choice(list(told)): chance.choice(odd)}

    folder = tmp_path / "h"
    writer = open_writer(folder)
    writer.write(make_round(0, read((GPU0, {"power": 1.0}))))
    (live,) = list_live(folder)
    table = {"table": 9, "kind": "gpus", "columns": ["power_w", "time_ns"]}
    entity = {"entity": 9, "table": 9, "device_id": 3, "source": None}
    event = {"time_ns": EPOCH, "event": "xid", "kind": "gpus", "device_id": 1, "source": None,
             "text": "<b>XID</b>"}  # fmt: skip
    device = {"device_id": 0, "vendor": "nvidia", "name": "N", "uuid": "", "pci_bus_id": "",
              "driver": ""}  # fmt: skip
    records = [pack_json(TABLE, spoil(table)), pack_json(ENTITY, spoil(entity)),
               pack_json(EVENT, spoil(event)), pack_json(DEVICES, [spoil(device)]),
               pack_json(DEVICES, chance.choice(odd))]  # fmt: skip
    chance.shuffle(records)
    live.write_bytes(live.read_bytes() + b"".join(records))
    try:
        run = sightline.open(str(folder))
        assert run.table("counters").get_column("value").to_list() == [1.0]
        answer_history(folder, "SELECT * FROM counters, devices")
        answer_history(folder, "SELECT * FROM events")
        seal.main([str(folder), live.name])
    except SightlineError:
        pass
