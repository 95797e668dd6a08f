"""Two threads write what they waited for, and hold the lock while they wait."""

import threading
import time

LOCK = threading.Lock()
TOTALS: list[int] = []


def fetch(number: int) -> int:
    time.sleep(0.01)  # a server's answer
    return number


def work(numbers: range) -> None:
    for number in numbers:
        with LOCK:
            TOTALS.append(fetch(number))


def main() -> None:
    threads = [threading.Thread(target=work, args=(range(first, 140, 2),)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(TOTALS))


if __name__ == "__main__":
    main()
