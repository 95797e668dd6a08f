"""Energy out of samples, with its uncertainty."""

from __future__ import annotations

import pytest

from sightline.record.nvml.summary import measure_energy


def test_energy_has_an_error_bar_of_two_updates():
    ms = 1_000_000
    counter = [(0, 10.0), (50 * ms, 10.0), (100 * ms, 40.0), (150 * ms, 40.0), (200 * ms, 70.0)]
    power = [(0, 300.0), (100 * ms, 300.0), (200 * ms, 300.0)]
    found = measure_energy(counter, power)
    assert found["energy_j"] == 60.0
    # The longest time between two changes is 100 ms: 30 J at 300 W, at both ends.
    assert found["energy_error_j"] == pytest.approx(60.0)
    assert found["energy_by_power_j"] == pytest.approx(300 * 0.2)
    assert abs(found["energy_by_power_j"] - found["energy_j"]) <= found["energy_error_j"]
