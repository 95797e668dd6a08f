"""Coroutines in tests: each on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_alone(start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """What the coroutine that `start` makes returns, or its exception.

    Pages are driven on the thread of the tests, whose loop runs for all of them.
    """
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(lambda: asyncio.run(start())).result()
