"""Writes the simulated recordings in examples/, with the generator that the tests use.

No GPU took part: tests/synth simulates streams, launches and collectives, and writes down what a
PyTorch profiler would have recorded.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from synth import kineto, scenarios  # noqa: E402


def main() -> None:
    single = scenarios.dataloader_starved()
    several = scenarios.straggler()
    with tempfile.TemporaryDirectory() as scratch:
        (written,) = kineto.write(single, Path(scratch), dialect="2025", gz=True)
        shutil.move(written, HERE / "simulated-dataloader.json.gz")
    folder = HERE / "simulated-straggler"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kineto.write(several, folder, dialect="2025", gz=True)


if __name__ == "__main__":
    main()
