"""A corpus whose words are counted letter by letter."""

import random

import sightline as sl

WORDS, STEPS = 20_000, 300


def make_text(generator: random.Random) -> str:
    """Words of six letters with spaces between them."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(generator.choices(letters, k=6)) for _ in range(WORDS))


def split_text(text: str) -> list[str]:
    """The words of a text."""
    words, word = [], ""
    for letter in text:
        if letter == " ":
            words.append(word)
            word = ""
        else:
            word = word + letter
    return [*words, word]


def count_words(text: str) -> dict[str, int]:
    """How often each word occurs."""
    counts: dict[str, int] = {}
    for word in split_text(text):
        counts[word] = counts.get(word, 0) + 1
    return counts


def main() -> None:
    generator = random.Random(0)
    text = make_text(generator)
    for _ in range(STEPS):
        count_words(text)
        sl.step()


if __name__ == "__main__":
    main()
