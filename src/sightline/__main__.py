"""`python -m sightline`: the `sightline` command."""

import sys

from sightline.cli.main import start

if __name__ == "__main__":
    sys.exit(start())
