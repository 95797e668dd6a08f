"""What the report says of a counter that only rises: nothing where there is nothing to say."""

from __future__ import annotations

import pytest

import sightline
from sightline.answer import marks

HEADER = "#Entity   TOTEC    POWER\nID        mJ       W\n"


@pytest.mark.parametrize(
    ("energies", "rise"),
    [
        ([5000, 6000, 9000], 4.0),
        ([5000], None),  # one reading says nothing of what was used
        ([5000, 9000, 200, 300], None),  # the driver was reloaded
        ([5000, 5000], 0.0),
    ],
)
def test_the_rise_of_an_energy_counter(tmp_path, energies, rise):
    path = tmp_path / "dmon.txt"
    path.write_text(HEADER + "".join(f"GPU 0     {value}   300\n" for value in energies))
    told = {row["metric"]: row for row in marks._counters(sightline.open(str(path)))}
    assert told["energy"]["rise"] == rise
    assert told["power"]["mean"] == 300
