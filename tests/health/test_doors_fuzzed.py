"""Whatever is typed or read at the doors of health and MIG ends with an answer or a message."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline.core.xids import explain_xid, read_xid
from sightline.errors import SightlineError
from sightline.health.failures.causes import Cause
from sightline.health.failures.incidents import SPACING_NS, Incident, read_table
from sightline.health.failures.jobs import Job, match_jobs, name_node
from sightline.health.fleet import expand_hosts
from sightline.health.node import Gpu, Node
from sightline.health.reading import bandwidth, this_node, torch_tests
from sightline.health.reading.kernel import list_events
from sightline.mig.models import find_model
from sightline.mig.wants import parse_want
from support.command import sightline

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


GPU = Cause("Faulty GPU", "GPU")
TIMES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 50 * SPACING_NS))
JOBS = st.lists(
    st.builds(
        Job,
        st.text(max_size=4),
        st.sampled_from(["failed", "node_fail", "completed", ""]),
        TIMES.map(lambda at: at or 0),
        TIMES,
        st.one_of(st.none(), st.integers(-1, 8)),
        st.frozensets(st.sampled_from(["n1", "n2", ""])),
    ),
    max_size=12,
)
INCIDENTS = st.lists(
    st.builds(Incident, st.just(GPU), st.sampled_from(["n1.log", "N2", "n3", ""]), TIMES),
    max_size=6,
)


@given(JOBS, INCIDENTS)
def test_incidents_strike_the_jobs_that_a_search_of_all_finds(
    jobs: list[Job], incidents: list[Incident]
) -> None:
    """Whatever times a scheduler or a log writes, swapped, missing or far away."""
    matched = match_jobs(jobs, incidents)
    expected = [
        (job, incident)
        for incident in incidents
        for job in sorted(jobs, key=lambda job: job.start_ns)
        if name_node(incident.node) in job.nodes and incident.time_ns is not None
        if job.start_ns <= incident.time_ns
        if job.end_ns is None or incident.time_ns <= job.end_ns + SPACING_NS
    ]
    assert [(one.job, one.incident) for one in matched.struck] == expected
    assert len(matched.elsewhere) == len(incidents) - len({id(i) for _, i in expected})


def test_time_grows_with_jobs_and_incidents_and_not_with_their_product() -> None:
    """A node with 200,000 short jobs and as many incidents: each looks at the one that ran."""
    looked = 0

    class Counted(int):
        def __add__(self, other: int) -> int:
            nonlocal looked
            looked += 1
            return int(self) + other

    count, length = 20_000, 4 * SPACING_NS
    jobs = [
        Job(str(n), "failed", n * length, Counted(n * length + 1), 8, frozenset({"n1"}))
        for n in range(count)
    ]
    incidents = [Incident(GPU, "n1", n * length + 1) for n in range(count)]
    assert len(match_jobs(jobs, incidents).struck) == count
    assert looked <= 4 * count


@pytest.mark.parametrize("content", ["", "\x00\x01", "[" * 5_000, '{"jobs": 7}', "JobID|State\n1|"])
def test_jobs_that_are_none_are_refused_with_a_message(tmp_path: Path, content: str) -> None:
    log, jobs = tmp_path / "n1.log", tmp_path / "jobs.txt"
    log.write_text("[ 1.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    jobs.write_text(content)
    told = sightline("failures", str(log), "--jobs", str(jobs), "--gpus", "8", "--over", "1d")
    assert told.code == 2 and told.said


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


INTEL = st.recursive(
    st.none() | st.floats() | st.text(max_size=4) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["device_list", "device_id", "device_name", "uuid"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(INTEL)
def test_what_xpu_smi_discovers(content: object) -> None:
    import json

    for gpu in this_node._list_intel_gpus(json.dumps(content)):
        assert gpu.vendor == "intel" and isinstance(gpu.number, int)
