"""Carry out the commands of a plan, in order, up to the first that fails."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from sightline.core.text import clean_text
from sightline.errors import RequestError
from sightline.mig.commands import Step

_LIMIT_S = 300  # a reset of eight GPUs takes a minute


def apply_steps(steps: Sequence[Step], say: Callable[[str], None]) -> None:
    """Run each step. Raises RequestError where one fails that must not, or a GPU is in use."""
    for number, step in enumerate(steps):
        say(f"$ {' '.join(step.words)}")
        try:
            done = subprocess.run(  # noqa: S603  # commands of ours, with numbers and names of ours
                step.words, capture_output=True, text=True, timeout=_LIMIT_S, check=False,
                errors="replace",
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _stop(number, step, str(error)) from error
        output = clean_text((done.stdout + done.stderr).strip())
        if output:
            say(output)
        if done.returncode and not step.may_fail:
            raise _stop(number, step, output or f"exit code {done.returncode}")
        if "--query-compute-apps=pid,name" in step.words and done.stdout.strip():
            raise _stop(number, step, "programs use these GPUs")


def _stop(number: int, step: Step, why: str) -> RequestError:
    left = "nothing was changed" if number == 0 else "the steps before it were carried out"
    return RequestError(
        f"step {number + 1} failed, and {left}: {' '.join(step.words)}", why=why.splitlines()[-1]
    )
