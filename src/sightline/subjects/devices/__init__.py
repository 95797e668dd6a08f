"""Clocks that were held down, and devices that had no work."""

from sightline.core.registry import Subject

SUBJECT = Subject("devices", "Devices")
