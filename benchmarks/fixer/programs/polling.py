"""Looks every 50 ms whether a worker is done that needs a few."""

import queue
import threading
import time


def work(jobs: queue.Queue, results: list[int]) -> None:
    while (job := jobs.get()) is not None:
        results.append(sum(range(job)))
        jobs.task_done()


def wait_for_result(jobs: queue.Queue, results: list[int], count: int) -> None:
    while len(results) < count:
        time.sleep(0.05)


def main() -> None:
    jobs: queue.Queue = queue.Queue()
    results: list[int] = []
    threading.Thread(target=work, args=(jobs, results), daemon=True).start()
    for number in range(30):
        jobs.put(100_000 + number)
        wait_for_result(jobs, results, number + 1)
    print(sum(results))


if __name__ == "__main__":
    main()
