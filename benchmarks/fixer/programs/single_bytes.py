"""Reads a file byte by byte, each by a call of the system."""

import os
import tempfile


def count_lines(path: str) -> int:
    file = os.open(path, os.O_RDONLY)
    lines = 0
    while byte := os.read(file, 1):
        lines += byte == b"\n"
    os.close(file)
    return lines


def main() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"some words in a line\n" * 35_000)
        file.flush()
        print(count_lines(file.name))


if __name__ == "__main__":
    main()
