"""Packages that one command needs, and a reader of recordings does not: asked for when it runs."""

from __future__ import annotations

import importlib
from types import ModuleType

from sightline.errors import RequestError


def load_package(module: str, package: str, what: str) -> ModuleType:
    """A module of a package that need not be installed.

    `what` says what cannot be done without it. Raises RequestError, with the command that installs
    the package itself: on PyPI, `sightline` is another project.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise RequestError(
            what,
            why=f"the package {package} is not installed",
            hint=f"Install it:  pip install {package}",
        ) from error
