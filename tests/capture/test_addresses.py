"""Where to ask: lists, files of hosts, Slurm, and this node."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.capture import addresses
from sightline.capture.addresses import Places, list_addresses
from sightline.errors import RequestError

TOKEN = "0123456789abcdef"


def names(places: Places, **env: str) -> list[tuple[str, int]]:
    return [(a.host, a.port) for a in list_addresses(places, TOKEN, env)]


def test_a_list() -> None:
    found = names(Places("node[01-02]:8000,login1"))
    assert found == [("node01", 8000), ("node02", 8000), ("login1", 9477)]


def test_a_job_of_slurm() -> None:
    found = names(Places("slurm"), SLURM_JOB_NODELIST="gpu[7,9]")
    assert found == [("gpu7", 9477), ("gpu9", 9477)]
    with pytest.raises(RequestError, match="this is not a job of Slurm"):
        names(Places("slurm"))


def test_a_file_of_hosts_as_mpi_has_them(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# ours\nn1 slots=8\n\nn2:8\nn1 slots=8 # again\n")
    assert names(Places(host_file=str(file))) == [("n1", 9477), ("n2", 9477)]
    file.write_text("# nobody\n")
    with pytest.raises(RequestError, match="names no host"):
        names(Places(host_file=str(file)))
    with pytest.raises(RequestError, match="cannot read"):
        names(Places(host_file=str(tmp_path / "none")))


def test_all_that_a_name_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods of a headless service; each shows the certificate of the service."""
    pods = {"pods.default": ["10.0.0.7", "10.0.0.3"]}

    def resolve(host: str, port: int, *_: object) -> list[tuple[object, ...]]:
        if host not in pods:
            raise OSError(-2, "Name or service not known")
        return [(2, 1, 6, "", (address, int(port))) for address in pods[host]]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", resolve)
    found = list_addresses(Places("dns:pods.default:9000"), TOKEN, {})
    assert [(a.host, a.port, a.certified) for a in found] == [
        ("10.0.0.3", 9000, "pods.default"),
        ("10.0.0.7", 9000, "pods.default"),
    ]
    with pytest.raises(RequestError, match="'other' is the name of no host") as caught:
        names(Places("dns:other"))
    assert caught.value.why == "name or service not known"


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "a b", "n1:0", "n1:70000", ":9"])
def test_no_hosts(text: str) -> None:
    with pytest.raises(RequestError):
        names(Places(text))


def test_other_nodes_want_a_token_and_tls() -> None:
    with pytest.raises(RequestError, match="none was given") as caught:
        list_addresses(Places("n1"), None, {})
    assert "--token-file" in str(caught.value.hint)
    (address,) = list_addresses(Places("n1"), TOKEN, {})
    assert address.context is not None
    assert address.context.check_hostname
    with pytest.raises(RequestError, match="would be contacted without TLS"):
        list_addresses(Places("n1", is_plain=True), TOKEN, {})
    (address,) = list_addresses(Places("127.0.0.1:9000", is_plain=True), TOKEN, {})
    assert address.context is None


def test_no_daemon_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "list_sockets", lambda: [str(tmp_path / "daemon.sock")])
    with pytest.raises(RequestError, match="no daemon listens on this node") as caught:
        list_addresses(Places(), None, {})
    assert "sightline daemon" in str(caught.value.hint)
