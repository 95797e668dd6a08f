"""What is told while something takes long: what, how much, how long still; a program's end."""

from __future__ import annotations

import threading
from pathlib import Path

from sightline.core.model.run_folder import STOPPING
from sightline.record.collect import doing
from sightline.record.collect.finishing import measure_large


class Listener:
    """Keeps what was said, and waits until something is."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._heard = threading.Event()

    def __call__(self, text: str) -> None:
        self.said.append(text)
        self._heard.set()

    def wait(self) -> str:
        """The last that was said, once there is something new."""
        assert self._heard.wait(30)
        self._heard.clear()
        return self.said[-1]


def test_what_how_much_and_how_long_still() -> None:
    """100 of 400 MB after 3 s: the other 300 take 9."""
    told = doing.tell_state("traces are compressed", 3.0, lambda: (100_000_000, 400_000_000))
    assert told == "traces are compressed: 100.0 MB of 400.0 MB, 3 s so far, 9 s left"


def test_what_nobody_knows_the_whole_of() -> None:
    assert doing.tell_state("x", 2.0, lambda: (5_000_000, None)) == "x: 5.000 MB, 2 s so far"
    assert doing.tell_state("x", 2.0) == "x, 2 s so far"


def test_short_work_says_nothing() -> None:
    said: list[str] = []
    with doing.Doing(said.append, "x"):
        pass
    assert said == []


def test_long_work_is_told() -> None:
    listener = Listener()
    with doing.Doing(listener, "samples of stacks are written"):
        assert listener.wait() == "samples of stacks are written, 1 s so far"


def test_a_profiler_that_stops_and_writes(tmp_path: Path) -> None:
    """The recorded process marks that; of the trace it is known how much is there."""
    listener = Listener()
    watch = doing.EndingWatch(tmp_path, "abcdefgh", listener)
    mark = tmp_path / f"{STOPPING}rank0-abcdefgh-4242.torch-0"
    mark.touch()
    assert listener.wait().startswith("PyTorch's profiler stops (process 4242), 1 s so far")
    (tmp_path / ".part-4242-rank0-abcdefgh-4242.torch-0.json").write_bytes(b"x" * 3_000_000)
    written = "PyTorch's profiler writes its trace (process 4242): 3.000 MB, "
    assert listener.wait().startswith(written)
    mark.unlink()
    assert watch.stop() >= 1_000_000_000


def test_the_program_ended_when_it_did() -> None:
    assert doing.say_after(3_100_000_000, 0) == "3.100 s"
    assert doing.say_after(39_550_000_000, 36_450_000_000) == (
        "3.100 s, and its profiler stopped and wrote for 36.45 s more"
    )


def test_what_is_still_to_be_compressed(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"rank{number}-abcdefgh-7.torch-0.json").write_bytes(b" " * (9 << 20))
    (tmp_path / "rank3-abcdefgh-7.torch-0.json").write_bytes(b" ")
    large = measure_large(tmp_path, "abcdefgh")
    assert (large.bytes, large.measure_done()) == (18 << 20, 0)
    (tmp_path / "rank1-abcdefgh-7.torch-0.json").unlink()
    assert large.measure_done() == 9 << 20
