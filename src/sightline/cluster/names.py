"""Which names may come in: of clusters, nodes, metrics and parts, each confined to its letters.

Names of clusters are folders of the store, so they have no separator and no leading dot: a tag of
a line is not a path (cc-backend 1.5.4: path traversal through tags of the line protocol).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(?:\.[A-Za-z0-9_-]{1,64}){0,4}")
_LONGEST = 100  # ours; a folder's name has 255 bytes at most
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_./:-]{0,99}")
_ELEMENT = re.compile(r"[A-Za-z0-9_.:/-]{0,100}")
# ClusterCockpit's types (cc-lib, schema.MetricScope).
SCOPES = ("node", "socket", "die", "memoryDomain", "llc", "core", "hwthread", "accelerator")


class Series(NamedTuple):
    """What a value is of: a metric of a part of a node. `element` is "" of a whole node."""

    cluster: str
    host: str
    metric: str
    scope: str
    element: str
    unit: str


def is_cluster(text: str) -> bool:
    """Whether a text may be a cluster's name, which is a folder's."""
    return len(text) <= _LONGEST and _CLUSTER.fullmatch(text) is not None


def is_host(text: str) -> bool:
    """Whether a text may be a node's name."""
    return _HOST.fullmatch(text) is not None and ".." not in text


def is_metric(text: str) -> bool:
    """Whether a text may be a metric's name."""
    return _METRIC.fullmatch(text) is not None and ".." not in text


def is_element(text: str) -> bool:
    """Whether a text may name a part of a node: 0, 0000:3b:00.0, 1/mig3."""
    return _ELEMENT.fullmatch(text) is not None and ".." not in text
