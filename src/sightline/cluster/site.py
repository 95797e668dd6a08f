"""What a site has that jobs can be read from, and the configuration file that says so."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sightline.cluster.access import make_token
from sightline.cluster.names import is_cluster

_TIMEOUT_S = 3.0
_SACCT_S = 30.0  # a large slurmdbd takes seconds
# Where cc-backend's documentation installs it, and Debian's package of Prometheus listens.
_ARCHIVES = ("/opt/monitoring/cc-backend/var/job-archive", "/var/lib/cc-backend/job-archive")
_PROMETHEUS = "http://127.0.0.1:9090"


@dataclass(frozen=True)
class Site:
    """What was found: a name of the cluster, Slurm, archives, an address of Prometheus.

    `silence` is why a sacct that is there does not answer.
    """

    cluster: str
    slurm: bool
    archives: tuple[str, ...]
    prometheus: str
    silence: str = ""


def find_site(environment: Mapping[str, str] | None = None) -> Site:
    """Look: programs of the PATH, usual places, two variables; nothing is changed."""
    env = os.environ if environment is None else environment
    sacct = shutil.which("sacct", path=env.get("PATH"))
    silence = _ask_sacct(sacct, env) if sacct is not None else ""
    asked = [env["SIGHTLINE_ARCHIVE"]] if env.get("SIGHTLINE_ARCHIVE") else []
    archives = [p for p in (*asked, *_ARCHIVES) if (Path(p) / "version.txt").is_file()]
    address = env.get("PROMETHEUS_URL", _PROMETHEUS)
    return Site(
        _ask_name(env) or _name_host(),
        sacct is not None and not silence,
        tuple(dict.fromkeys(archives)),
        address if _answers(f"{address}/-/ready") else "",
        silence,
    )


def _ask_sacct(program: str, env: Mapping[str, str]) -> str:
    """Why accounting does not answer: its last line; empty where it does."""
    command = [program, "--noheader", "--allocations", "--starttime", "now-1minutes"]
    try:
        done = subprocess.run(  # noqa: S603  # a program of the PATH
            command, capture_output=True, timeout=_SACCT_S, check=False, env=dict(env)
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return (said[-1][:200] if said else "it failed") if done.returncode else ""


def _ask_name(env: Mapping[str, str]) -> str:
    """What Slurm calls the cluster."""
    program = shutil.which("scontrol", path=env.get("PATH"))
    if program is None:
        return ""
    try:
        said = subprocess.run(  # noqa: S603  # a program of the PATH
            [program, "show", "config"],
            capture_output=True,
            timeout=30,
            check=False,
            env=dict(env),
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"^ClusterName\s*=\s*(\S+)", said, re.MULTILINE)
    return match[1] if match and is_cluster(match[1]) else ""


def _name_host() -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname().split(".")[0]).strip("-_")
    return name if is_cluster(name) else "cluster"


def _answers(address: str) -> bool:
    if not address.startswith(("http://", "https://")):
        return False
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (OSError, ValueError):
        return False


def write_config(site: Site) -> tuple[str, dict[str, str]]:
    """The file, and the tokens that it has the hashes of: for an admin, and for collectors."""
    tokens = {}
    lines = []
    for name, role in (("admin", "admin"), ("collector", "ingest")):
        tokens[name], digest = make_token()
        lines += ["", "[[access.tokens]]", f'name = "{name}"', f'role = "{role}"',
                  f'sha256 = "{digest}"']  # fmt: skip
    archives = ", ".join(_quote(path) for path in site.archives)
    text = f"""\
# The service of a cluster's jobs:  sightline cluster serve cluster.toml   (docs/cluster.md)
cluster = {_quote(site.cluster)}
store = "store"              # a folder; jobs and samples are kept here
# bucket = "s3://BUCKET/FOLDER"   # jobs in object storage instead, with keys in the environment
listen = "127.0.0.1:8270"    # behind a reverse proxy, or with  certificate = …  and  key = …

[keep]
samples_days = 14            # values of nodes; those of jobs are kept with the jobs
jobs_days = 0                # 0: forever

[sources]
slurm = {str(site.slurm).lower()}                # ask sacct each five minutes
clustercockpit = [{archives}]  # folders of job archives, or "s3://BUCKET/FOLDER"
prometheus = {_quote(site.prometheus)}              # figures over time of the jobs of sacct
limits = []                  # files cluster.json: what is normal on a node

[trace]
on = []                      # rules that have a running job recorded: ["job-underused-gpus"]

[tell]
on = []                      # rules whose problems of running jobs are told once: ["job-hang"]
webhook = ""                 # an address that gets them as JSON; or a command, on its input:
command = ""

[access]
header = ""                  # of the reverse proxy, with the user's name: "X-Remote-User"
proxies = []                 # the networks that it comes from: ["127.0.0.1/32"]
# ClusterCockpit's roles: who is not named is a user, and sees their own jobs.
roles = {{}}                   # {{ ada = "admin", grace = "support", emmy = "manager" }}
projects = {{}}                # of managers: {{ emmy = ["physics"] }}
"""
    return text + "\n".join(lines) + "\n", tokens


def _quote(text: str) -> str:
    """A text of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(c for c in escaped if c.isprintable())}"'
