"""Which daemons are asked: a list, a file of hosts, a job of Slurm, a name, or this node's own."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sightline.capture.client import PORT, Address
from sightline.capture.signing import VARIABLE
from sightline.core.bounded_server import is_own_host
from sightline.errors import RequestError
from sightline.health.fleet import expand_hosts
from sightline.record.inline.daemon_socket import list_sockets

# srun(1), sbatch(1): the nodes of the job whose step or script this is.
_SLURM = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
_PORT = re.compile(r"(.*?)(?::(\d{1,5}))?")
_MOST_FILE = 1 << 20
_BY_NAME = "dns:"


@dataclass(frozen=True)
class Places:
    """What a person says of where to ask; all None: the daemon of this node."""

    hosts: str | None = None
    host_file: str | None = None
    sockets: tuple[str, ...] = ()
    ca: str | None = None
    is_plain: bool = False  # no TLS, which is for tunnels


def list_addresses(
    places: Places, token: str | None, env: Mapping[str, str] | None = None
) -> list[Address]:
    """The daemons to ask. Raises RequestError."""
    env = os.environ if env is None else env
    if places.sockets:
        return [Address(_name(path), Path(path)) for path in places.sockets]
    names = _list_hosts(places, env)
    found_by = (places.hosts or "").removeprefix(_BY_NAME).partition(":")[0]
    certified = found_by if (places.hosts or "").startswith(_BY_NAME) else None
    if names is None:
        return [_find_own()]
    if token is None:
        raise RequestError(
            "daemons on other nodes require a token, and none was given",
            hint=f"--token-file FILE (chmod 600)   or the variable {VARIABLE}",
        )
    return [replace(_make_address(n, places, token), certified=certified) for n in names]


def _list_hosts(places: Places, env: Mapping[str, str]) -> list[str] | None:
    if places.hosts == "slurm":
        found = next((env[name] for name in _SLURM if env.get(name)), None)
        if found is None:
            raise RequestError(
                "this is not a job of Slurm",
                why=f"{_SLURM[0]} is not set",
                hint='--hosts "$(squeue -h -j JOB -o %N)"',
            )
        return expand_hosts(found)
    if places.hosts is not None and places.hosts.startswith(_BY_NAME):
        return _resolve(places.hosts.removeprefix(_BY_NAME))
    if places.hosts is not None:
        return _expand(places.hosts)
    if places.host_file is not None:
        return _read_host_file(places.host_file)
    return None


def _resolve(text: str) -> list[str]:
    """All that a name stands for: a headless service of Kubernetes has an address for each pod."""
    host, _, port = text.partition(":")
    try:
        found = socket.getaddrinfo(host, port or PORT, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise RequestError(f"'{host}' is the name of no host", why=str(why).lower()) from error
    places = {(str(where[0]), int(where[1])) for *_, where in found}
    return [f"{address}:{number}" for address, number in sorted(places)]


def _expand(text: str) -> list[str]:
    """Hosts with ports: of node[01-04]:9477,login1 each."""
    found: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        match = _PORT.fullmatch(part.strip())
        if match is None or not match[1]:
            raise RequestError(f"'{part}' is not a host", hint="--hosts node[01-16],login1:9477")
        port = f":{match[2]}" if match[2] else ""
        found += [f"{host}{port}" for host in expand_hosts(match[1])]
    return list(dict.fromkeys(found))


def _read_host_file(path: str) -> list[str]:
    """The hosts of a file as MPI has them: a name a line, slots behind it, # for remarks."""
    try:
        with Path(path).open() as file:
            text = file.read(_MOST_FILE)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise RequestError(f"cannot read {path}", why=why.lower()) from error
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    # MPICH writes HOST:SLOTS, Open MPI HOST slots=N.
    names = [words[0].partition(":")[0] for words in lines if words]
    if not names:
        raise RequestError(f"{path} names no host")
    return list(dict.fromkeys(host for name in names for host in expand_hosts(name)))


def _make_address(name: str, places: Places, token: str) -> Address:
    host, _, port = name.rpartition(":") if re.search(r":\d+$", name) else (name, "", "")
    number = int(port) if port else PORT
    if not 0 < number < 65_536:
        raise RequestError(f"there is no port {number}", why="ports are 1 to 65535")
    if places.is_plain:
        if not is_own_host(host, loopback_only=True):
            raise RequestError(
                f"{host} would be contacted without TLS",
                why="--plain is only for this machine and for tunnels",
            )
        return Address(name, None, host, number, token)
    return Address(name, None, host, number, token, make_trust(places.ca))


def make_trust(ca: str | None) -> ssl.SSLContext:
    """TLS that believes this authority; None: those of the system. Raises RequestError."""
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        why = (error.strerror or str(error)).lower()
        raise RequestError(f"cannot use the certificates in {ca}", why=why) from error


def _find_own() -> Address:
    there = [path for path in map(Path, list_sockets()) if path.exists()]
    if there:
        return Address("this node", there[0])
    raise RequestError(
        "no daemon listens on this node",
        why=f"there is no {' and no '.join(list_sockets())}",
        hint="Start one:  sightline daemon\n"
        "Ask other nodes:  sightline capture --hosts node[01-16]",
    )


def _name(path: str) -> str:
    return Path(path).name if len(path) > 40 else path
