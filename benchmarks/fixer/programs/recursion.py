"""Counts ways through a grid, each of them again and again."""


def count_ways(rows: int, columns: int) -> int:
    if rows == 0 or columns == 0:
        return 1
    return count_ways(rows - 1, columns) + count_ways(rows, columns - 1)


def main() -> None:
    print(count_ways(13, 12))


if __name__ == "__main__":
    main()
