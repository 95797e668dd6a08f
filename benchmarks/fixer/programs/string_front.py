"""Writes a number's digits by putting each in front of all before it."""


def write_binary(number: int) -> str:
    digits = ""
    while number:
        digits = str(number % 2) + digits
        number //= 2
    return digits or "0"


def main() -> None:
    ones = 0
    for number in range(1, 160_000):
        ones += write_binary(number * 7919).count("1")
    print(ones)


if __name__ == "__main__":
    main()
