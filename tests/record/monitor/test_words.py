"""What is said of a GPU, by its readings."""

from __future__ import annotations

import pytest

from sightline.record.monitor.words import BAD, GOOD, POOR, QUIET, describe_gpu

AT_WORK = {"GPU utilization": 100.0, "SM active": 92.0, "tensor active": 56.0, "DRAM active": 20.0}


@pytest.mark.parametrize(
    ("values", "grade", "text"),
    [
        (AT_WORK | {"tensor active": 71.0}, GOOD, "Limited by the tensor pipe: SM active 92 %,"),
        (AT_WORK | {"DRAM active": 88.0}, GOOD, "Limited by memory bandwidth: SM active 92 %,"),
        (AT_WORK | {"tensor active": 11.0}, POOR, "Occupied but waiting: SM active 92 %,"),
        (AT_WORK | {"SM active": 70.0}, POOR, "Partly used: SM active 70 %"),
        (AT_WORK | {"SM active": 30.0}, POOR, "Mostly idle: SM active 30 %"),
        (AT_WORK | {"SM active": 4.0}, BAD, "Busy by nvidia-smi, idle in fact: SM active 4 %"),
        ({"GPU utilization": 0.0, "SM active": 0.0, "power": 70.0}, QUIET, "Idle at 70 W."),
        (
            {"GPU utilization": 0.0, "memory used": 60e9, "power": 120.0},
            POOR,
            "Idle at 120 W, with 60.00 GB of its memory taken.",
        ),
        ({"GPU utilization": 97.0}, GOOD, "A kernel runs for 97 % of the time; how much"),
        ({"temperature": 40.0}, QUIET, "Its utilization is not known."),
        (
            AT_WORK | {"DRAM active": 88.0, "clock event reasons": 4.0, "SM clock": 1410.0},
            POOR,
            "DRAM 88 %. Clocks lowered to 1410 MHz: power cap.",
        ),
    ],
)
def test_words(values: dict[str, float], grade: str, text: str) -> None:
    told = describe_gpu(values, {})
    assert told.grade == grade
    assert text in told.text


def test_a_gpu_that_is_gone() -> None:
    told = describe_gpu({"XID": 79.0}, {"*": "GPU is lost"})
    assert told == (BAD, "It does not answer: GPU is lost (XID 79).")
    assert describe_gpu({}, {}).text == "It does not answer: no reading."


def test_what_the_driver_asks_for_is_said_first() -> None:
    told = describe_gpu(AT_WORK | {"recovery action": 2.0}, {})
    assert told.grade == BAD
    assert told.text.startswith(
        "The driver asks for recovery (node reboot): reboot the node. Occupied but waiting:"
    )
    assert "recovery action 9, which is newer" in describe_gpu({"recovery action": 9.0}, {}).text
