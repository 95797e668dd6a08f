"""Whose a bucket is, and which bucket a store has: what keeps two services out of one archive."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from sightline.cluster.bucket import Bucket
from sightline.cluster.sealing import (
    CHECKPOINT,
    pack_checkpoint,
    unpack_checkpoint,
    write_checkpoint,
)
from sightline.cluster.shelf import OF_JOBS, Folder
from sightline.core.whole_file import write_whole
from sightline.errors import InputError

_NOTE = "bucket.json"  # of a store: its own name, and where its jobs lie
_TAKING = "taking-over"
_TRIES = 5
# Numbers of checkpoints that a store which is gone may still use: hundreds of years of them.
_LEFT_OUT = 10_000_000


class TakenError(OSError):
    """Another store has the bucket now."""


def read_note(root: Path) -> dict[str, str]:
    """The store's name and bucket; empty where it has none. Raises InputError of a damaged one."""
    place = root / _NOTE
    if not place.is_file():
        return {}
    try:
        held = json.loads(place.read_bytes())
        return {"store": str(held["store"]), "bucket": str(held["bucket"])}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{place} is damaged", why=str(error)) from error


def refuse_without(root: Path) -> None:
    """Raises InputError where the jobs of a store that is opened without a bucket lie in one."""
    bucket = read_note(root).get("bucket")
    if bucket:
        raise InputError(
            f"the jobs of {root} lie in {bucket}",
            why="the configuration names no bucket",
            hint=f'Write  bucket = "{bucket}"  beside  store = …',
        )


def join_bucket(root: Path, url: str, *, take_over: bool = False) -> tuple[Bucket, str]:
    """Make the bucket this store's, with what its folder has of jobs; and the store's name.

    Of a bucket whose machine is gone `take_over` reads the last checkpoint, into an empty folder.
    Raises InputError where it is another store's or does not answer, RequestError.
    """
    try:
        bucket = Bucket(url)
        return bucket, _join(root, bucket, take_over=take_over)
    except OSError as error:
        raise InputError(
            f"{url} cannot be used",
            why=str(error),
            hint="Keys, region and endpoint are in the environment: AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL (and AWS_ALLOW_HTTP=true for "
            "an http:// one)",
        ) from error


def _join(root: Path, bucket: Bucket, *, take_over: bool) -> str:
    note = read_note(root)
    if note and note["bucket"] != bucket.url:
        raise InputError(
            f"the jobs of {root} lie in {note['bucket']}",
            why=f"the configuration says {bucket.url}",
            hint="Copy all objects there, checkpoint and owner too, and write the new address "
            f"into {root / _NOTE}",
        )
    name = note.get("store") or secrets.token_hex(8)
    owner, mark = bucket.read_owner()
    if owner == name and (root / _TAKING).is_file():  # a kill came between
        _take_checkpoint(root, name, bucket)
    elif owner == name:
        bucket.read_checkpoint()
    elif not owner:
        _write_note(root, name, bucket)
        if not bucket.write_owner(name, mark):
            raise _say_taken(bucket)
        bucket.read_checkpoint()
    else:
        _take_over(root, name, bucket, mark, take_over=take_over)
    _move_in(Folder(root), bucket)
    return name


def check_owner(bucket: Bucket, name: str) -> None:
    """Raises TakenError where the bucket is no longer this store's, OSError."""
    if bucket.read_owner()[0] != name:
        raise _say_over(bucket)


def commit_checkpoint(bucket: Bucket, name: str, data: bytes) -> None:
    """Write a store's checkpoint over its last one. Raises TakenError where that is another's.

    One of its own that it does not know of is one whose answer was lost.
    """
    if bucket.write_checkpoint(data):
        return
    known = bucket.read_checkpoint()
    if known is None or _read_name(known) == name:
        check_owner(bucket, name)
        if bucket.write_checkpoint(data):
            return
    raise _say_over(bucket)


def _read_name(data: bytes) -> str:
    try:
        return str(unpack_checkpoint(data, "checkpoint").get("store", ""))
    except InputError:
        return ""


def _say_over(bucket: Bucket) -> TakenError:
    return TakenError(
        f"{bucket.url}: another service has taken it over; nothing is written there any more"
    )


def _say_taken(bucket: Bucket) -> InputError:
    return InputError(
        f"{bucket.url} is the archive of another service",
        why="two services would remove each other's files",
        hint='Give this one a folder of its own:  bucket = "s3://BUCKET/OTHER" . Where the '
        "other's machine is gone:  sightline cluster serve --take-over",
    )


def _take_over(root: Path, name: str, bucket: Bucket, mark: str | None, *, take_over: bool) -> None:
    if not take_over:
        raise _say_taken(bucket)
    if (root / CHECKPOINT).is_file() and not (root / _TAKING).is_file():
        raise InputError(
            f"{root} has jobs of its own",
            why=f"what is taken over from {bucket.url} goes into an empty folder",
            hint="Write another  store = …",
        )
    write_whole(root / _TAKING, b"")  # a kill from here on is no reason to refuse the next one
    _write_note(root, name, bucket)
    if not bucket.write_owner(name, mark):
        raise _say_taken(bucket)
    _take_checkpoint(root, name, bucket)


def _take_checkpoint(root: Path, name: str, bucket: Bucket) -> None:
    """The last checkpoint, made this store's: from then on the other one commits nothing.

    What it was writing has a number of those that are left out here, whenever it arrives.
    """
    for _ in range(_TRIES):
        data = bucket.read_checkpoint()
        if data is None:
            held: dict[str, Any] = {"number": 0, "series": [], "running": [], "dropped": []}
        else:
            held = unpack_checkpoint(data, f"{bucket.url}/checkpoint")
        last = held["number"]
        until = (last // _LEFT_OUT + 1) * _LEFT_OUT
        gaps = [*held.get("gaps", ()), [last + 1, until]]
        held |= {"number": until, "gaps": gaps, "store": name}
        data = pack_checkpoint(held)
        if bucket.write_checkpoint(data):
            write_checkpoint(root, data)
            (root / _TAKING).unlink()
            return
    raise TakenError(f"{bucket.url}: its checkpoint changes too often to be taken over")


def _write_note(root: Path, name: str, bucket: Bucket) -> None:
    write_whole(root / _NOTE, json.dumps({"store": name, "bucket": bucket.url}).encode())


def _move_in(folder: Folder, bucket: Bucket) -> None:
    """Files of jobs that a store has from before it had a bucket; again after a kill."""
    for kind in OF_JOBS:
        names = folder.list_parts(kind)
        for name in names:
            bucket.add(name, (folder.root / name).read_bytes())
        folder.remove(names)
