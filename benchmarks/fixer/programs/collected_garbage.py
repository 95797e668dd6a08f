"""Asks for a collection of garbage after each request, to be sure."""

import gc

TABLE = [{"id": number} for number in range(60_000)]


def handle_request(number: int) -> int:
    found = TABLE[number % len(TABLE)]["id"]
    gc.collect()
    return found


def main() -> None:
    print(sum(handle_request(number) for number in range(300)))


if __name__ == "__main__":
    main()
