"""Runs a program's main() and appends how long its work took, in seconds; imports are not counted.

python time_main.py PROGRAM SECONDS_FILE

Of a program that marks its steps, the time from the end of the first to the end of the last: the
first one compiles, allocates and loads, and what a finding promises is a share of the others. Else
all of main().
"""

import importlib.util
import sys
import time
from pathlib import Path

import sightline

LEAST_STEPS = 3


def main() -> None:
    path, seconds_file = Path(sys.argv[1]), Path(sys.argv[2])
    sys.argv[:] = [str(path)]
    sys.path.insert(0, str(path.parent))
    steps: list[float] = []
    sightline.step = lambda: steps.append(time.perf_counter())
    spec = importlib.util.spec_from_file_location(f"measured_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = program
    spec.loader.exec_module(program)
    began = time.perf_counter()
    program.main()
    took = time.perf_counter() - began
    if len(steps) >= LEAST_STEPS:
        took = steps[-1] - steps[0]
    with seconds_file.open("a") as file:
        file.write(f"{took}\n")


if __name__ == "__main__":
    main()
