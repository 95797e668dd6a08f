"""When a policy is violated and when it is over: durations, hysteresis, windows, no readings."""

from __future__ import annotations

from pathlib import Path

import pytest

from record.monitor.machine import EPOCH, SECOND
from sightline.core.units import parse_duration_ns
from sightline.errors import InputError, RequestError
from sightline.record.monitor.policies import DEFAULT, Policies, load_policies, parse_alert
from sightline.record.monitor.readings import GPU, Entity, Reading
from sightline.record.monitor.rounds import Round

GPU0 = Entity(GPU, 0)


def judge(policies: Policies, values: list[dict[str, float]], step_s: int = 1) -> list[str]:
    """'second kind: text' of each event."""
    told = []
    for n, mine in enumerate(values):
        at = n * step_s * SECOND
        now = Round(EPOCH + at, at, [Reading(GPU0, EPOCH + at, mine)])
        told += [f"{n * step_s} {e.kind} {e.text}" for e in policies.judge(now)]
    return told


def write(folder: Path, text: str) -> Policies:
    path = folder / "policy.yaml"
    path.write_text(text)
    return Policies(load_policies([str(path)]))


def test_it_must_hold_for_a_while_and_is_over_as_slowly(tmp_path: Path) -> None:
    policies = write(tmp_path, """
        tag: hot
        metrics: [temperature_c]
        rule: temperature_c.last > 90
        hint: "{temperature_c.last} C"
        watch: {for: 3s, clear: temperature_c.last < 80}
        """)  # fmt: skip
    series = [95, 95, 85, 95, 96, 97, 98, 85, 79, 85, 79, 79, 79, 79]
    assert judge(policies, [{"temperature": float(t)} for t in series]) == [
        "6 policy-violated hot: 98 C",  # 85 at second 2 began it anew
        "13 policy-over hot: over after 7.000 s",  # 85 is not yet below 80: from 10 on
    ]
    assert policies.violations == 1


def test_no_reading_neither_violates_nor_ends_anything(tmp_path: Path) -> None:
    policies = write(tmp_path, """
        tag: idle
        metrics: [sm_active_pct]
        rule: sm_active_pct.last < 5
        watch: {for: 2s}
        """)  # fmt: skip
    assert judge(policies, [{}, {}, {}, {}]) == []
    assert judge(policies, [{"SM active": 1.0}, {"SM active": 1.0}, {"SM active": 1.0}]) == [
        "2 policy-violated idle: idle"
    ]


def test_statistics_are_of_the_window(tmp_path: Path) -> None:
    policies = write(tmp_path, """
        tag: leak
        metrics: [memory_used_bytes]
        rule: memory_used_bytes.slope > 1e6 and memory_used_bytes.count == 11
        hint: "{memory_used_bytes.slope:.0f} B/s, {memory_used_bytes.increase:.0f} B"
        watch: {over: 10s}
        """)  # fmt: skip
    grows = [{"memory used": 1e9 + 2e6 * n} for n in range(12)]
    assert judge(policies, grows) == ["10 policy-violated leak: 2000000 B/s, 20000000 B"]


def test_each_gpu_is_judged_by_itself(tmp_path: Path) -> None:
    policies = write(tmp_path, "tag: watts\nmetrics: [power_w]\nrule: power_w.last > 600")
    readings = [Reading(Entity(GPU, n), EPOCH, {"power": 500.0 + 100 * n}) for n in range(4)]
    assert [e.entity.device_id for e in policies.judge(Round(EPOCH, 0, readings))] == [2, 3]


@pytest.mark.parametrize(
    ("values", "tag"),
    [
        ({"XID": 79.0}, "xid"),
        ({"XID": 94.0}, "xid-of-application"),
        ({"recovery action": 6.0}, "recovery-action"),
        ({"uncorrected ECC errors": 1.0}, "double-bit-error"),
        ({"rows remapped, uncorrected": 512.0, "row remap failure": 0.0}, "rows-remapped"),
        ({"pages retired, corrected": 60.0, "pages retired, uncorrected": 3.0}, "pages-retired"),
        ({"clock event reasons": 64.0, "temperature": 90.0}, "hot"),
        ({"GPU utilization": 100.0, "SM active": 3.0}, "busy-but-idle"),
        ({"GPU utilization": 0.0, "memory used": 60e9}, "idle-with-memory"),
    ],
)
def test_the_policies_that_ship_see_what_they_are_for(values: dict[str, float], tag: str) -> None:
    policies = Policies(load_policies([DEFAULT]))
    told = judge(policies, [values] * 80, step_s=30)
    assert [line.split()[2] for line in told] == [f"{tag}:"]


def test_what_an_xid_violates_is_the_catalogues_word() -> None:
    told = {}
    for code in (43, 63, 92, 13, 31, 94, 79, 95, 119, 120):
        policies = Policies(load_policies([DEFAULT]))
        told[code] = judge(policies, [{"XID": float(code), "recovery action": 0.0}])
    assert [told[code] for code in (43, 63, 92)] == [[], [], []]
    for code in (13, 31, 94):
        (line,) = told[code]
        assert line.startswith(f"0 policy-violated xid-of-application: XID {code}: ")
        assert line.endswith(": restart the application")
    assert told[79] == [
        "0 policy-violated xid: XID 79: GPU has fallen off the bus: drain and reboot the node"
    ]
    for code in (95, 119, 120):
        (line,) = told[code]
        assert line.startswith(f"0 policy-violated xid: XID {code}: ")
        assert line.endswith(": drain the node and reset the GPU")


