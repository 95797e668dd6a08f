"""What of sightline is installed here: the version, the compiled reader, the HTML pages.

The reader is built from native/ and the pages from web/ when a wheel is made (pyproject.toml). A
wheel can lack the pages, where neither Node nor npm's registry could be reached; a checkout that
was never installed lacks both.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from sightline.errors import MissingDataError
from sightline.version import __version__

PAGES = ("report", "flame")
ASSETS = Path(__file__).parents[1] / "assets"
_AGAIN = (
    "install sightline again where Node.js 20.19 or newer, or PyPI, and registry.npmjs.org can be "
    "reached"
)


def has_compiled_reader() -> bool:
    """Whether the compiled reader is installed; it is not loaded."""
    return find_spec("sightline._native") is not None


def has_pages() -> bool:
    """Whether all HTML pages are installed."""
    return all((ASSETS / f"{name}.html").is_file() for name in PAGES)


# What is built only where its tools were found: what it is, its file, and what it takes.
_BUILT = (
    (
        "GPU recorder (CUPTI)",
        "libraries/libsightline-cupti.so",
        "install sightline again where CUPTI's headers are, as  make  fetches them",
    ),
    ("probes by eBPF", "probe/calls.bpf.o", "install clang, and then sightline again"),
)


def _has_built(file: str) -> bool:
    """Whether a part that is built beside the compiled reader, or in the package, is there."""
    spec, package = find_spec("sightline._native"), find_spec("sightline")
    folders = [Path(spec.origin).parent] if spec is not None and spec.origin else []
    folders += map(Path, (package and package.submodule_search_locations) or ())
    return any((folder / file).is_file() for folder in folders)


def describe_installation() -> str:
    """What `sightline --version` prints: one line for each part."""
    parts = [
        f"{name}: {'yes' if _has_built(file) else f'no; {needed}'}" for name, file, needed in _BUILT
    ]
    reader = "yes" if has_compiled_reader() else "no; it is built when sightline is installed"
    pages = "yes" if has_pages() else f"no; {_AGAIN}"
    python = sys.version.split()[0]  # `platform` takes 5 ms to load
    lines = [f"sightline {__version__} (Python {python})", f"compiled reader: {reader}"]
    return "\n".join([*lines, f"HTML pages: {pages}", *parts])


def load_page(name: str, instead: str) -> str:
    """The built page of that name. Raises MissingDataError, whose hint offers `instead`."""
    source = ASSETS / f"{name}.html"
    if not source.is_file():
        raise MissingDataError(
            "this installation has no HTML pages",
            why="they could not be built when sightline was installed",
            hint=f"Without them:  {instead}\nTo have them, {_AGAIN}.",
        )
    return source.read_text(encoding="utf-8")
