"""Clocks that were held down, and devices that had no work."""

from sightline.registry import Family

FAMILY = Family("devices", "Devices")
