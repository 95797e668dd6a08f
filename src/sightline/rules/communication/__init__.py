"""Exposed collectives, pipelines, and ranks that come late."""

from sightline.registry import OF_RANK, Family

FAMILY = Family("communication", "Communication", share_without_device=OF_RANK)
