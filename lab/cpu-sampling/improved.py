"""The same with what Python brings along."""

import random
from collections import Counter

import sightline as sl

WORDS, STEPS = 20_000, 300


def make_text(generator: random.Random) -> str:
    """Words of six letters with spaces between them."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(generator.choices(letters, k=6)) for _ in range(WORDS))


def count_words(text: str) -> dict[str, int]:
    """How often each word occurs."""
    return Counter(text.split(" "))


def main() -> None:
    generator = random.Random(0)
    text = make_text(generator)
    for _ in range(STEPS):
        count_words(text)
        sl.step()


if __name__ == "__main__":
    main()
