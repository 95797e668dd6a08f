"""Whatever is typed or read at the doors of health and MIG ends with an answer or a message."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline.core.xids import explain_xid, read_xid
from sightline.errors import SightlineError
from sightline.health.failures.incidents import read_table
from sightline.health.fleet import expand_hosts
from sightline.health.node import Gpu, Node
from sightline.health.reading import bandwidth, torch_tests
from sightline.health.reading.kernel import list_events
from sightline.mig.models import find_model
from sightline.mig.wants import parse_want

# Texts that look like what is expected, and anything else.
WANT = st.text("0123456789gb.+me:,=%memorysnacutGB \x1b\u202e", max_size=40)
HOSTS = st.text("node0123456789[]-,@.; $`\n", max_size=40)
LOG = st.text("NVRM: Xid(PCI0000:3b)79,mce[HardwareEr]AERSXid\n\x1b\x00é", max_size=200)


@given(st.one_of(WANT, st.text(max_size=30)))
def test_wants_and_models(text: str) -> None:
    with contextlib.suppress(SightlineError):
        want = parse_want(text)
        assert want.count > 0 and 0 <= want.sm_share <= 1 and want.memory_bytes >= 0
    with contextlib.suppress(SightlineError):
        find_model(text)


@given(st.one_of(HOSTS, st.text(max_size=30)))
def test_hosts_never_hold_what_a_shell_or_ssh_would_obey(text: str) -> None:
    with contextlib.suppress(SightlineError):
        for host in expand_hosts(text):
            assert not host.startswith("-") and not set(host) & set(" ;$`\n|&<>()'\"\\")


@given(LOG)
def test_kernel_logs(text: str) -> None:
    for event in list_events(text, {"3b:00": 0}):
        assert "\x1b" not in event.text and "\n" not in event.text and len(event.text) <= 300
        code = read_xid(event.text)
        assert code is None or explain_xid(code)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=120) | st.text("component,aury\n0123\"';=", max_size=120).map(str.encode))
def test_lists_of_incidents(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(b"component,count,time\n" + content)
    with contextlib.suppress(SightlineError):
        assert sum(read_table(path).counts.values()) >= 0


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["nvbandwidth", "testcases", "name", "bandwidth_matrix"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_what_nvbandwidth_prints(content: object) -> None:
    import json

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bandwidth, "run_program", lambda *_: json.dumps(content))
        node = Node(gpus=[Gpu(0), Gpu(1)])
        bandwidth.measure_bandwidth(node)
    assert all(set(gpu.values) | set(gpu.missing) >= set(bandwidth._FACTS) for gpu in node.gpus)


TORCH = st.recursive(
    st.none() | st.floats() | st.text(max_size=4) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(torch_tests._FACTS), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TORCH)
def test_what_pytorch_prints(content: object) -> None:
    import json

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_tests, "run_program", lambda *_: json.dumps(content))
        node = Node(gpus=[Gpu(0), Gpu(1)])
        torch_tests.measure_compute(node)
    for gpu in node.gpus:
        assert "matmul_tflops" in set(gpu.values) ^ set(gpu.missing)
        assert all(isinstance(value, float) for value in gpu.values.values())


def test_what_pytorch_measures_fills_what_is_missing() -> None:
    row = {"matmul_tflops": 700.5, "host_to_device": 50, "device_to_host": 49.5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_tests, "run_program", lambda *_: f"{[row]}".replace("'", '"'))
        node = Node(gpus=[Gpu(0, values={"host_to_device": 55.0}), Gpu(1)])
        torch_tests.measure_compute(node)
    assert node.gpus[0].values == {**row, "host_to_device": 55.0}
    assert "PyTorch is not installed" in node.gpus[1].missing["matmul_tflops"]
