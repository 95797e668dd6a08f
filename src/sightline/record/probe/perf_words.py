"""The words of calls out of the registers and the piece of the stack that were sampled."""

from __future__ import annotations

from typing import Any

import numpy as np

from sightline.record.probe.functions import (
    CONFIG_DRIVER,
    CONFIG_RUNTIME,
    CONSTANT,
    GRID_BY_NUMBER,
    GRID_BY_VALUE,
    NO_FACTOR,
    NO_WORD,
    RETURNS_POINTER,
    Function,
)
from sightline.record.probe.processors import Processor

Array = np.ndarray[Any, Any]


def list_words(
    function: Function, registers: Array, stack: Array, processor: Processor
) -> tuple[Array, Array]:
    """The words of calls (n × 5), and the addresses of the names that they were given.

    registers: n × those that are sampled; stack: n × words from the stack pointer on.
    """
    count, inside = len(registers), len(processor.arguments)
    arguments = np.zeros((count, 10), "<u8")
    arguments[:, :inside] = registers[:, processor.arguments]
    first = processor.call_bytes // 8
    arguments[:, inside:] = stack[:, first : first + 10 - inside]
    words = np.zeros((count, 5), "<u8")
    low = np.uint64(0xFFFFFFFF)
    if function.shape == GRID_BY_VALUE:
        words[:, 0], words[:, 1] = arguments[:, 0], arguments[:, 1]
        words[:, 2] = arguments[:, 2] & low | arguments[:, 6] << 32
        x, y, z = arguments[:, 3], arguments[:, 3] >> 32, arguments[:, 4]
        words[:, 3], words[:, 4] = _pack_block(x, y, z), arguments[:, 7]
    elif function.shape == GRID_BY_NUMBER:
        words[:, 0] = arguments[:, 0]
        words[:, 1] = arguments[:, 1] & low | arguments[:, 2] << 32
        words[:, 2] = arguments[:, 3] & low | arguments[:, 7] << 32
        words[:, 3] = _pack_block(arguments[:, 4], arguments[:, 5], arguments[:, 6])
        words[:, 4] = arguments[:, 8]
    elif function.shape in (CONFIG_RUNTIME, CONFIG_DRIVER):
        words[:, 0] = arguments[:, 1]
        _take_config(words, arguments[:, 0], registers[:, processor.stack], stack)
    else:
        for place, which in enumerate(function.words):
            if which >= CONSTANT:
                words[:, place] = which - CONSTANT
            elif which != NO_WORD:
                words[:, place] = arguments[:, which]
        if function.factor != NO_FACTOR:
            words[:, 2] *= arguments[:, function.factor]
        words[:, 2] <<= np.uint64(function.shift)
        if function.flags & RETURNS_POINTER:
            words[:, 0] = 0  # what was allocated is behind it, and comes later
    text = arguments[:, function.text] if function.text < 6 else np.zeros(count, "<u8")
    return words, text


def _pack_block(x: Array, y: Array, z: Array) -> Array:
    mask = np.uint64(0xFFFF)
    return x & mask | (y & mask) << 16 | (z & mask) << 32


def _take_config(words: Array, address: Array, sp: Array, stack: Array) -> None:
    """A launch's configuration where it lies in the piece of the stack that was taken."""
    place = (address - sp).astype(np.int64)
    data = np.ascontiguousarray(stack).view("<u4")
    inside = (place >= 0) & (place % 4 == 0) & (place + 40 <= data.shape[1] * 4)
    rows = np.flatnonzero(inside)
    config = data[rows[:, None], place[rows, None] // 4 + np.arange(10)].astype("<u8")
    words[rows, 1] = config[:, 0] | config[:, 1] << 32
    words[rows, 2] = config[:, 2] | config[:, 6] << 32
    words[rows, 3] = _pack_block(config[:, 3], config[:, 4], config[:, 5])
    words[rows, 4] = config[:, 8] | config[:, 9] << 32
