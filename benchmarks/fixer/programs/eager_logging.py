"""Writes the whole state for a line of a log that nobody has asked for."""

import logging
import pprint

log = logging.getLogger("engine")


def take_step(state: dict[str, list[int]], step: int) -> None:
    log.debug("state: " + pprint.pformat(state))
    state["a"][step % 40] += step


def main() -> None:
    state = {name: list(range(40)) for name in "abcdefgh"}
    for step in range(800):
        take_step(state, step)
    print(sum(state["a"]))


if __name__ == "__main__":
    main()
