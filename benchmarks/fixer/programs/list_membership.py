"""Counts distinct words; those that were seen are kept in a list."""

import random


def count_distinct(words: list[str]) -> int:
    seen: list[str] = []
    for word in words:
        if word not in seen:
            seen.append(word)
    return len(seen)


def main() -> None:
    generator = random.Random(0)
    words = [f"w{generator.randrange(4000)}" for _ in range(20_000)]
    print(count_distinct(words))


if __name__ == "__main__":
    main()
