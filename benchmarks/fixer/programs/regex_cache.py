"""Looks for more patterns than the module re keeps compiled, so each is compiled for each line."""

import re

PATTERNS = [rf"\bcode-{number}[a-f]+\b" for number in range(700)]


def count_matches(lines: list[str]) -> int:
    found = 0
    for line in lines:
        for pattern in PATTERNS:
            if re.search(pattern, line):
                found += 1
    return found


def main() -> None:
    lines = [f"at {number}: code-{number * 5}abc went away" for number in range(20)]
    print(count_matches(lines))


if __name__ == "__main__":
    main()
