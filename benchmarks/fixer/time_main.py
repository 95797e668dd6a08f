"""Runs a program's main() and appends how long that took, in seconds: imports are not counted.

python time_main.py PROGRAM SECONDS_FILE
"""

import importlib.util
import sys
import time
from pathlib import Path


def main() -> None:
    path, seconds_file = Path(sys.argv[1]), Path(sys.argv[2])
    sys.argv[:] = [str(path)]
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"measured_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = program
    spec.loader.exec_module(program)
    began = time.perf_counter()
    program.main()
    took = time.perf_counter() - began
    with seconds_file.open("a") as file:
        file.write(f"{took}\n")


if __name__ == "__main__":
    main()
