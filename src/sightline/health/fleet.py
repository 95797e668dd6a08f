"""Many nodes: each is asked by ssh or srun for `sightline health --json`; all become one list."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from sightline.core.host_lists import expand_host_list
from sightline.errors import RequestError

_AT_ONCE = 32  # ssh clients beside each other
_LIMIT_S = 120
_MOST_HOSTS = 10_000
# A host's name, perhaps with a user; nothing that ssh could take for an option.
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_][A-Za-z0-9_.-]*")


def expand_hosts(text: str) -> list[str]:
    """Names of a list as Slurm writes it: node[01-03,7],login1. Raises RequestError."""
    hosts = list(islice(expand_host_list(text), _MOST_HOSTS + 1))
    if len(hosts) > _MOST_HOSTS:
        raise RequestError(f"a fleet has {_MOST_HOSTS:,} hosts at most")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise RequestError(
                f"'{host}' is not the name of a host", hint="--fleet node[01-16],login1"
            )
    if not hosts:
        raise RequestError("no host is named", hint="--fleet node[01-16],login1")
    return list(dict.fromkeys(hosts))


def ask_fleet(hosts: Sequence[str], by: str, words: Sequence[str]) -> list[dict[str, Any]]:
    """What each host says, in their order; `state` is error where one does not answer.

    `by` is ssh or srun; `words` are further options of `sightline health`.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda host: _ask(host, by, words), hosts))


def _ask(host: str, by: str, words: Sequence[str]) -> dict[str, Any]:
    command = ["sightline", "health", "--json", *words]
    if by == "ssh":
        prefix = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host]
    else:
        prefix = ["srun", "--nodes=1", "--ntasks=1", "--overlap", f"--nodelist={host}"]
    try:
        done = subprocess.run(  # noqa: S603  # a checked host, words of ours, no shell here
            [*prefix, *command], capture_output=True, text=True, errors="replace",
            timeout=_LIMIT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"node": host, "state": "error", "problems": [str(error)]}
    try:
        told = json.loads(done.stdout)
        problems = [str(text) for text in told["problems"]]
        return {
            "node": host,
            "state": str(told["state"]),
            "failed": int(told["counts"]["fail"]),
            "problems": problems,
        }
    except (ValueError, KeyError, TypeError):
        why = (done.stderr.strip() or "no answer").splitlines()[-1]
        return {"node": host, "state": "error", "problems": [why]}
