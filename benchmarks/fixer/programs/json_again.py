"""Parses the same settings for each request."""

import json

SETTINGS = json.dumps({f"key-{number}": {"limit": number, "on": True} for number in range(400)})


def read_settings() -> dict[str, dict[str, int]]:
    return json.loads(SETTINGS)


def answer(request: int) -> int:
    return read_settings()[f"key-{request % 400}"]["limit"]


def main() -> None:
    print(sum(answer(request) for request in range(5_000)))


if __name__ == "__main__":
    main()
