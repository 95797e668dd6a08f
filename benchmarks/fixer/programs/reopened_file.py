"""Opens its log anew for each line."""

import tempfile
from pathlib import Path


def write_lines(path: Path, count: int) -> None:
    for number in range(count):
        with path.open("a") as log:
            log.write(f"line {number}\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        write_lines(path, 40_000)
        print(path.stat().st_size)


if __name__ == "__main__":
    main()
