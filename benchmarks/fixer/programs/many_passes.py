"""Walks all orders once for each customer."""

import random


def sum_by_customer(orders: list[tuple[int, int]], customers: int) -> list[int]:
    return [sum_orders_of(orders, customer) for customer in range(customers)]


def sum_orders_of(orders: list[tuple[int, int]], customer: int) -> int:
    total = 0
    for owner, amount in orders:
        if owner == customer:
            total += amount
    return total


def main() -> None:
    generator = random.Random(0)
    orders = [(generator.randrange(500), generator.randrange(100)) for _ in range(60_000)]
    print(max(sum_by_customer(orders, 500)))


if __name__ == "__main__":
    main()
