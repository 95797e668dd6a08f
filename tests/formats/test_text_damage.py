"""Bytes that are not text, lines of noise, lines that are cut, and names that are nearly known."""

from __future__ import annotations

import random

import pytest

from sightline.formats._text_damage import (
    count_cut,
    count_misspelt,
    count_misspelt_keys,
    is_nearly,
    is_noise,
    is_spliced,
    note_foreign_bytes,
)


def test_lines_of_noise_are_counted() -> None:
    chance = random.Random(5)
    noise = [bytes(chance.randrange(33, 127) for _ in range(60)) for _ in range(200)]
    assert sum(map(is_noise, noise)) >= 195
    text = b"Running: 3 reqs\n" + noise[0] + b"\nWaiting: 4 reqs\n"
    assert [(q.kind, q.count) for q in note_foreign_bytes(text)] == [("damaged_text", 1)]


@pytest.mark.parametrize(
    "line",
    [
        b"void at::native::elementwise<float,(int)4>(at::Tensor&,std::array<char*,3>)",
        b"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE",
        b"https://user@example.org/a/b?c=1&d=2#e",
        b"2026-05-27T20:14:33.123456+02:00,0,12.5,0x7f6feecbb6b8,N/A,[1;2]",
        b'{"a":1,"b":{"c":[1,2,3]},"d":"x\\n","e":"$HOME"}',
        b"aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0IG9mIGEgdGV4dA==",
        b"================================================================",
        b"<pci_bus_id>00000000:2D:00.0</pci_bus_id>",
        b"~/x.py:12!?",
    ],
)
def test_what_programs_print_is_no_noise(line: bytes) -> None:
    assert not is_noise(line)


def test_control_characters_are_counted() -> None:
    assert not note_foreign_bytes(b"\x1b[1mbold\x1b[0m\t50 %\r100 %\x08\n")
    kinds = [(q.kind, q.count) for q in note_foreign_bytes(b"a;b\x01;c 3\nd\x1be 4\n")]
    assert kinds == [("damaged_text", 2)]


def test_lines_that_end_within_a_head() -> None:
    heads = ["[2026-05-27 20:14:33 TP0] Decode batch"]
    cut = ["[2026-05-27 2", "[2026-05-28 21:00:00 TP1] Dec", "[20"]
    whole = ["[2026-05-27 20:14:33] ready", "[2", "", "Decode batch", heads[0]]
    assert count_cut([*cut, *whole], heads) == 3


@pytest.mark.parametrize(
    ("word", "nearly"),
    [
        ("request_thr\ufffdughput", True),
        ("request_throughhput", True),
        ("requestthroughput", True),
        ("request_throughpu", True),
        ("request_throughputt", True),
        ("request_throughput", False),
        ("request_throughput_per_user", False),
        ("output_throughput", False),
        ("request_max_throughput", False),
        ("request_thrthroughput", True),
    ],
)
def test_names_that_are_nearly_known(word: str, nearly: bool) -> None:
    assert is_nearly(word, "request_throughput") is nearly


def test_keys_of_a_document_that_are_nearly_known() -> None:
    known = frozenset(("records", "start_time", "value"))
    whole = {"records": [{"start_time": 1, "value": 2}, {"start_time": 3, "worth": 4}]}
    assert count_misspelt_keys(whole, known) == 0
    damaged = {"rec\u00f3rds": [{"start_time": 1}, {"stxrt_time": 3}, {"stxrt_time": 4}]}
    assert count_misspelt_keys(damaged, known) == 3
    # A tool's other name beside the known one is no damage.
    assert count_misspelt_keys([{"value": 1, "valve": 2}], known) == 0


def test_a_name_is_misspelt_only_where_the_known_one_is_missing() -> None:
    known = ("mean", "max")
    assert count_misspelt(["mean", "mexn", "max"], known) == 0
    assert count_misspelt(["mexn", "max"], known) == 1


@pytest.mark.parametrize(
    ("word", "is_one"),
    [
        ("hostnamaccelerators", True),
        ("memory_headevice_id", True),
        ("code_object_id", False),  # a word of its own: its parts meet at a mark
        ("kernelName", False),
        ("sgpr_count", False),
        ("hostname", False),
    ],
)
def test_names_that_became_one(word: str, is_one: bool) -> None:
    known = {
        "hostname", "accelerators", "memory_health", "device_id", "code_object_offset",
        "correlation_id", "object_id", "kernelId", "lastName", "size", "arch_vgpr_count",
    }  # fmt: skip
    assert is_spliced(word, known - {word}, known) is is_one
