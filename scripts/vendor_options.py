#!/usr/bin/env python3
"""Check each option of the vendors' tools that sightline types, or tells people to type.

    scripts/vendor_options.py FOLDER            what a tool there does not know
    scripts/vendor_options.py FOLDER --write    and what was checked, into tests/vendor_options.tsv

FOLDER holds what was unpacked of the tools' packages, or texts called TOOL@VERSION
(docs/contributing.md says how to get them). Tools whose help is not there keep what the table says
of them. An option that a version lacks is right where the table notes why it is typed all the same.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.typed_options import collect_typed
from support.vendor_helps import list_helps
from support.vendor_table import check_options, read_table, write_table


def main() -> int:
    """Print what is unknown; 1 where there is anything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    helps = list_helps(asked.folder)
    print("checked:", ", ".join(f"{h.tool} {h.version}" for h in helps) or "nothing")
    rows, wrong = check_options(list(collect_typed()), helps, read_table())
    print("".join(f"{line}\n" for line in wrong), end="")
    if asked.write:
        write_table(rows)
    print(f"{len(rows)} options, {len(wrong)} unknown")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
