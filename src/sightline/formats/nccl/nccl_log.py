"""Logs of NCCL (NCCL_DEBUG=INFO or WARN): over which transports its channels run, and warnings.

A communicator is named by its id, as NCCL's Inspector and RAS name it. Logs of nccl-tests, in which
such lines stand too, are read by their own importer, with the same tables.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._stacks import read_text
from sightline.formats.nccl._failures import judge_network, list_failures, strip_tags
from sightline.formats.nccl._nccl_log import (
    find_version,
    note_missing_channels,
    note_warnings,
    read_channels,
    split_log,
)

IMPORTER = Importer(
    name="nccl_log",
    label="Log of NCCL",
    strong=(),
    weak=(rb"\w:\d+:\d+ \[-?\d+\](?: \S{1,120})? NCCL (?:INFO|WARN) ",),
    looks_like="text with 'host:71:92 [0] NCCL INFO'",
    suffixes=(".log", ".out", ".txt"),
    in_logs=(b" NCCL INFO ", b" NCCL WARN "),
    version=7,
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-debug",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all of NCCL's lines. Raises DamagedError where none says anything that is kept."""
    quality: list[Quality] = []
    text = strip_tags(read_text(source, quality))
    rest, said = split_log(text)
    channels = read_channels(said)
    warnings = [*note_warnings(said), *judge_network(said, channels), *list_failures(text)]
    if channels.is_empty() and not warnings:
        raise DamagedError(
            f"cannot read {source.given}",
            why="NCCL's lines in it are neither channels nor warnings",
            hint="Channels are written with  NCCL_DEBUG=INFO",
        )
    quality += note_missing_channels(said, rest)
    world = channels.get_column("group_size").max()
    recording = Recording("NCCL", tool_version=find_version(said), world_size=world)  # type: ignore[arg-type]
    return Imported({"nccl_channels": channels}, recording, [*quality, *warnings])
