"""`python -m sightline`: the `sightline` command."""

import sys

from sightline.doors.cli.main import start

if __name__ == "__main__":
    sys.exit(start())
