"""memory-at-peak: what is there when most is there."""

from __future__ import annotations

from pathlib import Path

from support.rules import answers, assert_silent
from support.snapshots import Entry, alloc, frames, free, opened, snapshot
from support.traces import kernel, launched
from support.traces import opened as opened_trace
from support.training import MAKE, STEP


def test_weights_and_states(tmp_path: Path) -> None:
    """100 bytes of weights and 300 of states, which stay; the peak has both."""
    events: list[Entry] = [alloc(1, 100, 1, MAKE)]
    events += [alloc(1000 * n, 100, 1 + n, STEP) for n in (1, 2, 3)]
    events += [alloc(9000, 50, 9, MAKE), *free(9000, 50, 10)]
    (found,) = answers(opened(tmp_path, snapshot(events, [])), "memory-at-peak")
    assert found.summary == (
        "At the peak of 450 B on GPU 0: optimizer state 66.7 %, parameter 22.2 %, temporary 11.1 %."
    )
    assert found.evidence == (
        "300 B in 3 blocks: step (t.py:3)",
        "without optimizer state, the peak would be 300 B lower",
    )
    assert "8 bits" in found.fix
    assert (found.cost.amount, found.gain, found.severity) == (300, None, "info")


def test_a_tensor_that_is_large_as_a_whole(tmp_path: Path) -> None:
    """Logits of this round beside those of the last one: 800 of 900 bytes in two blocks."""
    head = frames("model.py:77:forward", "t.py:1:run")
    events: list[Entry] = [alloc(1, 100, 1, MAKE)]
    for n in range(4):
        events.append(alloc(10_000 * (n + 1), 400, 2 + 2 * n, head))
        if n:
            events += free(10_000 * n, 400, 3 + 2 * n)
    run = opened(tmp_path, snapshot(events, []))
    (found,) = answers(run, "memory-at-peak")
    assert "forward (model.py:77) holds 800 B of it in 2 blocks." in found.summary
    assert "take the loss in chunks" in found.fix
    assert answers(run, "forward-kept") == []


def test_a_timeline_has_other_things_to_say(tmp_path: Path) -> None:
    assert_silent(opened_trace(tmp_path, launched(0, kernel("k", 20, 600))), "memory-at-peak")


def test_states_from_before_the_recording(tmp_path: Path) -> None:
    """A step computes two states of 100 bytes anew and lets go of those before them.

    What zero_grad lets go of is no state, though it is in the same file.
    """
    zero = frames("/x/torch/optim/optimizer.py:9:zero_grad", "t.py:2:step")
    events: list[Entry] = [*free(900, 40, 1, zero), alloc(50, 30, 2, MAKE)]
    for n in (1, 2):
        events += [alloc(1000 * n, 100, 2 * n + 1, STEP), *free(100 * n, 100, 2 * n + 2, STEP)]
    run = opened(tmp_path, snapshot(events, []))
    (found,) = answers(run, "memory-at-peak")
    # 240 bytes were there before, of which 40 are gone at the peak; then 30, 100, and no more.
    assert found.summary.startswith(
        "At the peak of 330 B on GPU 0: optimizer state 90.9 %, parameter 9.1 %"
    )
    assert "8 bits" in (found.fix or "")


def test_what_was_made_beside_what_was_there_before(tmp_path: Path) -> None:
    """700 bytes are from earlier; of what was recorded, one place holds 200 of two rounds."""
    head, other = (
        frames("model.py:77:forward", "t.py:1:run"),
        frames("model.py:5:embed", "t.py:1:run"),
    )
    events: list[Entry] = []
    for n in range(4):
        events += [alloc(50_000 + n, 90, 10 * n + 1, other), *free(50_000 + n, 90, 10 * n + 3)]
        events.append(alloc(10_000 * (n + 1), 100, 10 * n + 2, head))
        if n:
            events += free(10_000 * n, 100, 10 * n + 4)
    events += free(900, 700, 99)
    (found,) = answers(opened(tmp_path, snapshot(events, [])), "memory-at-peak")
    assert "from earlier 77.8 %" in found.summary
    assert "while it was recorded, 200 B of it were made:" in found.evidence
    assert "without forward (model.py:77), the peak would be 110 B lower" in found.evidence
    assert "begin with forward (model.py:77): make it in pieces" in str(found.fix)
    assert "begin to record before the model is made" in str(found.fix)
