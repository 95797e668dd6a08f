"""The cache of imports: where it is, how large, and how to empty it.

  sightline cache              where it is and its size
  sightline cache clear        remove it

SIGHTLINE_CACHE names the folder that it lies in, SIGHTLINE_CACHE_BYTES its
limit (20 GB). Only what sightline wrote there is ever removed.
"""

from __future__ import annotations

import argparse

HELP = "where imports are cached; clear removes them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["show", "clear"], default="show")


def run(args: argparse.Namespace) -> int:
    from sightline.core.model.cache_folder import find_cache_folder
    from sightline.core.units import format_bytes
    from sightline.opening import cache

    if args.action == "clear":
        print(f"{format_bytes(cache.clear_cache())} freed")
        return 0
    folder = find_cache_folder()
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.is_dir() else 0
    print(f"{folder}\n{format_bytes(size)}")
    return 0