def test_the_drivers_own_verdict_comes_first() -> None:
    policies = Policies(load_policies([DEFAULT]))
    told = judge(policies, [{"XID": 95.0, "recovery action": 4.0}])
    assert [line.split()[2] for line in told] == ["recovery-action:", "xid:"]
    assert "The driver asks for recovery (drain and reset)" in told[0]


def test_the_policies_that_ship_are_silent_on_a_gpu_at_work() -> None:
    policies = Policies(load_policies([DEFAULT]))
    well = {
        "XID": 0.0, "recovery action": 0.0, "uncorrected ECC errors": 0.0,
        "rows remapped, uncorrected": 0.0, "row remap failure": 0.0, "clock event reasons": 0.0,
        "temperature": 61.0, "power": 650.0,
        "GPU utilization": 100.0, "SM active": 92.0, "memory used": 60e9, "memory total": 150e9,
        "PCIe replays": 0.0, "NVLink CRC errors": 0.0,
    }  # fmt: skip
    assert judge(policies, [well] * 200, step_s=30) == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("metrics: [power]", "'power' is not watched"),
        ("metrics: [power_w]\nwatch: {for: soon}", "a duration is expected"),
        ("metrics: [power_w]\nwatch: {of: rooms}", "what is watched must be one of gpus"),
        ("metrics: [power_w]\nwatch: {until: 3}", "has no 'until'"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(InputError, match=r"policy\.yaml, line") as error:
        write(tmp_path, f"tag: x\nrule: 1 > 0\n{line}")
    assert why in str(error.value)


def test_durations_have_minutes_hours_and_days() -> None:
    assert [parse_duration_ns(t) // SECOND for t in ("10min", "2h", "1d", "90s")] == [
        600, 7200, 86_400, 90,
    ]  # fmt: skip


HOT = "tag: hot\nmetrics: [temperature_c]\nrule: temperature_c.last > 90\nwatch: {for: 15s}"


def test_a_gpu_that_is_lost_or_refuses_is_not_judged_by_what_it_said_last(tmp_path: Path) -> None:
    for missing in ({"*": "GPU is lost"}, {"temperature": "Not Supported"}):
        policies = write(tmp_path, HOT)
        told = []
        for second in range(40):
            values = {"temperature": 95.0} if second < 8 else {}
            reading = Reading(GPU0, EPOCH, values, {} if values else missing)
            told += policies.judge(Round(EPOCH, second * SECOND, [reading]))
        assert told == []


def test_nobody_saw_it_hold_over_a_gap(tmp_path: Path) -> None:
    policies = write(tmp_path, HOT)
    told = []
    for second in (0, 1, 3600, 3601, 3614, 3615):
        reading = Reading(GPU0, EPOCH, {"temperature": 95.0})
        told += [second for _ in policies.judge(Round(EPOCH, second * SECOND, [reading]))]
    assert told == [3615]


def test_processes_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    policies = write(tmp_path, """
        tag: greedy
        metrics: [memory_used_bytes]
        rule: memory_used_bytes.last > 1
        watch: {of: processes}
        """)  # fmt: skip
    for number in range(50):
        process = Entity("processes", 0, f"process {number}")
        policies.judge(Round(EPOCH, number * SECOND, [Reading(process, EPOCH, {"memory used": 9})]))
    assert len(policies._windows) == len(policies._states) == 1


def test_a_webhook_that_speaks_no_http_ends_and_is_told() -> None:
    import socket
    import threading

    from sightline.record.monitor.notices import Notifier
    from sightline.record.monitor.readings import Event

    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for _ in range(3):
            client, _ = server.accept()
            client.recv(4096)
            client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            client.close()

    threading.Thread(target=answer, daemon=True).start()
    failed: list[str] = []
    notifier = Notifier(f"http://127.0.0.1:{server.getsockname()[1]}/", None, failed.append)
    for _ in range(3):
        notifier.send(Event(EPOCH, "xid", GPU0, "XID 79"))
    notifier.close()
    server.close()
    assert len(failed) == 3 and all("the webhook was not reached" in text for text in failed)


def test_a_policy_in_one_line() -> None:
    policies = Policies([parse_alert("temperature > 60")])
    told = judge(policies, [{"temperature": 59.0}, {"temperature": 61.0}, {"temperature": 50.0}])
    assert told == [
        "1 policy-violated alert-temperature-c: temperature > 60: it is 61",
        "2 policy-over alert-temperature-c: over after 1.000 s",
    ]
    slow = Policies([parse_alert("SM active <= 5 for 2s")])
    assert [e.split()[0] for e in judge(slow, [{"SM active": 3.0}] * 4)] == ["2"]
    assert parse_alert("power_w>=700").metrics == ("power_w",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("temperature over 60", "is not a condition"),
        ("temprature > 60", "temperature"),
        ("__import__ > 1", "is not a condition"),
    ],
)
def test_what_is_no_policy_in_one_line(text: str, words: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse_alert(text)
    assert words in f"{raised.value} {raised.value.why}"
