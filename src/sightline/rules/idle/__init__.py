"""The device had nothing to do: who kept it waiting."""

from sightline.registry import Family

FAMILY = Family("idle", "Idle time")
