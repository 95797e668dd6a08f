"""Exposed collectives, pipelines, and ranks that come late."""

from sightline.core.registry import OF_RANK, Subject

SUBJECT = Subject("communication", "Communication", share_without_device=OF_RANK, in_steps=True)
