"""What each stage took: a clock that is told what time it is."""

from __future__ import annotations

import threading

from sightline.core import stages
from sightline.core.stages import REST, START, Moment, Stages, write_table

SECOND = 1_000_000_000


class Clock:
    """Each reading is a wall second and half a processor second after the last."""

    def __init__(self) -> None:
        self.readings = 0

    def __call__(self) -> Moment:
        self.readings += 1
        return Moment(self.readings * SECOND, self.readings * SECOND // 2, self.readings * 10**6)


def keep() -> Stages:
    return Stages(Clock(), Moment(0, 0, 0))


def seconds(took: dict[str, Moment]) -> dict[str, float]:
    return {name: moment.wall_ns / SECOND for name, moment in took.items()}


def test_a_stage_inside_another_takes_its_time_off_that_one() -> None:
    kept = keep()  # 0 to 1 s: the start
    with kept.enter("read"), kept.enter("store"):  # 1 to 2 and 3 to 4 s, 2 to 3 s
        pass
    with kept.enter("read"):  # 4 to 5 s is not a stage's, 5 to 6 s
        pass
    took = kept.finish()  # until 7 s
    assert seconds(took) == {START: 1, "read": 3, "store": 1, REST: 2}
    assert sum(m.cpu_ns for m in took.values()) == 3.5 * SECOND


def test_a_stage_that_fails_ends() -> None:
    kept = keep()
    try:
        with kept.enter("read"):
            raise ValueError
    except ValueError:
        pass
    assert seconds(kept.finish()) == {START: 1, "read": 1, REST: 1}


def test_other_threads_change_nothing() -> None:
    kept = keep()
    with kept.enter("rules"):
        thread = threading.Thread(target=lambda: kept.enter("read").__enter__())
        thread.start()
        thread.join()
    assert seconds(kept.finish()) == {START: 1, "rules": 1, REST: 1}


def test_without_a_record_nothing_is_read(monkeypatch) -> None:
    monkeypatch.setattr(stages, "_stages", None)
    monkeypatch.setattr(stages, "read_moment", None)
    with stages.stage("read"):
        reached = True
    assert reached


def test_the_table_sums_to_the_whole() -> None:
    took = {START: Moment(SECOND, SECOND, 10**6), "read": Moment(3 * SECOND, 6 * SECOND, 10**9)}
    assert write_table(took) == (
        "stage                          s      %  CPU s  cores  peak MB\n"
        "start Python, load modules  1.00   25.0   1.00    1.0        1\n"
        "read                        3.00   75.0   6.00    2.0    1,000\n"
        "the whole                   4.00  100.0   7.00    1.8    1,000\n"
    )


def test_a_process_knows_its_age() -> None:
    kept = stages.Stages(stages.read_moment, stages.read_moment())
    assert kept.finish()[START].wall_ns >= 0
    assert 0 <= stages._measure_age_ns() < 3_600 * SECOND * 24
