"""Other programs that are asked, for a bounded time, and what they print."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_LIMIT_S = 30  # nvidia-smi of eight GPUs without persistence mode takes 10 s
_MOST = 32 << 20


def run_program(words: Sequence[str], limit_s: float = _LIMIT_S) -> str | None:
    """What it prints; None where it is not there, fails or takes longer."""
    try:
        done = subprocess.run(  # noqa: S603  # fixed names of system tools, no shell
            words, capture_output=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout[:_MOST].decode("utf-8", "replace") if done.returncode == 0 else None
