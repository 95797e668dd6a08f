"""Exposed collectives, pipelines, and ranks that come late."""

from sightline.registry import Family

FAMILY = Family("communication", "Communication")
