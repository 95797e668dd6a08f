"""Copies a whole template, with all that is in it, to change one field."""

import copy

TEMPLATE = {"name": "", "rows": [{"id": number, "tags": ["a", "b"]} for number in range(60)]}


def make_record(name: str) -> dict[str, object]:
    record = copy.deepcopy(TEMPLATE)
    record["name"] = name
    return record


def main() -> None:
    print(sum(len(str(make_record(f"r{number}")["name"])) for number in range(3_000)))


if __name__ == "__main__":
    main()
