"""What splits or parses the text of a format alone, for format_speed.py.

Each takes the file's bytes, drops what it finds, and does what a reader in plain Python cannot do
without; none makes a table.
"""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import deque
from collections.abc import Callable, Iterable
from decimal import Decimal

import polars as pl

_NCCL = re.compile(
    r"([\w.-]+):(\d+):(\d+) \[-?\d+\] NCCL (\w+) Channel (\d+)/\w+ : (\d+)\[\w+\] -> (\d+)"
)
_MODULE = re.compile(r"^( *)(?:\((\w{1,200})\): )?([A-Za-z_]\w{0,200})\((.*)$", re.M)


def drop(found: Iterable[object]) -> None:
    """Goes through all of it and keeps none."""
    deque(found, maxlen=0)


def parse_lines(data: bytes) -> None:
    drop(json.loads(line) for line in data.splitlines())


def parse_xml(data: bytes) -> None:
    for _, element in ElementTree.iterparse(io.BytesIO(data)):
        element.clear()


def split_cells(data: bytes) -> None:
    drop(csv.reader(data.decode().splitlines(), skipinitialspace=True))


def split_blanks(data: bytes) -> None:
    drop(line.split() for line in data.decode().splitlines())


def split_from_right(data: bytes) -> None:
    drop(line.rsplit(",", 43) for line in data.decode().splitlines())


def split_stacks(data: bytes) -> None:
    drop(line.rpartition(" ")[0].split(";") for line in data.decode().splitlines())


FLOORS: dict[str, Callable[[bytes], object]] = {
    "rocprof-compute": lambda data: pl.read_csv(data),
    "rocprofv3 JSON": json.loads,
    "thread trace (ATT)": json.loads,
    "speedscope": json.loads,
    "tritonparse": parse_lines,
    "Caliper JSON": lambda data: json.loads(data, parse_float=Decimal),
    "HPCToolkit XML": parse_xml,
    "unitrace stalls": split_cells,
    "unitrace metrics": split_from_right,
    "nvidia-smi dmon": split_blanks,
    "folded stacks": split_stacks,
    "NCCL log": lambda data: drop(map(_NCCL.match, data.decode().splitlines())),
    "DeepSpeed FLOPs": lambda data: drop(_MODULE.finditer(data.decode())),
}
