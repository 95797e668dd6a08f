"""A plug-in of the suite: what opens a recording beside the checkout carries the marker `corpus`.

Without it a test passes here and fails in a fresh clone, which has no ../shared. Python reports
each open, listing and start of a program to an audit hook; the few readers that open files by
themselves (compiled ones) are given paths that Python had opened before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from support.corpus import CORPUS, SHARED

EVENTS = {"open", "os.listdir", "os.scandir", "sqlite3.connect", "subprocess.Popen"}
_opened: list[str] | None = None  # None: nobody asks
_PLACE = str(SHARED)


def list_texts(value: object) -> Iterator[str]:
    """All paths and words among an audit event's arguments."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from list_texts(item)
    elif isinstance(value, (str, bytes, os.PathLike)):
        yield os.fsdecode(value)


def note_access(event: str, arguments: tuple[Any, ...]) -> None:
    """Remember what lies beside the checkout. Raises nothing: the product would report it."""
    if _opened is not None and event in EVENTS:
        first = arguments[0]
        if type(first) is str and event != "subprocess.Popen":  # nearly all of them
            if _PLACE in first:
                _opened.append(first)
            return
        # Of a program's start its words and folder count, not all of its environment.
        texts = list_texts(arguments[:3] if event == "subprocess.Popen" else arguments[:1])
        _opened.extend(text for text in texts if _PLACE in text)


sys.addaudithook(note_access)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs recordings that are not there; refuse a request for them without marker."""
    unmarked = []
    for item in items:
        if item.get_closest_marker("corpus") is None:
            if "corpus" in getattr(item, "fixturenames", ()):
                unmarked.append(item.nodeid)
        elif not CORPUS.is_dir():
            item.add_marker(pytest.mark.skip(reason="no ../shared/corpus beside the checkout"))
    if unmarked:
        names = "\n  ".join(unmarked)
        raise pytest.UsageError(f"tests that ask for `corpus` without its marker:\n  {names}")


def watch(item: pytest.Item) -> Generator[None, object, object]:
    """Fail what opened a recording in this phase of a test without the marker."""
    global _opened
    if item.get_closest_marker("corpus") is not None:
        return (yield)
    before, _opened = _opened, []
    try:
        result = yield
    finally:
        opened, _opened = _opened, before
    if opened:
        pytest.fail(f"opened {opened[0]} without the marker `corpus`", pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from watch(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from watch(item))
