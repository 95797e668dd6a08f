"""Reads dates by a format, though they are written in the one that Python knows."""

from datetime import datetime


def read_dates(lines: list[str]) -> int:
    total = 0
    for line in lines:
        total += datetime.strptime(line, "%Y-%m-%dT%H:%M:%S").day
    return total


def main() -> None:
    lines = [f"2024-03-{1 + number % 28:02}T10:{number % 60:02}:00" for number in range(110_000)]
    print(read_dates(lines))


if __name__ == "__main__":
    main()
