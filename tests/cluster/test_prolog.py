"""The script of slurmctld's prolog: what it tells of a job, by what scontrol prints of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sightline.cluster.documents import read_start
from support.places import ROOT

TELL = ROOT / "examples" / "slurm" / "slurmctld-tell.sh"
# As Slurm 22.05 prints it (scontrol show --details job), shortened.
ABOUT = """\
JobId=4711 JobName=train
   NumNodes=2 NumCPUs=16 NumTasks=2 CPUs/Task=8
   AllocTRES=cpu=16,mem=64G,node=2,billing=16,gres/gpu={count}
   JOB_GRES=gpu:{count}
{nodes}
   MinCPUsNode=8 MinMemoryNode=0
"""


def tell(folder: Path, nodes: str, count: int = 4) -> dict:
    programs = folder / "bin"
    programs.mkdir()
    scripts = {
        "scontrol": 'if [ "$2" = hostnames ]; then\n'
        'case "$3" in *"["*) echo n1; echo n2;; *) echo "$3";; esac\n'
        f'else cat "{folder}/about"; fi\n',
        "curl": f'cat > "{folder}/sent"\n',
    }
    for name, body in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}")
        (programs / name).chmod(0o755)
    (folder / "about").write_text(ABOUT.format(nodes=nodes, count=count))
    (folder / "env").write_text("SIGHTLINE_URL=http://x\nSIGHTLINE_PUSH_TOKEN=x\n")
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}", "SIGHTLINE_ENV": str(folder / "env"),
        "SLURM_SCRIPT_CONTEXT": "prolog_slurmctld", "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_ID": "4711", "SLURM_CLUSTER_NAME": "c1", "SLURM_JOB_USER": "ada",
        "SLURM_JOB_PARTITION": "gpu",
    }  # fmt: skip
    subprocess.run(["sh", str(TELL)], env=env, check=True, timeout=60)
    return json.loads((folder / "sent").read_text())


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ("     Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:2(IDX:0-1)",
         {"n1": ["0", "1"], "n2": ["0", "1"]}),
        ("     Nodes=n1 CPU_IDs=0-7 Mem=0 GRES=gpu:3(IDX:0-1,3)\n"
         "     Nodes=n2 CPU_IDs=0-7 Mem=0 GRES=shard:2(IDX:5),gpu:1(IDX:7)",
         {"n1": ["0", "1", "3"], "n2": ["7"]}),
        ("     Nodes=n1 CPU_IDs=0-7 Mem=0 GRES_IDX=gpu(IDX:2)", {"n1": ["2"]}),
        ("     Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=", {"n1": [], "n2": []}),
        ("", {"n1": [], "n2": []}),
    ],
)  # fmt: skip
def test_a_prolog_tells_which_gpus_are_a_jobs(tmp_path, nodes, wanted):
    sent = tell(tmp_path, nodes)
    found = {one["hostname"]: one.get("accelerators", []) for one in sent["resources"]}
    assert found == wanted
    known = read_start(sent)
    assert {h: list(p.get("accelerator", [])) for h, p in known.parts.items()} == wanted
    assert (known.row["cpus"], known.row["gpus"], known.row["nodes"]) == (16, 4, 2)
