"""What is missing for a kind of recording, and the exact remedy, with the vendor's own page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from sightline.errors import RequestError
from sightline.record.collect.backend import Check, Facts, Missing, list_backends
from sightline.record.collect.questions import QUESTIONS


def list_needs() -> dict[str, tuple[str, ...]]:
    """The checks of each question and each backend, by name."""
    of_questions = {name: question.needs for name, question in QUESTIONS.items()}
    return of_questions | {backend.name: backend.needs for backend in list_backends()}


def list_missing(question: str, facts: Facts, *, root: bool | None = None) -> list[Missing]:
    """All that stands in the way of a recording. Raises RequestError for an unknown question."""
    needs, checks = list_needs(), _list_checks()
    if question not in needs:
        raise RequestError(
            f"sightline run cannot record '{question}'",
            why=f"there are {', '.join(needs)}",
        )
    is_root = os.geteuid() == 0 if root is None else root
    found: list[Missing] = []
    for need in needs[question]:
        ways = [list(checks[name](facts, is_root)) for name in need.split("|")]
        if all(ways):  # none of the alternatives is fulfilled
            found += [m for way in ways for m in way]
    return found


def _list_checks() -> Mapping[str, Check]:
    own = {name: check for backend in list_backends() for name, check in backend.checks.items()}
    return {"gpu": _check_gpu, "counters": _check_counters, **own}


def _check_gpu(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["gpus"]:
        return
    if facts["nvidia_driver"] is None:
        yield Missing(
            "no GPU was found: no driver is loaded",
            (
                "sudo apt-get install cuda-drivers   # then restart; nvidia-smi must list the GPU",
                "docker run --gpus all ...           # in a container",
            ),
            "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",
        )
    else:
        yield Missing(
            f"the driver {facts['nvidia_driver']} is loaded, but nvidia-smi lists no GPU",
            ("nvidia-smi -L", "sudo dmesg | grep -i nvrm   # what the driver says"),
            "https://docs.nvidia.com/deploy/gpu-debug-guidelines/",
        )


def _check_counters(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["counters_need_admin"] and not root:
        yield Missing(
            "the driver gives hardware counters to root only (ERR_NVGPUCTRPERM)",
            (
                "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' \\",
                "  | sudo tee /etc/modprobe.d/nvidia-profiling.conf",
                "sudo update-initramfs -u   # Debian, Ubuntu; dracut -f on others; then restart",
                "docker run --cap-add=SYS_ADMIN ...   # instead, in a container",
            ),
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM",
        )
