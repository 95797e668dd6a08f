"""Examples for clusters, Kubernetes, Slurm and systemd: they parse, and type what there is."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sightline.doors.cli.main import build_parser
from support.places import ROOT

EXAMPLES = ROOT / "examples"
MANIFESTS = sorted((EXAMPLES / "kubernetes").glob("*.yaml"))
SCRIPTS = sorted(p for p in (EXAMPLES / "slurm").iterdir() if p.suffix in (".sh", ".sbatch"))
UNITS = sorted(p for room in ("systemd", "cluster") for p in (EXAMPLES / room).glob("*.service"))
IMAGE = EXAMPLES / "cluster" / "Containerfile"
# Where a command ends in a line of a shell.
END = re.compile(r"\s(?:&&|\|\||[|;&])(?:\s|$)|\s>|\)(?:\s|$)")


def list_containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    pod = manifest["spec"]["template"]["spec"]
    return [*pod.get("initContainers", []), *pod["containers"]]


def list_commands(path: Path) -> Iterator[list[str]]:
    """The words behind each `sightline` of an example, up to the program that it records."""
    if path.suffix == ".yaml":
        (manifest,) = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        texts = [
            shlex.join([*c["command"], *c.get("args", [])])
            if c["command"][0] != "sh"
            else c["args"][0]
            for c in list_containers(manifest)
        ]
    else:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        texts = [line for line in text.splitlines() if not line.startswith("#")]
    for text in texts:
        for found in re.finditer(
            r"(?:-m |exec |nohup |\$\(|bin/|^\s*)sightline (?!sightline-gpu)(?=[a-z])", text
        ):
            rest = END.split(text[found.end() :], maxsplit=1)[0]
            # What is given only where a variable is set, and what a nested shell quotes.
            words = shlex.split(re.sub(r"\$\{\w+:\+(.*)\}", r"\1", rest).replace("'", ""))
            yield words[: words.index("--") + 2] if "--" in words else words


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda p: p.name)
def test_a_manifest_is_a_workload_whose_parts_belong_together(path: Path):
    (manifest,) = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    assert (manifest["apiVersion"], manifest["kind"]) in {
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
    }
    template = manifest["spec"]["template"]
    if manifest["kind"] == "DaemonSet":
        assert (
            manifest["spec"]["selector"]["matchLabels"].items()
            <= template["metadata"]["labels"].items()
        )
    volumes = {volume["name"] for volume in template["spec"]["volumes"]}
    mounted = {m["name"] for c in list_containers(manifest) for m in c.get("volumeMounts", [])}
    assert mounted == volumes
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\s(?<!-m )sightline &&", text)
    assert "privileged: true" not in text


@pytest.mark.parametrize("path", [*MANIFESTS, *SCRIPTS, *UNITS], ids=lambda p: p.name)
def test_what_is_typed_there_is(path: Path):
    parser = build_parser()
    commands = list(list_commands(path))
    if path.name != "slurmctld-tell.sh":  # speaks to the service by curl
        assert commands, path.name
    for words in commands:
        parser.parse_args(words)  # ends the test where an option is unknown


@pytest.mark.parametrize("path", UNITS, ids=lambda p: p.name)
def test_a_unit_is_one_by_systemds_own_word(path: Path, tmp_path: Path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    # Where the program is, and who runs it, is the site's: here they are some that there are.
    text = path.read_text(encoding="utf-8").replace("/usr/local/bin/sightline", "/bin/true")
    copy = tmp_path / path.name
    copy.write_text(re.sub(r"(?m)^User=.*$", "User=root", text), encoding="utf-8")
    told = subprocess.run(
        [program, "verify", "--man=no", copy], capture_output=True, text=True, check=False
    )
    assert (told.returncode, [line for line in told.stderr.splitlines() if path.name in line]) == (
        0,
        [],
    )


def test_the_image_serves_a_site():
    """Each instruction is one of a Containerfile, and what it starts is a command that there is."""
    text = IMAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    steps = [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]
    assert {word for word, _ in steps} == {
        "FROM", "RUN", "COPY", "USER", "WORKDIR", "EXPOSE", "ENTRYPOINT",
    }  # fmt: skip
    program, *words = json.loads(dict(steps)["ENTRYPOINT"])
    assert program == "sightline"
    asked = build_parser().parse_args(words)
    assert asked.config == "/site/cluster.toml"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_a_script_is_one_of_posix_shell(path: Path):
    assert subprocess.run(["sh", "-n", path], check=False).returncode == 0
    if shutil.which("shellcheck"):
        told = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
        assert told.stdout == ""


@pytest.mark.parametrize(
    ("code", "drained"),
    [(0, []), (1, ["GPU 3 fell off the bus"]), (2, [])],
    ids=["well", "ill", "unknown"],
)
def test_a_node_is_drained_where_a_check_failed_alone(
    tmp_path: Path, code: int, drained: list[str]
):
    for name, text in {
        "sightline": f'echo "GPU 3 fell off the bus"; exit {code}',
        "scontrol": f'printf "%s\\n" "$@" >"{tmp_path}/told"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "SLURMD_NODENAME": "n7",
        "SIGHTLINE_ENV": str(tmp_path / "none"),
    }
    subprocess.run(["sh", EXAMPLES / "slurm" / "health-check.sh"], env=environment, check=True)
    told = tmp_path / "told"
    lines = told.read_text().splitlines() if told.exists() else []
    assert [line.removeprefix("Reason=") for line in lines if line.startswith("Reason=")] == drained
    assert ("NodeName=n7" in lines) == bool(drained)
