"""Arrow files whose batches claim bytes that they have not: Polars would end the process."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import polars as pl
import pytest

from sightline.formats.nvidia._nsys.arrow_file import check_arrow_file
from support.as_folder import write_folder
from support.command import sightline
from synth_nsys import Export

FRAME = pl.DataFrame({"number": [1, 2, 3], "name": ["a" * 20, "b" * 30, None]})
OLDEST = pl.CompatLevel.oldest()
TOO_LONG = struct.pack("<q", 1 << 59)


def written(path: Path, **options: object) -> bytes:
    FRAME.write_ipc(path, **options)
    return path.read_bytes()


@pytest.mark.parametrize("packed", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("level", [OLDEST, None], ids=["oldest", "newest"])
def test_whole_files(packed, level, tmp_path):
    written(tmp_path / "a.arrow", compression=packed, compat_level=level)
    check_arrow_file(tmp_path / "a.arrow")
    assert pl.read_ipc(tmp_path / "a.arrow").equals(FRAME)


def test_dictionaries(tmp_path):
    frame = FRAME.with_columns(pl.col("name").cast(pl.Categorical))
    frame.write_ipc(tmp_path / "a.arrow")
    check_arrow_file(tmp_path / "a.arrow")
    assert pl.read_ipc(tmp_path / "a.arrow").equals(frame)


def test_a_column_that_claims_more_than_its_batch(tmp_path):
    data = written(tmp_path / "a.arrow", compression="uncompressed")
    # The numbers: 24 bytes from the start of the body on.
    place = data.index(struct.pack("<qq", 0, 24)) + 8
    (tmp_path / "a.arrow").write_bytes(data[:place] + TOO_LONG + data[place + 8 :])
    with pytest.raises(OSError, match="outside of its batch"):
        check_arrow_file(tmp_path / "a.arrow")


def test_a_packed_column_that_claims_more_than_its_rows(tmp_path):
    data = written(tmp_path / "a.arrow", compression="zstd")
    place = data.index(struct.pack("<q", 24) + b"\x28\xb5\x2f\xfd")  # zstd's magic number
    (tmp_path / "a.arrow").write_bytes(data[:place] + TOO_LONG + data[place + 8 :])
    with pytest.raises(OSError, match="than its rows can hold"):
        check_arrow_file(tmp_path / "a.arrow")


def test_any_damage_is_an_error_of_ours_or_none(tmp_path):
    data, rng, refused = written(tmp_path / "a.arrow", compression="lz4"), Random(5), 0
    for _ in range(2000):
        made = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            place, bad = rng.randrange(len(made) - 8), [TOO_LONG, bytes(8), b"\xff" * 8]
            made[place : place + 8] = rng.choice([*bad, rng.randbytes(8)])
        end = rng.choice([len(made), rng.randrange(len(made))])
        (tmp_path / "a.arrow").write_bytes(made[:end])
        try:
            check_arrow_file(tmp_path / "a.arrow")
        except OSError as error:
            assert str(error)
            refused += 1
    # Some of the damage is in the values themselves, which may be any.
    assert 1000 < refused < 2000


def test_the_table_is_left_out_and_named(tmp_path):
    """Asked as a person asks: an abort would take this test's own process with it."""
    export = Export()
    export.kernel("k", 0, 10, 1)
    folder = write_folder(export.write(tmp_path / "e.sqlite"), tmp_path / "run.arrowdir", "arrow")
    victim = folder / "StringIds.arrow"
    strings = pl.DataFrame({"id": [0, 1, 2], "value": ["k", "l", "m"]})
    strings.write_ipc(victim, compression="uncompressed")
    data = victim.read_bytes()
    place = data.index(struct.pack("<qq", 0, 24)) + 8
    victim.write_bytes(data[:place] + TOO_LONG + data[place + 8 :])
    outcome = sightline("sql", str(folder), "FROM quality")
    assert outcome.code == 0, outcome.err
    assert "StringIds" in outcome.out
