"""Finds primes by dividing each number by all that are smaller than its root."""


def find_primes(limit: int) -> list[int]:
    primes = []
    for number in range(2, limit):
        divisor = 2
        while divisor * divisor <= number and number % divisor:
            divisor += 1
        if divisor * divisor > number:
            primes.append(number)
    return primes


def main() -> None:
    print(sum(find_primes(280_000)))


if __name__ == "__main__":
    main()
